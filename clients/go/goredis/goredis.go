// Package goredis provides locks of lock.so on go-redis v9.
package goredis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"lockso"
)

const (
	// How many connections there are at most for short commands, to each server.
	mostShort = 16
	// How many idle connections are kept for later waits, and for how long.
	mostIdle    = 16
	longestIdle = 30 * time.Second
	// The limit for the reply to a short command, and for writing a command.
	shortWithin = 3 * time.Second
	// The limit for connecting, also if nobody waits for it any more.
	longest = 5 * time.Second
)

// New creates a client for locks with the settings of rdb: a *redis.Client, of a server or made by NewFailoverClient
// for Sentinel, or a *redis.ClusterClient. Connections are not shared with rdb, whose pool may be full: short commands
// have a pool of their own, and each wait has a connection. Hooks and limiters of rdb are not used.
//
// Close it before rdb: with Sentinel, rdb is still used to find the master. There is an error if rdb is of another
// type.
func New(rdb redis.UniversalClient, options ...lockso.ClientOption) (*lockso.Client, error) {
	b, err := newBackend(rdb)
	if err != nil {
		return nil, err
	}
	return lockso.New(b, options...), nil
}

func newBackend(rdb redis.UniversalClient) (*backend, error) {
	b := &backend{failed: func() {}, opening: make(chan struct{}, 1)}
	switch rdb := rdb.(type) {
	case *redis.Client:
		if rdb == nil {
			break
		}
		options := own(rdb.Options())
		dial := options.Dialer
		options.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err == nil {
				b.master.Store(conn.RemoteAddr().String()) // which a client for Sentinel does not tell
			}
			return conn, err
		}
		control := redis.NewClient(options)
		b.find = func(context.Context, string) (*redis.Client, error) { return control, nil }
		b.close = control.Close
		return b, nil
	case *redis.ClusterClient:
		if rdb == nil {
			break
		}
		control := redis.NewClusterClient(ownCluster(rdb.Options()))
		b.cluster, b.find, b.close = true, control.MasterForKey, control.Close
		b.failed = func() { control.ReloadState(context.Background()) }
		return b, nil
	}
	return nil, fmt.Errorf("lockso: no locks on a %T: give it a *redis.Client or a *redis.ClusterClient", rdb)
}

// own copies the user's options that concern the server, but not those that would disturb locks: retries, a small pool,
// time-outs, pipelining.
func own(options *redis.Options) *redis.Options {
	o := *options
	o.MaxRetries, o.DialerRetries = -1, 1
	o.ContextTimeoutEnabled = true
	o.ReadTimeout, o.WriteTimeout = shortWithin, shortWithin
	o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns, o.MaxConcurrentDials = mostShort, 0, 0, 0, 0
	o.PoolTimeout, o.ConnMaxLifetime, o.ConnMaxLifetimeJitter = 0, 0, 0
	o.PipelinePoolSize, o.AutoPipelineOptions = -1, nil
	o.Limiter, o.PushNotificationProcessor = nil, nil
	o.ClientSideCacheConfig, o.ClientSideCache = nil, nil
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &o
}

func ownCluster(options *redis.ClusterOptions) *redis.ClusterOptions {
	o := *options
	o.MaxRetries, o.DialerRetries = -1, 1
	o.ContextTimeoutEnabled = true
	o.ReadTimeout, o.WriteTimeout = shortWithin, shortWithin
	o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns, o.MaxConcurrentDials = mostShort, 0, 0, 0, 0
	o.PoolTimeout, o.ConnMaxLifetime, o.ConnMaxLifetimeJitter = 0, 0, 0
	o.PipelinePoolSize, o.AutoPipelineOptions = -1, nil
	o.PushNotificationProcessor = nil
	o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &o
}

type backend struct {
	find   func(ctx context.Context, key string) (*redis.Client, error) // for short commands to the master of the key
	failed func()                                                       // looks the nodes of a cluster up again
	close  func() error

	cluster bool
	master  atomic.Value  // the address of the master that was connected last
	opening chan struct{} // held while the first connection for short commands is opened

	mu     sync.Mutex
	idle   []*wire // the one that was used last is at the end
	closed bool
}

func (b *backend) Do(ctx context.Context, cmd lockso.Command) (any, error) {
	node, err := b.find(ctx, cmd.Key())
	if err != nil {
		b.failed()
		return nil, answered(err)
	}
	return b.process(ctx, node, cmd)
}

func (b *backend) Address(key string) string {
	if !b.cluster {
		node, _ := b.find(context.Background(), key)
		if master, ok := b.master.Load().(string); ok {
			return master
		}
		return node.Options().Addr
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if node, err := b.find(ctx, key); err == nil {
		return node.Options().Addr
	}
	return "the cluster"
}

func (b *backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, w := range b.idle {
		w.client.Close()
	}
	b.idle = nil
	return b.close()
}

type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

func (b *backend) process(ctx context.Context, to processor, cmd lockso.Command) (any, error) {
	args := make([]any, len(cmd.Args))
	for i, arg := range cmd.Args {
		args[i] = arg
	}
	c := redis.NewCmd(ctx, args...)
	err := to.Process(ctx, c)
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		b.failed()
		return nil, answered(err)
	}
	return c.Val(), nil
}

