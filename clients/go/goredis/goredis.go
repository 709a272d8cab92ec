// Package goredis provides locks of lock.so on go-redis v9.
package goredis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	lockso "lock-so.invalid/lock-so/clients/go"
	"lock-so.invalid/lock-so/clients/go/internal/transport"
)

const (
	// How many connections there are at most for short commands, to each server.
	mostShort = 16
	// How many idle connections are kept for later waits, and for how long.
	mostIdle    = 16
	longestIdle = 30 * time.Second
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
	return lockso.New(b, false, options...)
}

func newBackend(rdb redis.UniversalClient) (*backend, error) {
	b := &backend{reload: func() {}}
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
				b.master.Store(conn.RemoteAddr().String()) // which the options of a client for Sentinel do not contain
			}
			return conn, err
		}
		b.name, b.address = options.Addr, options.Addr
		if b.name == "FailoverClient" { // which the library sets for Sentinel
			b.address = "the master"
		}
		control := redis.NewClient(options)
		b.find = func(context.Context, string) (*redis.Client, error) { return control, nil }
		b.close = control.Close
		return b, nil
	case *redis.ClusterClient:
		if rdb == nil {
			break
		}
		control := redis.NewClusterClient(own(rdb.Options()))
		b.cluster, b.address, b.find, b.close = true, "the cluster", control.MasterForKey, control.Close
		if addresses := rdb.Options().Addrs; len(addresses) > 0 {
			b.name, b.address = slices.Min(addresses), strings.Join(addresses, ", ")
		}
		b.reload = func() { control.ReloadState(context.Background()) }
		return b, nil
	}
	return nil, fmt.Errorf("lockso: no locks on a %T: give it a *redis.Client or a *redis.ClusterClient", rdb)
}

// settings are the options, of a server or of a cluster, that would disturb locks: retries, a small pool, time-outs,
// pipelining, reads from replicas. Not every version of go-redis 9 has all of them.
var settings = map[string]any{
	"MaxRetries": -1, "DialerRetries": 1, "ContextTimeoutEnabled": true, "ReadTimeout": transport.ShortWithin, "WriteTimeout": transport.ShortWithin,
	"PoolSize": mostShort, "MinIdleConns": 0, "MaxIdleConns": 0, "MaxActiveConns": 0, "MaxConcurrentDials": 0,
	"PoolTimeout": 0, "ConnMaxLifetime": 0, "ConnMaxLifetimeJitter": 0,
	"PipelinePoolSize": -1, "AutoPipelineOptions": nil, "ClientSideCacheConfig": nil, "ClientSideCache": nil,
	"Limiter": nil, "PushNotificationProcessor": nil, "ReadOnly": false, "RouteByLatency": false, "RouteRandomly": false,
}

// own copies the user's options, and replaces those in settings.
func own[T redis.Options | redis.ClusterOptions](options *T) *T {
	o := *options
	fields := reflect.ValueOf(&o).Elem()
	for name, value := range settings {
		if field := fields.FieldByName(name); field.IsValid() {
			field.SetZero()
			if value != nil {
				field.Set(reflect.ValueOf(value).Convert(field.Type()))
			}
		}
	}
	if field := fields.FieldByName("MaintNotificationsConfig"); field.IsValid() {
		config := reflect.New(field.Type().Elem())
		config.Elem().FieldByName("Mode").SetString("disabled")
		field.Set(config)
	}
	return &o
}

type backend struct {
	find   func(ctx context.Context, key string) (*redis.Client, error) // for short commands to the master of the key
	reload func()                                                       // looks the nodes of a cluster up again
	close  func() error

	name    string // see transport.Backend
	address string // for messages, until a connection has been made
	cluster bool
	master  atomic.Value // the address of the master that was connected last
	nodes   sync.Map     // the *node for each address

	mu     sync.Mutex
	idle   []*link // the one that was used last is at the end
	closed bool
	links  atomic.Int64 // how many have been made
}

