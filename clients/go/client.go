// Package lockso provides distributed locks on a Redis or Valkey server that has loaded the module lock.so.
//
// The packages goredis and rueidis create a [Client]. It creates locks; an acquired lock is a [Hold]:
//
//	client, err := goredis.New(rdb) // rdb is a *redis.Client, of a server or of Sentinel, or a *redis.ClusterClient
//	lock := client.Lock("report", lockso.Lease(10*time.Second))
//	hold, err := lock.Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer hold.Unlock(ctx)
//
// Each acquisition has an owner of its own, so a lock can be used by many goroutines at once. It is not reentrant without
// [Reentrant].
// An acquisition that times out, or whose context ends, leaves nothing behind on the server: neither a wait nor a hold.
package lockso

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"lock-so.invalid/lock-so/clients/go/internal/transport"
)

const (
	noLimit = time.Duration(-1)
	day     = 24 * time.Hour

	// How late Lock returns at most: the reply to its last request, or to a request that was cancelled, is waited for
	// until replyTolerance, the holders until holdersTolerance, and the rest is for what the machine is late.
	tolerance        = 100 * time.Millisecond
	replyTolerance   = 60 * time.Millisecond
	holdersTolerance = 80 * time.Millisecond
	// How late the reply may be at the end of a blocking call that is not the last one, before its connection is
	// considered lost.
	slack = 2 * time.Second
	// How long Unlock waits after its context has ended, and Close for what is in progress.
	closeTimeout = 2 * time.Second
)

// Client creates locks. Many goroutines may use it at once.
//
// A client that is no longer reachable, nor any of its locks and holds, is closed.
type Client struct{ core *core }

// core is what the background work of a client refers to, so that a client that nobody refers to can be collected.
type core struct {
	backend        transport.Backend
	connectTimeout time.Duration
	maxBlock       time.Duration
	log            *slog.Logger
	name           string // of the server, by which locks are ordered
	cluster        bool
	connected      atomic.Bool   // a connection has succeeded
	gone           atomic.Bool   // the connections are closed
	idle           chan struct{} // closed when nothing is in progress any more after the beginning of Close
	agenda         agenda        // of all holds: renewals, and when leases expire

	mu      sync.Mutex
	closing bool
	busy    int // how many acquisitions, cancellations and releases are in progress; 1 more until Close
	waits   map[*acquisition]struct{}
	holds   map[anyHold]struct{}
}

// ClientOption changes a default of a client.
type ClientOption interface{ applyTo(*core) }

type clientOption func(*core)

func (o clientOption) applyTo(c *core) { o(c) }

// ConnectTimeout is how long an attempt to connect may take, and after what time Lock returns [ErrConnection] if no
// connection of the client has ever succeeded: 5 seconds by default, and more than 0, otherwise New returns [ErrOption].
// Once connected, waits survive outages.
func ConnectTimeout(d time.Duration) ClientOption {
	return clientOption(func(c *core) { c.connectTimeout = d })
}

// MaxBlock limits how long one command blocks: 30 seconds by default, a day at most, and more than 0, otherwise New returns
// [ErrOption]. Then the wait sends its request again, so that a server that stopped responding is noticed. The waiter loses
// its place in the queue, except in that of a fair lock.
func MaxBlock(d time.Duration) ClientOption {
	return clientOption(func(c *core) { c.maxBlock = min(d, day) })
}

// Logger is where outages and forgotten holds are logged, instead of slog.Default().
func Logger(log *slog.Logger) ClientOption { return clientOption(func(c *core) { c.log = log }) }

// ServerName is the name by which [Combine] orders the locks of several servers, instead of the host:port of the library's
// options, of a cluster the smallest, or with rueidis and Sentinel the name of the master. Set it to that name for a client
// of go-redis that NewFailoverClient made, whose options do not contain it.
func ServerName(name string) ClientOption { return clientOption(func(c *core) { c.name = name }) }

// New is for the packages goredis and rueidis. Close, or an error, closes the connections. connected means
// that one has succeeded already.
func New(backend transport.Backend, connected bool, options ...ClientOption) (*Client, error) {
	c := &core{
		backend: backend, connectTimeout: 5 * time.Second, maxBlock: 30 * time.Second, idle: make(chan struct{}), busy: 1,
		waits: map[*acquisition]struct{}{}, holds: map[anyHold]struct{}{},
	}
	c.connected.Store(connected)
	c.name, c.cluster = backend.Server()
	for _, option := range options {
		option.applyTo(c)
	}
	for name, d := range map[string]time.Duration{"ConnectTimeout": c.connectTimeout, "MaxBlock": c.maxBlock} {
		if d <= 0 {
			backend.Close()
			return nil, fmt.Errorf("%s must be greater than 0, not %v: %w", name, d, ErrOption)
		}
	}
	client := &Client{c}
	runtime.AddCleanup(client, func(c *core) { go c.close(true) }, c)
	return client, nil
}

