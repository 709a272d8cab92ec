// Package rueidis provides locks of lock.so on rueidis.
package rueidis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	lockso "lock-so.invalid/lock-so/clients/go"
	"lock-so.invalid/lock-so/clients/go/internal/transport"
)

// New creates a client for locks with the options of the user's own rueidis.Client: of a server, a cluster or Sentinel.
// It has connections of its own: one to each server for short commands, and one for each wait.
//
// The error wraps that of rueidis.NewClient, which connects at once.
func New(option rueidis.ClientOption, options ...lockso.ClientOption) (*lockso.Client, error) {
	b, err := newBackend(option)
	if err != nil {
		return nil, err
	}
	return lockso.New(b, true, options...)
}

func newBackend(option rueidis.ClientOption) (*backend, error) {
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
	b := &backend{late: make(chan struct{}, transport.MostLate), name: option.Sentinel.MasterSet}
	if b.name == "" && len(option.InitAddress) > 0 {
		b.name = slices.Min(option.InitAddress)
	}
	option.DialCtxFn = b.counted(option)
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, fmt.Errorf("no connection to %s: %w", strings.Join(option.InitAddress, ", "), err)
	}
	b.client = client
	if client.Mode() == rueidis.ClientModeCluster {
		b.address = strings.Join(option.InitAddress, ", ")
		b.connectToNodes()
	}
	return b, nil
}

type backend struct {
	client  rueidis.Client
	address string        // of a cluster's nodes
	name    string        // see transport.Backend
	late    chan struct{} // held by what nobody waits for any more

	connecting atomic.Int64 // how many connections are being made
	lost       atomic.Int64 // how many connections the server has closed
	known      atomic.Int64 // how many of them when the connection for short commands was last seen to be open
	made       atomic.Int64 // how many connections have been made
}

// counted returns a function that connects as the library does with this option, and counts what connects, and the
// connections that are lost.
func (b *backend) counted(option rueidis.ClientOption) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	return func(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (conn net.Conn, err error) {
		b.connecting.Add(1)
		switch {
		case option.DialCtxFn != nil:
			conn, err = option.DialCtxFn(ctx, address, dialer, config)
		case option.DialFn != nil:
			conn, err = option.DialFn(address, dialer, config)
		case config != nil:
			conn, err = (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", address)
		default:
			conn, err = dialer.DialContext(ctx, "tcp", address)
		}
		if err != nil {
			b.connecting.Add(-1)
			return nil, err
		}
		b.made.Add(1)
		return &countedConn{Conn: conn, backend: b}, nil
	}
}

type countedConn struct {
	net.Conn
	backend   *backend
	connected sync.Once // at its first reply
}

func (c *countedConn) connect() { c.backend.connecting.Add(-1) }

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil {
		c.connected.Do(c.connect)
	} else if !errors.Is(err, net.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.backend.lost.Add(1)
	}
	return n, err
}

func (c *countedConn) Close() error {
	c.connected.Do(c.connect)
	return c.Conn.Close()
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

// Do waits for a connection that another caller makes, without regard to ctx, and a time-out may close the connection. So a
// short deadline is kept here, and each one while something connects.
func (b *backend) Do(ctx context.Context, cmd transport.Command) (any, error) {
	do := func(ctx context.Context) (any, error) {
		got, err := reply(b.client.Do(ctx, b.build(cmd)))
		if err != nil && strings.HasPrefix(err.Error(), "READONLY ") { // the address may lead to another server by now
			for _, command := range []string{"QUIT", "PING"} { // after that, the library knows that the connection is closed
				b.client.Do(ctx, b.client.B().Arbitrary(command).Build())
			}
		}
		return got, err
	}
	if end, _ := ctx.Deadline(); time.Until(end) >= transport.Brief && b.connecting.Load() == 0 {
		return do(ctx)
	}
	return transport.Await(ctx, transport.ShortWithin, b.late, do, func(any) {})
}

// Conn takes a connection out of the pool of the library, which makes one if there is none, and whose first command
// returns the error if it could not. Dedicate ignores contexts.
func (b *backend) Conn(ctx context.Context, within time.Duration, key, address string) (transport.Conn, error) {
	from := b.client
	if address != "" {
		if node, ok := from.Nodes()[address]; ok {
			from = node
		}
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if lost := b.lost.Load(); from != b.client || lost != b.known.Load() {
		if err := b.prepare(ctx, lost, from, key); err != nil {
			return nil, err
		}
	}
	dedicate := func(context.Context) (transport.Conn, error) {
		dedicated, keep := from.Dedicate()
		return &conn{backend: b, dedicated: dedicated, keep: keep}, nil
	}
	if b.address != "" && from == b.client { // a cluster: it connects at the first command
		return dedicate(ctx)
	}
	if err := b.room(ctx, within); err != nil {
		return nil, err
	}
	return transport.Await(ctx, transport.Longest, b.late, dedicate, transport.Conn.Keep)
}

// room waits until nobody has left too many connections that are still being opened. What is no try continues after a
// while: the address may lead to another server by now.
func (b *backend) room(ctx context.Context, within time.Duration) error {
	var enough <-chan time.Time
	if within >= transport.Brief && len(b.late) == cap(b.late) {
		enough = time.After(transport.Brief)
	}
	select {
	case b.late <- struct{}{}:
		<-b.late
	case <-enough:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// prepare opens the connection for short commands about the key, before waits take the last one that the server accepts,
// and in a cluster also those to the other nodes. It is needed on a new node, and after this number of losses.
func (b *backend) prepare(ctx context.Context, lost int64, to rueidis.Client, key string) error {
	ping := transport.Command{Args: []string{"PING", key}, First: 1, Count: 1}
	_, err := transport.Await(ctx, transport.Longest, b.late, func(ctx context.Context) (any, error) {
		return reply(to.Do(ctx, b.build(ping)))
	}, func(any) {})
	if err != nil && strings.HasPrefix(err.Error(), "NOPERM ") {
		err = nil // also a reply
	}
	if err != nil {
		b.lost.Add(1)
	} else if b.known.Swap(lost) != lost && b.address != "" {
		go b.connectToNodes()
	}
	return err
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

func (b *backend) Server() (string, bool) { return b.name, b.address != "" }

// Close leaves the rest to the background if it takes long: the library waits for a server that does not respond.
func (b *backend) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	transport.Await(ctx, transport.Longest, b.late, func(context.Context) (any, error) {
		b.client.Close()
		return nil, nil
	}, func(any) {})
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
		err = server
		if code, _, _ := strings.Cut(server.Error(), " "); strings.ToUpper(code) != code {
			err = fmt.Errorf("ERR %w", server) // which the library leaves out
		}
		return nil, &transport.ServerError{Reply: err}
	}
	return value, err
}

// conn is a transport.Conn: a dedicated connection.
type conn struct {
	backend   *backend
	dedicated rueidis.DedicatedClient
	keep      func()
	done      atomic.Bool // kept or closed
}

func (c *conn) Do(ctx context.Context, cmd transport.Command) (any, error) {
	return reply(c.dedicated.Do(ctx, c.backend.build(cmd)))
}

func (c *conn) Number() int64 { return c.backend.made.Load() }

func (c *conn) Close() {
	if !c.done.Swap(true) {
		go c.dedicated.Close() // which waits for a server that does not respond
	}
}

func (c *conn) Keep() {
	if !c.done.Swap(true) {
		c.keep()
	}
}
