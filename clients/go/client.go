// Package lockso provides distributed locks on a Redis or Valkey server that has loaded the module lock.so.
//
// The packages lockso/goredis and lockso/rueidis create a [Client]. It creates locks; an acquired lock is a [Hold]:
//
//	client, err := goredis.New(rdb) // rdb is a *redis.Client, of a server or of Sentinel, or a *redis.ClusterClient
//	lock := client.Lock("report", lockso.Lease(10*time.Second))
//	hold, err := lock.Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer hold.Unlock(ctx)
//
// Each acquisition has an owner of its own, so a lock is not reentrant, and many goroutines may use it at once.
// An acquisition that times out, or whose context ends, leaves nothing behind on the server: neither a wait nor a hold.
package lockso

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	forEver = time.Duration(-1)

	// How late a reply may be before its connection is considered lost: at the end of a blocking call (slack), and when
	// the wait times out (lastSlack), because Lock must return within two seconds of that.
	slack     = 2 * time.Second
	lastSlack = time.Second
	// How long a caller that gave up waits until its request is cancelled. Then the cancellation continues in the
	// background.
	politeness = 2 * time.Second
	// After this time without a reply, the connection of a cancelled wait is considered dead.
	deadAfter = politeness * 3 / 4
	// How long a short command may take before it is sent again on another connection.
	patience = 3 * time.Second
)

// Client creates locks. Many goroutines may use it at once.
type Client struct {
	backend Backend
	life    context.Context // ends when Close begins, which ends all waits
	die     context.CancelFunc
	idle    chan struct{} // closed when nothing is in progress any more after that
	agenda  agenda        // of all holds: renewals, and when leases expire

	mu   sync.Mutex
	busy int // how many acquisitions, cancellations and releases are in progress; 1 more until Close
}

// New creates a client on these connections, and Close closes them. It is for packages such as lockso/goredis.
func New(backend Backend) *Client {
	c := &Client{backend: backend, idle: make(chan struct{}), busy: 1}
	c.life, c.die = context.WithCancel(context.Background())
	return c
}

// Close ends all waits with [ErrClosed], waits at most two seconds for releases in progress, and closes the
// connections. Holds that were not released end when their leases expire. The user's own client stays open.
func (c *Client) Close() error {
	c.mu.Lock()
	first := c.life.Err() == nil
	c.die()
	c.mu.Unlock()
	if !first {
		return nil
	}
	c.end()
	select {
	case <-c.idle:
	case <-time.After(politeness):
	}
	return c.backend.Close()
}

// begin counts an operation that Close waits for, until end. It returns false if the client is closed already.
func (c *Client) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy == 0 {
		return false
	}
	c.busy++
	return true
}

func (c *Client) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy--
	if c.busy == 0 {
		close(c.idle)
	}
}

// Lock is LOCK.ACQUIRE: waiters are granted the lock in their order, but a newcomer may acquire it first if it is free.
func (c *Client) Lock(key string, options ...Option) *Lock {
	return c.one("LOCK.ACQUIRE", key, options)
}

// Fair is LOCK.FAIR: the same lock, strictly first come, first served. A waiter keeps its place if its connection is
// lost.
func (c *Client) Fair(key string, options ...Option) *Lock {
	lock := c.one("LOCK.FAIR", key, options)
	lock.spec.fair = true
	return lock
}

// Read is LOCK.RWREAD: a read lock, which many owners may hold at once.
func (c *Client) Read(key string, options ...Option) *Lock {
	lock := c.one("LOCK.RWREAD", key, options)
	lock.spec.release = []string{"READ"}
	return lock
}

// Write is LOCK.RWWRITE: a write lock, which one owner holds alone.
func (c *Client) Write(key string, options ...Option) *Lock {
	lock := c.one("LOCK.RWWRITE", key, options)
	lock.spec.release = []string{"WRITE"}
	return lock
}

// Semaphore is LOCK.SEMAPHORE: at most limit permits are held at once, by all owners that use this limit.
func (c *Client) Semaphore(key string, limit int, options ...Option) *Lock {
	lock := c.one("LOCK.SEMAPHORE", key, options)
	lock.spec.limit = limit
	lock.spec.release = []string{"PERMITS", strconv.Itoa(lock.spec.permits)}
	return lock
}

// Multi is LOCK.MACQUIRE: the locks of all keys, or none. In a cluster the keys must share a slot, as {a}1 and {a}2 do.
func (c *Client) Multi(keys []string, options ...Option) *Lock {
	spec := newSpec("LOCK.MACQUIRE", slices.Clone(keys), options)
	spec.multi = true
	return &Lock{client: c, spec: spec}
}

func (c *Client) one(command, key string, options []Option) *Lock {
	return &Lock{client: c, spec: newSpec(command, []string{key}, options)}
}

// call sends a short command, again and again while its error is transient, until it has a reply or ctx ends.
// resent means that an earlier attempt may have been executed too.
func (c *Client) call(ctx context.Context, cmd Command) (reply any, resent bool, err error) {
	var to route
	for p := (pause{}); ; {
		reply, err = c.once(ctx, cmd, to)
		if err == nil || !passing(err) {
			return reply, resent, err
		}
		resent = resent || lost(err)
		to = redirection(err)
		if !p.sleep(ctx) {
			return nil, resent, err
		}
	}
}

func (c *Client) once(ctx context.Context, cmd Command, to route) (any, error) {
	if end, _ := ctx.Deadline(); time.Until(end) > patience { // there is always a deadline
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	if to.address == "" && !cmd.Waits {
		return c.backend.Do(ctx, cmd)
	}
	conn := c.backend.Conn(cmd.Key(), to.address)
	reply, err := perform(ctx, conn, to, cmd)
	finish(conn, err)
	return reply, err
}

// perform sends a command on a connection, after ASKING if an ASK redirection leads to this node.
func perform(ctx context.Context, conn Conn, to route, cmd Command) (any, error) {
	if to.asking {
		if _, err := conn.Do(ctx, Command{Args: []string{"ASKING"}}); err != nil {
			return nil, err
		}
	}
	return conn.Do(ctx, cmd)
}

// finish gives a connection back after a reply, and closes it after a lost connection. It is also closed after an error
// reply that concerns the connection (READONLY, UNBLOCKED).
func finish(conn Conn, err error) {
	if err == nil || !passing(err) {
		conn.Keep()
	} else {
		conn.Close()
	}
}

// pause is the delay between attempts. It grows from 20 to 500 milliseconds.
type pause struct{ last time.Duration }

func (p *pause) next() <-chan time.Time {
	p.last = min(max(2*p.last, 20*time.Millisecond), 500*time.Millisecond)
	return time.After(p.last)
}

// sleep returns false, at once, when ctx ends.
func (p *pause) sleep(ctx context.Context) bool {
	select {
	case <-p.next():
		return true
	case <-ctx.Done():
		return false
	}
}