// Close is Shutdown within two seconds.
func (c *Client) Close() error { return c.core.close(false) }

// Shutdown ends all waits with [ErrClosed], releases what is held, waits until ctx ends for what is in progress, and
// closes the connections. What could not be released by then ends when its lease expires. The user's own client stays
// open. The error is that of ctx, if something was left to do, or of the client library.
func (c *Client) Shutdown(ctx context.Context) error { return c.core.shutdown(ctx, false) }

func (c *core) close(forgotten bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return c.shutdown(ctx, forgotten)
}

func (c *core) shutdown(ctx context.Context, forgotten bool) error {
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		return nil
	}
	c.closing = true
	waits, holds := c.waits, c.holds
	c.waits, c.holds = nil, nil
	c.mu.Unlock()
	for a := range waits {
		a.cancel(ErrClosed)
	}
	for h := range holds {
		if forgotten {
			h.forget()
		} else {
			c.background(func() { h.unlock(ctx) })
		}
	}
	c.end()
	var err error
	select {
	case <-c.idle:
	case <-ctx.Done():
		err = ctx.Err()
	}
	c.gone.Store(true)
	if failed := c.backend.Close(); err == nil {
		err = failed
	}
	return err
}

func (c *core) warn(text string) {
	log := c.log
	if log == nil {
		log = slog.Default()
	}
	log.Warn(text)
}

// background runs a function that Close waits for, unless that has ended. done is closed at its end.
func (c *core) background(work func()) (done <-chan struct{}) {
	counted, ended := c.begin(), make(chan struct{})
	go func() {
		if counted {
			defer c.end()
		}
		defer close(ended)
		work()
	}()
	return ended
}

// begin counts an operation that Close waits for, until end, also while it closes. It returns false after that.
func (c *core) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy > 0 {
		c.busy++
	}
	return c.busy > 0
}

func (c *core) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy--
	if c.busy == 0 {
		close(c.idle)
	}
}

// enter counts an acquisition too, which Close ends, or with nil a short request, which it does not. It returns false if
// the client is closed.
func (c *core) enter(a *acquisition) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.busy++
	if a != nil {
		c.waits[a] = struct{}{}
	}
	return true
}

// leave ends an acquisition, and records its hold if it has one, which Close releases. It returns false if the client is
// closed: then the hold is released in the background.
func (c *core) leave(a *acquisition, h anyHold) bool {
	defer c.end()
	c.mu.Lock()
	closing := c.closing
	delete(c.waits, a)
	if h != nil && !closing {
		c.holds[h] = struct{}{}
	}
	c.mu.Unlock()
	if h != nil && closing {
		c.background(func() { h.unlock(context.Background()) })
	}
	return !closing
}

func (c *core) remove(h anyHold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.holds, h)
}

// Lock is LOCK.ACQUIRE: waiters are granted the lock in their order, but a newcomer may acquire it first if it is free.
func (c *Client) Lock(key string, options ...Option) *Lock {
	return c.lock(&spec{kind: "lock", command: "LOCK.ACQUIRE"}, []string{key}, options)
}

// Fair is LOCK.FAIR: the same lock, strictly first come, first served. A waiter keeps its place if its connection is
// lost.
func (c *Client) Fair(key string, options ...Option) *Lock {
	return c.lock(&spec{kind: "fair lock", command: "LOCK.FAIR", fair: true}, []string{key}, options)
}

// Read is LOCK.RWREAD: a read lock, which many owners may hold at once.
func (c *Client) Read(key string, options ...Option) *Lock {
	s := &spec{kind: "read lock", command: "LOCK.RWREAD", release: []string{"READ"}, tokenless: true}
	return c.lock(s, []string{key}, options)
}

// Write is LOCK.RWWRITE: a write lock, which one owner holds alone.
func (c *Client) Write(key string, options ...Option) *Lock {
	return c.lock(&spec{kind: "write lock", command: "LOCK.RWWRITE", release: []string{"WRITE"}}, []string{key}, options)
}

// Semaphore is LOCK.SEMAPHORE: at most limit permits are held at once, by all owners that use this limit.
func (c *Client) Semaphore(key string, limit int, options ...Option) *Lock {
	s := &spec{kind: "semaphore", command: "LOCK.SEMAPHORE", semaphore: true, limit: limit, tokenless: true}
	s.require(limit > 0, "limit must be at least 1, not %d", limit)
	lock := c.lock(s, []string{key}, options)
	s.release = []string{"PERMITS", strconv.Itoa(s.permits)}
	return lock
}

