// Package rueidis provides locks of lock.so on rueidis.
package rueidis

import (
	"context"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"lockso"
	"lockso/internal/transport"
)

// New creates a client for locks with the options of the user's own rueidis.Client: of a server, a cluster or Sentinel.
// It has connections of its own: one to each server for short commands, and one for each wait.
//
// The error is that of rueidis.NewClient, which connects at once.
func New(option rueidis.ClientOption, options ...lockso.ClientOption) (*lockso.Client, error) {
	option.DisableRetry, option.DisableCache = true, true
	option.ReplicaOnly, option.SendToReplicas, option.DisableAutoPipelining = false, nil, false
	option.PipelineMultiplex = -1 // one connection, which is open before a wait needs it
	option.ConnLifetime = 0       // a session's connection must not be replaced
	option.BlockingPoolSize, option.BlockingPoolMinSize, option.BlockingPoolCleanup = 1<<30, 4, 30*time.Second
	// With Sentinel, a notification may be missed. Versions before 1.0.77 have nothing for that.
	refresh := reflect.ValueOf(&option.Sentinel).Elem().FieldByName("TopologyRefreshInterval")
	if option.Sentinel.MasterSet != "" && refresh.IsValid() && refresh.IsZero() {
		refresh.Set(reflect.ValueOf(time.Second))
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, err
	}
	b := &backend{client: client}
	if client.Mode() == rueidis.ClientModeCluster {
		b.address = strings.Join(option.InitAddress, ", ")
		b.connectToNodes()
	}
	return lockso.New(b, true, options...)
}

type backend struct {
	client  rueidis.Client
	address string // of a cluster's nodes
}

// connectToNodes opens the connection for short commands to each node of a cluster, before waits take the last one that
// it accepts.
func (b *backend) connectToNodes() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var all sync.WaitGroup
	for _, node := range b.client.Nodes() {
		all.Add(1)
		go func() {
			defer all.Done()
			node.Do(ctx, node.B().Ping().Build())
		}()
	}
	all.Wait()
}

// Do waits for a connection that another caller makes, without regard to ctx. So a short deadline is kept here.
func (b *backend) Do(ctx context.Context, cmd transport.Command) (any, error) {
	if end, _ := ctx.Deadline(); time.Until(end) >= time.Second {
		return reply(b.client.Do(ctx, b.build(cmd)))
	}
	result, err := await(ctx, func() rueidis.RedisResult { return b.client.Do(ctx, b.build(cmd)) }, func(rueidis.RedisResult) {})
	if err != nil {
		return nil, err
	}
	return reply(result)
}

// await waits for a function of the library until ctx ends. Its result is given to late, if it is.
func await[T any](ctx context.Context, call func() T, late func(T)) (T, error) {
	done := make(chan T, 1)
	go func() { done <- call() }()
	select {
	case got := <-done:
		return got, nil
	case <-ctx.Done():
	}
	go func() { late(<-done) }()
	var none T
	return none, ctx.Err()
}

// Conn takes a connection out of the pool of the library, which makes one if there is none, and whose first command
// returns the error if it could not. Dedicate ignores contexts.
func (b *backend) Conn(ctx context.Context, within time.Duration, _, address string) (transport.Conn, error) {
	from := b.client
	if address != "" {
		if node, ok := from.Nodes()[address]; ok {
			from = node
		}
	}
	dedicate := func() *conn {
		wire, keep := from.Dedicate()
		return &conn{backend: b, wire: wire, keep: keep}
	}
	if b.address != "" && from == b.client { // a cluster: it connects at the first command
		return dedicate(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	c, err := await(ctx, dedicate, (*conn).Keep)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (b *backend) Address(string) string {
	if b.address != "" {
		return b.address
	}
	for address := range b.client.Nodes() {
		return address
	}
	return "the server"
}

func (b *backend) Close() error {
	b.client.Close()
	return nil
}

// build passes only one of the keys to Keys: rueidis panics if keys are in different slots, and the server replies with
// an error. A command that waits has no time-out except the deadline of its context.
func (b *backend) build(cmd transport.Command) rueidis.Completed {
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
	if server, ok := rueidis.IsRedisErr(err); ok {
		return nil, &transport.ServerError{Reply: server}
	}
	return value, err
}

// conn is a transport.Conn: a dedicated connection.
type conn struct {
	backend *backend
	wire    rueidis.DedicatedClient
	keep    func()
	done    atomic.Bool // kept or closed
}

func (c *conn) Do(ctx context.Context, cmd transport.Command) (any, error) {
	return reply(c.wire.Do(ctx, c.backend.build(cmd)))
}

func (c *conn) Close() {
	if !c.done.Swap(true) {
		go c.wire.Close() // which waits for a server that does not respond
	}
}

func (c *conn) Keep() {
	if !c.done.Swap(true) {
		c.keep()
	}
}