// node is what is known about the connections to a server.
type node struct {
	ready   atomic.Bool   // one for short commands is open
	opening chan struct{} // held while the first one is opened
	short   chan struct{} // held by each short command
	late    chan struct{} // held by what nobody waits for any more
	options *redis.Options
}

func (b *backend) node(client *redis.Client) *node {
	n, found := b.nodes.Load(client.Options().Addr)
	if !found {
		options := own(client.Options())
		options.ReadTimeout, options.PoolSize = -1, 1 // the deadline of the context limits reads
		n, _ = b.nodes.LoadOrStore(options.Addr, &node{opening: make(chan struct{}, 1),
			short: make(chan struct{}, mostShort), late: make(chan struct{}, transport.MostLate), options: options})
	}
	return n.(*node)
}

func (b *backend) Do(ctx context.Context, cmd transport.Command) (any, error) {
	start := time.Now()
	client, err := b.find(ctx, cmd.Key())
	if err != nil {
		return nil, b.failed(err, start)
	}
	n := b.node(client)
	select { // the pool's own queue would not distinguish its time-out from the server's
	case n.short <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	do := func(ctx context.Context) (any, error) {
		defer func() { <-n.short }()
		start := time.Now()
		reply, err := process(ctx, client, cmd)
		if !slow(err) || time.Since(start) >= transport.Brief {
			n.ready.Store(!inTrouble(err))
		}
		return reply, b.failed(err, start)
	}
	if end, _ := ctx.Deadline(); time.Until(end) >= transport.Brief {
		return do(ctx)
	}
	return transport.Await(ctx, transport.ShortWithin, n.late, do, func(any) {}) // because a time-out closes the connection
}

func (b *backend) Address(key string) string {
	if master, ok := b.master.Load().(string); ok {
		return master
	}
	if b.cluster {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		if node, err := b.find(ctx, key); err == nil {
			return node.Options().Addr
		}
	}
	return b.address
}

func (b *backend) Server() (string, bool) { return b.name, b.cluster }

func (b *backend) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.remove(func(*link) bool { return true })
	return b.close()
}

type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

func process(ctx context.Context, to processor, cmd transport.Command) (any, error) {
	args := make([]any, len(cmd.Args))
	for i, arg := range cmd.Args {
		args[i] = arg
	}
	c := redis.NewCmd(ctx, args...)
	err := to.Process(ctx, c)
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return c.Val(), err
}

// failed returns the error of what began at this time. A cluster's nodes are looked up again if the error may mean that they
// have changed.
func (b *backend) failed(err error, start time.Time) error {
	if inTrouble(err) && (!slow(err) || time.Since(start) >= transport.Brief) {
		b.reload()
	}
	return marked(err)
}

// marked marks error replies of the server; every other error is a lost connection.
func marked(err error) error {
	var reply redis.Error
	if errors.As(err, &reply) {
		return &transport.ServerError{Reply: reply}
	}
	return err
}

// inTrouble returns whether the error concerns the connection or the node, and not the command.
func inTrouble(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return err != nil
	}
	code, _, _ := strings.Cut(reply.Error(), " ")
	switch code {
	case "READONLY", "UNBLOCKED", "LOADING", "CLUSTERDOWN", "MASTERDOWN", "MOVED":
		return true
	}
	return strings.Contains(reply.Error(), "max number of clients")
}

// slow returns whether there was no reply in time, which may be the time of a short wait.
func slow(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.As(err, &timeout) && timeout.Timeout()
}

// link is one connection: a client whose pool has one connection, because a client can be closed during a read.
type link struct {
	client  *redis.Client
	conn    *redis.Conn // always the same connection: a session is bound to it
	address string
	number  int64
	since   time.Time // since when it is idle
}

