// Package goredis provides locks of lock.so on go-redis v9.
package goredis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"lockso"
)

const (
	// How many idle connections are kept for later waits, and for how long.
	mostIdle    = 16
	longestIdle = 30 * time.Second
	// The limit for establishing a connection, and for writing a command.
	readyWithin = 5 * time.Second
)

// New creates a client for locks with the settings of rdb: a *redis.Client, of a server or made by NewFailoverClient
// for Sentinel, or a *redis.ClusterClient. Connections are not shared with rdb, whose pool may be full: short commands
// have a pool of their own, and each wait has a connection. Hooks and limiters of rdb are not used.
//
// Close it before rdb: with Sentinel, rdb is still used to find the master. There is an error if rdb is of another
// type.
func New(rdb redis.UniversalClient) (*lockso.Client, error) {
	b, err := newBackend(rdb)
	if err != nil {
		return nil, err
	}
	return lockso.New(b), nil
}

func newBackend(rdb redis.UniversalClient) (*backend, error) {
	switch rdb := rdb.(type) {
	case *redis.Client:
		control := redis.NewClient(own(rdb.Options(), 0))
		find := func(context.Context, string) (*redis.Client, error) { return control, nil }
		return &backend{find: find, failed: func() {}, close: control.Close}, nil
	case *redis.ClusterClient:
		control := redis.NewClusterClient(ownCluster(rdb.Options()))
		failed := func() { control.ReloadState(context.Background()) }
		return &backend{find: control.MasterForKey, failed: failed, close: control.Close}, nil
	}
	return nil, fmt.Errorf("lockso: no locks on a %T", rdb)
}

// own copies the user's options that concern the server, but not those that would disturb waits: retries, a small pool,
// time-outs, pipelining. A pool size of 0 is the library's default.
func own(options *redis.Options, poolSize int) *redis.Options {
	o := *options
	o.MaxRetries, o.DialerRetries = -1, 1
	o.ContextTimeoutEnabled = true
	o.ReadTimeout, o.WriteTimeout = -1, readyWithin // the deadline of the context limits reads
	o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns, o.MaxConcurrentDials = poolSize, 0, 0, 0, 0
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
	o.ReadTimeout, o.WriteTimeout = -1, readyWithin
	o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns, o.MaxConcurrentDials = 0, 0, 0, 0, 0
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

func (b *backend) Conn(key, address string) lockso.Conn {
	return &conn{backend: b, key: key, address: address}
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

// take returns an idle connection to the node, or makes one.
func (b *backend) take(ctx context.Context, key, address string) (*wire, error) {
	node, err := b.find(ctx, key)
	if err != nil {
		b.failed()
		return nil, answered(err)
	}
	options := own(node.Options(), 1)
	if address != "" {
		options.Addr, options.NodeAddress = address, ""
	}
	if w := b.pop(options.Addr); w != nil {
		return w, nil
	}
	client := redis.NewClient(options)
	w := &wire{client: client, conn: client.Conn(), address: options.Addr}
	ready, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := w.conn.Ping(ready).Err(); err != nil { // a server that does not respond would be waited for as long as for a lock
		client.Close()
		b.failed()
		return nil, answered(err)
	}
	return w, nil
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
	backend      *backend
	key, address string

	mu   sync.Mutex
	wire *wire
	done bool // kept or closed
}

func (c *conn) Do(ctx context.Context, cmd lockso.Command) (any, error) {
	c.mu.Lock()
	w := c.wire
	c.mu.Unlock()
	if w == nil {
		var err error
		if w, err = c.backend.take(ctx, c.key, c.address); err != nil {
			return nil, err
		}
		c.mu.Lock()
		c.wire = w
		late := c.done
		c.mu.Unlock()
		if late {
			c.backend.drop(w)
		}
	}
	return c.backend.process(ctx, w.conn, cmd)
}

func (c *conn) Close() {
	if w := c.end(); w != nil {
		c.backend.drop(w)
	}
}

func (c *conn) Keep() {
	if w := c.end(); w != nil {
		c.backend.push(w)
	}
}

// end returns the connection the first time that it is called.
func (c *conn) end() *wire {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return nil
	}
	c.done = true
	return c.wire
}
