// Package rueidis provides locks of lock.so on rueidis.
package rueidis

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"lockso"
)

// New creates a client for locks with the options of the user's own rueidis.Client: of a server, a cluster or Sentinel.
// It has connections of its own: one to each server for short commands, and one for each wait.
//
// The error is that of rueidis.NewClient, which connects at once.
func New(option rueidis.ClientOption) (*lockso.Client, error) {
	option.DisableRetry, option.DisableCache = true, true
	option.ReplicaOnly, option.SendToReplicas, option.DisableAutoPipelining = false, nil, false
	option.ConnLifetime = 0 // a session's connection must not be replaced
	option.BlockingPoolSize, option.BlockingPoolMinSize, option.BlockingPoolCleanup = 1<<30, 4, 30*time.Second
	if option.Sentinel.MasterSet != "" && option.Sentinel.TopologyRefreshInterval == 0 {
		option.Sentinel.TopologyRefreshInterval = time.Second
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, err
	}
	return lockso.New(&backend{client}), nil
}

type backend struct{ client rueidis.Client }

func (b *backend) Do(ctx context.Context, cmd lockso.Command) (any, error) {
	return reply(b.client.Do(ctx, b.build(cmd)))
}

func (b *backend) Conn(_, address string) lockso.Conn {
	return &conn{backend: b, address: address}
}

func (b *backend) Close() error {
	b.client.Close()
	return nil
}

// build passes only one of the keys to Keys: rueidis panics if keys are in different slots, and the server replies with
// an error. A command that waits has no time-out except the deadline of its context.
func (b *backend) build(cmd lockso.Command) rueidis.Completed {
	built := b.client.B().Arbitrary(cmd.Args[:cmd.First]...)
	if cmd.Count > 0 {
		built = built.Keys(cmd.Key()).Args(cmd.Args[cmd.First+1:]...)
	} else {
		built = built.Args(cmd.Args...)
	}
	if cmd.Waits {
		return built.Blocking()
	}
	return built.Build()
}

// reply converts the reply of a LOCK command. It distinguishes an error reply from a lost connection.
func reply(result rueidis.RedisResult) (any, error) {
	value, err := result.ToAny()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	if answered, ok := rueidis.IsRedisErr(err); ok {
		return nil, lockso.ServerError(answered)
	}
	return value, err
}

// conn is a lockso.Conn: a dedicated connection, which the first command takes from the pool.
type conn struct {
	backend *backend
	address string

	mu   sync.Mutex
	wire rueidis.DedicatedClient
	keep func()
	done bool // kept or closed
}

func (c *conn) Do(ctx context.Context, cmd lockso.Command) (any, error) {
	c.mu.Lock()
	wire := c.wire
	c.mu.Unlock()
	if wire == nil {
		connected := make(chan rueidis.DedicatedClient, 1)
		go func() { connected <- c.connect() }() // it ignores ctx
		select {
		case wire = <-connected:
		case <-ctx.Done():
			c.Close()
			return nil, ctx.Err()
		}
	}
	if wire == nil {
		return nil, rueidis.ErrClosing
	}
	return reply(wire.Do(ctx, c.backend.build(cmd)))
}

// connect takes a connection out of the pool of the library, or returns nil if the conn was closed meanwhile.
func (c *conn) connect() rueidis.DedicatedClient {
	from := c.backend.client
	if c.address != "" {
		if node, ok := from.Nodes()[c.address]; ok {
			from = node
		}
	}
	wire, keep := from.Dedicate()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		keep()
		return nil
	}
	c.wire, c.keep = wire, keep
	return wire
}

func (c *conn) Close() {
	if c.end() {
		go c.wire.Close() // which waits for a server that does not respond
	}
}

func (c *conn) Keep() {
	if c.end() {
		c.keep()
	}
}

// end returns, the first time, whether there is a connection to give back or to close.
func (c *conn) end() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.done
	c.done = true
	return first && c.wire != nil
}