// Conn returns an idle connection to the node, or makes one.
func (b *backend) Conn(ctx context.Context, within time.Duration, key, address string) (transport.Conn, error) {
	start := time.Now()
	if b.cluster {
		limited, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		ctx = limited
	}
	client, err := b.find(ctx, key)
	if err != nil {
		return nil, b.failed(err, start)
	}
	n := b.node(client)
	address = cmp.Or(address, n.options.Addr)
	if n.ready.Load() {
		if l := b.pop(address); l != nil {
			return &conn{backend: b, link: l}, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	within = max(within, transport.Longest)
	if err := n.prepare(ctx, within, client); err != nil {
		return nil, b.failed(err, start)
	}
	if l := b.pop(address); l != nil {
		return &conn{backend: b, link: l}, nil
	}
	l, err := transport.Await(ctx, within, n.late, func(ctx context.Context) (*link, error) {
		options := *n.options
		options.Addr = address
		options.Dialer = func(dial context.Context, network, address string) (net.Conn, error) {
			dial, cancel := context.WithCancel(dial) // which newer versions do not derive from ctx
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			return n.options.Dialer(dial, network, address)
		}
		client := redis.NewClient(&options)
		l := &link{client: client, conn: client.Conn(), address: address, number: b.links.Add(1)}
		end := context.AfterFunc(ctx, func() { client.Close() }) // because a read does not regard that ctx is cancelled
		err := l.conn.Ping(ctx).Err()                            // a server that does not respond would be waited for as long as for a lock
		if !end() {
			err = cmp.Or(err, ctx.Err())
		}
		if err != nil {
			client.Close()
		}
		return l, err
	}, b.push)
	if err != nil {
		return nil, b.failed(err, start)
	}
	return &conn{backend: b, link: l}, nil
}

// prepare opens a connection for short commands, before waits take the last one that the server accepts.
func (n *node) prepare(ctx context.Context, within time.Duration, client *redis.Client) error {
	if n.ready.Load() {
		return nil
	}
	select {
	case n.opening <- struct{}{}:
		defer func() { <-n.opening }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if n.ready.Load() {
		return nil
	}
	ping := func(ctx context.Context) (string, error) { return client.Ping(ctx).Result() }
	_, err := transport.Await(ctx, within, n.late, ping, func(string) { n.ready.Store(true) })
	n.ready.Store(err == nil)
	return err
}

func (b *backend) pop(address string) *link {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := len(b.idle) - 1; i >= 0; i-- {
		if l := b.idle[i]; l.address == address && time.Since(l.since) < longestIdle {
			b.idle = append(b.idle[:i], b.idle[i+1:]...)
			return l
		}
	}
	return nil
}

// push keeps a connection for the next wait, and closes those that have been idle for too long.
func (b *backend) push(l *link) {
	l.since = time.Now()
	b.mu.Lock()
	b.idle = append(b.idle, l)
	b.mu.Unlock()
	b.remove(func(l *link) bool { return b.closed || len(b.idle) > mostIdle || time.Since(l.since) > longestIdle })
}

// remove closes idle connections; b.mu is locked while their removal is decided, but not while they are closed.
func (b *backend) remove(needless func(*link) bool) {
	b.mu.Lock()
	var closing []*link
	for i := 0; i < len(b.idle); {
		if needless(b.idle[i]) {
			closing = append(closing, b.idle[i])
			b.idle = append(b.idle[:i], b.idle[i+1:]...)
		} else {
			i++
		}
	}
	b.mu.Unlock()
	for _, l := range closing {
		l.client.Close()
	}
}

// conn is a transport.Conn.
type conn struct {
	backend *backend
	link    *link
	done    atomic.Bool // kept or closed
}

func (c *conn) Do(ctx context.Context, cmd transport.Command) (any, error) {
	reply, err := process(ctx, c.link.conn, cmd)
	if inTrouble(err) && !slow(err) && !c.done.Load() {
		if !redis.HasErrorPrefix(err, "MOVED") { // the idle connections to the same node were probably lost for the same reason
			c.backend.remove(func(l *link) bool { return l.address == c.link.address })
		}
		c.backend.reload()
	}
	return reply, marked(err)
}

func (c *conn) Number() int64 { return c.link.number }

func (c *conn) Close() {
	if !c.done.Swap(true) {
		c.link.client.Close()
	}
}

func (c *conn) Keep() {
	if !c.done.Swap(true) {
		c.backend.push(c.link)
	}
}