// answered marks error replies of the server; every other error is a lost connection.
func answered(err error) error {
	if reply, ok := errors.AsType[redis.Error](err); ok {
		return lockso.ServerError(reply)
	}
	return err
}

// wire is one connection: a client whose pool has one connection, because a client can be closed during a read.
type wire struct {
	client  *redis.Client
	conn    *redis.Conn // always the same connection: a session is bound to it
	address string
	since   time.Time // since when it is idle
}

// Conn returns an idle connection to the node, or makes one.
func (b *backend) Conn(ctx context.Context, within time.Duration, key, address string) (lockso.Conn, error) {
	if !b.cluster {
		node, _ := b.find(ctx, key)
		if node.PoolStats().TotalConns > 0 {
			if w := b.pop(cmp.Or(address, node.Options().Addr)); w != nil {
				return &conn{backend: b, wire: w}, nil
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	node, err := b.find(ctx, key)
	if err != nil {
		b.failed()
		return nil, answered(err)
	}
	if err := b.prepare(ctx, node); err != nil {
		b.failed()
		return nil, answered(err)
	}
	options := own(node.Options())
	options.ReadTimeout, options.PoolSize = -1, 1 // the deadline of the context limits reads
	if address != "" {
		options.Addr, options.NodeAddress = address, ""
	}
	if w := b.pop(options.Addr); w != nil {
		return &conn{backend: b, wire: w}, nil
	}
	// A server that does not respond would be waited for as long as for a lock.
	w, err := await(ctx, b.push, func(ctx context.Context) (*wire, error) {
		client := redis.NewClient(options)
		w := &wire{client: client, conn: client.Conn(), address: options.Addr}
		err := w.conn.Ping(ctx).Err()
		if err != nil {
			client.Close()
		}
		return w, err
	})
	if err != nil {
		b.failed()
		return nil, answered(err)
	}
	return &conn{backend: b, wire: w}, nil
}

// prepare opens a connection for short commands, before waits take the last one that the server accepts.
func (b *backend) prepare(ctx context.Context, node *redis.Client) error {
	if node.PoolStats().TotalConns > 0 {
		return nil
	}
	select {
	case b.opening <- struct{}{}:
		defer func() { <-b.opening }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if node.PoolStats().TotalConns > 0 {
		return nil
	}
	_, err := await(ctx, func(string) {}, func(ctx context.Context) (string, error) { return node.Ping(ctx).Result() })
	return err
}

// await calls a function that connects, and waits for it until ctx ends. Then it goes on connecting, and its result is
// kept: a try over a slow network has no time to connect, and the next one needs what it began.
func await[T any](ctx context.Context, keep func(T), connect func(context.Context) (T, error)) (T, error) {
	type result struct {
		made T
		err  error
	}
	done := make(chan result, 1)
	go func() {
		long, cancel := context.WithTimeout(context.WithoutCancel(ctx), longest)
		defer cancel()
		made, err := connect(long)
		done <- result{made, err}
	}()
	select {
	case r := <-done:
		return r.made, r.err
	case <-ctx.Done():
	}
	go func() {
		if r := <-done; r.err == nil {
			keep(r.made)
		}
	}()
	var none T
	return none, ctx.Err()
}

func (b *backend) pop(address string) *wire {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := len(b.idle) - 1; i >= 0; i-- {
		if w := b.idle[i]; w.address == address && time.Since(w.since) < longestIdle {
			b.idle = append(b.idle[:i], b.idle[i+1:]...)
			return w
		}
	}
	return nil
}

// push keeps a connection for the next wait, and closes those that have been idle for too long.
func (b *backend) push(w *wire) {
	w.since = time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idle = append(b.idle, w)
	for len(b.idle) > 0 && (b.closed || len(b.idle) > mostIdle || time.Since(b.idle[0].since) > longestIdle) {
		b.idle[0].client.Close()
		b.idle = b.idle[1:]
	}
}

// drop closes a connection and all idle connections to the same node, which were probably lost for the same reason.
func (b *backend) drop(w *wire) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.client.Close()
	kept := b.idle[:0]
	for _, idle := range b.idle {
		if idle.address == w.address {
			idle.client.Close()
		} else {
			kept = append(kept, idle)
		}
	}
	b.idle = kept
}

// conn is a lockso.Conn.
type conn struct {
	backend *backend
	wire    *wire
	done    atomic.Bool // kept or closed
}

func (c *conn) Do(ctx context.Context, cmd lockso.Command) (any, error) {
	return c.backend.process(ctx, c.wire.conn, cmd)
}

func (c *conn) Close() {
	if !c.done.Swap(true) {
		c.backend.drop(c.wire)
	}
}

func (c *conn) Keep() {
	if !c.done.Swap(true) {
		c.backend.push(c.wire)
	}
}