// Multi is LOCK.MACQUIRE: the locks of all keys, or none. In a cluster keys that share a slot, as {a}1 and {a}2 do, are
// acquired in one step, and those of several slots one slot after the other, in ascending order: see [Combine].
func (c *Client) Multi(keys []string, options ...Option) *Lock {
	return c.multi(keys, nil, options)
}

func (c *Client) multi(keys, modes []string, options []Option) *Lock {
	s := &spec{kind: "multi-key lock", command: "LOCK.MACQUIRE", multi: true, modes: modes, tokenless: true}
	s.require(len(keys) > 0, "keys must not be empty")
	return c.lock(s, slices.Clone(keys), options)
}

// Modes are the keys of a multi-key lock that is read or written: reading is shared, as with [Client.Read], writing is
// exclusive, as with [Client.Write]. A key that is in both is written.
type Modes struct{ Read, Write []string }

// MultiModes is LOCK.MACQUIRE with MODES: all keys, each to read or to write, or none.
func (c *Client) MultiModes(keys Modes, options ...Option) *Lock {
	read := slices.DeleteFunc(slices.Clone(keys.Read), func(key string) bool { return slices.Contains(keys.Write, key) })
	modes := slices.Concat(slices.Repeat([]string{"READ"}, len(read)), slices.Repeat([]string{"WRITE"}, len(keys.Write)))
	return c.multi(slices.Concat(read, keys.Write), modes, options)
}

func (c *Client) lock(s *spec, keys []string, options []Option) *Lock {
	s.maxBlock = c.core.maxBlock
	s.configure(keys, options)
	return &Lock{&single{client: c, spec: s}}
}

// configure sets the defaults and then the options.
func (s *spec) configure(keys []string, options []Option) {
	s.keys = keys
	s.wait, s.renew, s.permits = noLimit, true, 1
	if s.blocking == nil {
		s.lease = 30 * time.Second
	}
	for _, option := range options {
		option.apply(s)
	}
}

// call sends a short command, again and again while its error is transient, until it has a reply or ctx ends.
// resent means that an earlier attempt may have been executed too.
func (c *core) call(ctx context.Context, cmd transport.Command) (reply any, resent bool, err error) {
	var to route
	for p := (pause{}); ; {
		reply, err = c.once(ctx, cmd, to)
		if err == nil || !passing(err) || c.gone.Load() || cmd.Once && lost(err) {
			return reply, resent, err
		}
		resent = resent || lost(err)
		to = redirection(err)
		if p.idle(err); !p.sleep(ctx) {
			return nil, resent, err
		}
	}
}

func (c *core) once(ctx context.Context, cmd transport.Command, to route) (any, error) {
	end, _ := ctx.Deadline() // there is always one
	left := time.Until(end)
	if limit := transport.ShortWithin + cmd.Takes; left > limit {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	if to.address == "" && !cmd.Waits {
		return c.backend.Do(ctx, cmd)
	}
	conn, err := c.backend.Conn(ctx, left, cmd.Key(), to.address)
	if err != nil {
		return nil, err
	}
	reply, err := perform(ctx, conn, to, cmd)
	finish(conn, err)
	return reply, err
}

// perform sends a command on a connection, after ASKING if an ASK redirection leads to this node.
func perform(ctx context.Context, conn transport.Conn, to route, cmd transport.Command) (any, error) {
	if to.asking {
		if _, err := conn.Do(ctx, transport.Command{Args: []string{"ASKING"}}); err != nil {
			return nil, err
		}
	}
	return conn.Do(ctx, cmd)
}

// finish gives a connection back after a reply, and closes it after a lost connection. It is also closed after an error
// reply that concerns the connection or its server (READONLY, UNBLOCKED), but not after one about the key's slot.
func finish(conn transport.Conn, err error) {
	code := codeOf(err)
	if err == nil || !passing(err) || code == "MOVED" || code == "ASK" || code == "TRYAGAIN" {
		conn.Keep()
	} else {
		conn.Close()
	}
}

// pause is the delay between attempts. It grows from 20 to 500 milliseconds.
type pause struct {
	last   time.Duration
	repeat int // how often it has not grown
}

// idle keeps the pause from growing after an error that other idle connections may have too, of which there may be 16.
func (p *pause) idle(err error) {
	if (lost(err) || codeOf(err) == "READONLY") && p.repeat < 16 {
		p.last, p.repeat = 0, p.repeat+1
	}
}

func (p *pause) next() time.Duration {
	p.last = min(max(2*p.last, 20*time.Millisecond), 500*time.Millisecond)
	return p.last
}

// sleep returns false, at once, when ctx ends.
func (p *pause) sleep(ctx context.Context) bool {
	select {
	case <-time.After(p.next()):
		return true
	case <-ctx.Done():
		return false
	}
}
