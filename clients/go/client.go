// Package lockso has distributed locks on a Redis or Valkey server that has loaded the module lock.so.
//
// A [Client] is made by lockso/goredis or lockso/rueidis. It makes locks; a lock makes holds:
//
//	client, err := goredis.New(rdb) // rdb is a *redis.Client, of a server or of Sentinel, or a *redis.ClusterClient
//	lock := client.Lock("report", lockso.Lease(10*time.Second))
//	hold, err := lock.Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer hold.Unlock(ctx)
//
// Each acquisition has an owner of its own, so a lock is not reentrant, and may be used by many goroutines at once.
// Whoever gives up, by its time or its context, leaves nothing behind on the server: neither a wait nor a hold.
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

	// So much later than it should a reply may come before its connection counts as lost: at the end of a turn of waiting,
	// and at the end of the time to wait, of which the caller is told within two seconds.
	slack     = 2 * time.Second
	lastSlack = time.Second
	// For so long a caller that gave up waits for what it asked for to be taken back. The taking back goes on behind it.
	politeness = 2 * time.Second
	// After so long the connection of a wait that was cancelled counts as dead.
	deadAfter = politeness * 3 / 4
	// For so long a short command may take before it is sent again on another connection.
	patience = 3 * time.Second
)

// Client makes locks. Many goroutines may use it at once.
type Client struct {
	backend Backend
	life    context.Context // ends when Close begins, and with it all waits
	die     context.CancelFunc
	idle    chan struct{} // closed when nothing is under way any more after that
	agenda  agenda        // of all holds: renewals, and the ends of leases

	mu   sync.Mutex
	busy int // how many acquisitions, takings back and releases are under way; 1 more until Close
}

// New makes a client on these connections, which it closes in the end. It is for packages such as lockso/goredis.
func New(backend Backend) *Client {
	c := &Client{backend: backend, idle: make(chan struct{}), busy: 1}
	c.life, c.die = context.WithCancel(context.Background())
	return c
}

// Close ends all waits with [ErrClosed], waits for what is being released, for two seconds at most, and closes the
// connections. Holds that were not released before end with their leases. The user's own client stays open.
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

// begin counts something that Close waits for, until end. It says false when it is too late for that.
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

// Lock is LOCK.ACQUIRE: who waits is granted the lock in turn, but a newcomer may find it free and be faster.
func (c *Client) Lock(key string, options ...Option) *Lock {
	return c.one("LOCK.ACQUIRE", key, options)
}

// Fair is LOCK.FAIR: the same lock, strictly first come, first served, also over a lost connection.
func (c *Client) Fair(key string, options ...Option) *Lock {
	lock := c.one("LOCK.FAIR", key, options)
	lock.spec.fair = true
	return lock
}

// Read is LOCK.RWREAD: many may read at once.
func (c *Client) Read(key string, options ...Option) *Lock {
	lock := c.one("LOCK.RWREAD", key, options)
	lock.spec.release = []string{"READ"}
	return lock
}

// Write is LOCK.RWWRITE: one writes alone.
func (c *Client) Write(key string, options ...Option) *Lock {
	lock := c.one("LOCK.RWWRITE", key, options)
	lock.spec.release = []string{"WRITE"}
	return lock
}

// Semaphore is LOCK.SEMAPHORE: at most limit permits are taken at once, by all who say this limit.
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

// call sends a short command until it is answered, and not with an error that passes, or ctx is over.
// resent says that an earlier try may have been carried out too.
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
	if end, _ := ctx.Deadline(); time.Until(end) > patience { // there always is one
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

// perform sends a command on a connection, to a node that was told to expect it if it was told to ask there.
func perform(ctx context.Context, conn Conn, to route, cmd Command) (any, error) {
	if to.asking {
		if _, err := conn.Do(ctx, Command{Args: []string{"ASKING"}}); err != nil {
			return nil, err
		}
	}
	return conn.Do(ctx, cmd)
}

// finish gives a connection back after an answer, whatever it was, and closes it otherwise.
// An error of the server may be one of the connection (READONLY, UNBLOCKED): that too is closed.
func finish(conn Conn, err error) {
	if err == nil || !passing(err) {
		conn.Keep()
	} else {
		conn.Close()
	}
}

// pause grows from 20 to 500 milliseconds.
type pause struct{ last time.Duration }

func (p *pause) next() <-chan time.Time {
	p.last = min(max(2*p.last, 20*time.Millisecond), 500*time.Millisecond)
	return time.After(p.last)
}

// sleep says false, and returns at once, when ctx is over.
func (p *pause) sleep(ctx context.Context) bool {
	select {
	case <-p.next():
		return true
	case <-ctx.Done():
		return false
	}
}
