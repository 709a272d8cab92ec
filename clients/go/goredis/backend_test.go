package goredis

import (
	"context"
	"net"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	lockso "lock-so.invalid/lock-so/clients/go"
	"lock-so.invalid/lock-so/clients/go/internal/servertest"
	"lock-so.invalid/lock-so/clients/go/internal/transport"
)

func background(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// Options that are misspelt, or that no version has, would have no effect.
func TestSettingsAreOptions(t *testing.T) {
	later := map[string]bool{"DialerRetries": true, "MaxActiveConns": true, "MaxConcurrentDials": true, "ConnMaxLifetimeJitter": true,
		"PipelinePoolSize": true, "AutoPipelineOptions": true, "ClientSideCacheConfig": true, "ClientSideCache": true,
		"PushNotificationProcessor": true}
	server, cluster := reflect.TypeFor[redis.Options](), reflect.TypeFor[redis.ClusterOptions]()
	newest := false
	for name := range settings {
		_, one := server.FieldByName(name)
		_, both := cluster.FieldByName(name)
		newest = newest || name == "PipelinePoolSize" && one
		if !one && !both && !later[name] {
			t.Errorf("%s is no option", name)
		}
	}
	for name := range later {
		if _, found := server.FieldByName(name); newest && !found {
			t.Errorf("%s is no option of the newest version", name)
		}
	}
	if o := own(&redis.Options{MaxRetries: 7, PoolTimeout: time.Second, Addr: "a", Limiter: nil}); o.MaxRetries != -1 || o.PoolTimeout != 0 || o.Addr != "a" {
		t.Errorf("%+v", o)
	}
}

func TestTheAddressBeforeTheFirstConnection(t *testing.T) {
	for want, rdb := range map[string]redis.UniversalClient{
		"127.0.0.1:1":              redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}),
		"127.0.0.1:1, 127.0.0.1:2": redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1", "127.0.0.1:2"}}),
		"the master":               redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}}),
	} {
		b, err := newBackend(rdb)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Address("key"); got != want {
			t.Errorf("%q, not %q", got, want)
		}
		b.Close()
		rdb.Close()
	}
}

// A reply that is late does not close the idle connections; a lost connection does, because they are probably lost too.
func TestIdleConnections(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: servertest.Address})
	defer rdb.Close()
	b, err := newBackend(rdb)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx := background(t)
	conn := func() transport.Conn {
		t.Helper()
		c, err := b.Conn(ctx, time.Minute, "key", "")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	idle := func() int {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.idle)
	}
	first, second, third := conn(), conn(), conn()
	second.Keep()
	third.Keep()
	again := conn()
	if first.Number() == second.Number() || second.Number() == third.Number() || again.Number() != third.Number() {
		t.Errorf("%d %d %d %d", first.Number(), second.Number(), third.Number(), again.Number())
	}
	again.Keep()
	slow, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	wait := transport.Command{Args: []string{"BLPOP", t.Name(), "60"}, First: 1, Count: 1, Waits: true}
	if _, err := first.Do(slow, wait); err == nil {
		t.Error("a reply")
	}
	first.Close()
	if idle() != 2 {
		t.Errorf("%d idle connections after a late reply", idle())
	}
	first = conn()
	servertest.Server.Val("CLIENT", "KILL", "TYPE", "normal")
	if _, err := first.Do(ctx, wait); err == nil {
		t.Error("a reply")
	}
	if idle() != 0 {
		t.Errorf("%d idle connections after a lost connection", idle())
	}
	first.Close()
}

// A node to which nothing connects is no obstacle to locks on others.
func TestANodeThatDoesNotRespond(t *testing.T) {
	nodes := servertest.Cluster(t)
	var blocked atomic.Bool
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[1].Address},
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			if blocked.Load() && address == nodes[0].Address {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}})
	defer rdb.Close()
	b, err := newBackend(rdb)
	if err != nil {
		t.Fatal(err)
	}
	locks, err := lockso.New(b, false)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	ctx := background(t)
	keys := map[string]string{} // a key of each node
	for i := 0; len(keys) < 3; i++ {
		key := t.Name() + string(rune('a'+i))
		node, err := b.find(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		keys[node.Options().Addr] = key
	}
	blocked.Store(true)
	waiting := make(chan error, 1)
	go func() {
		_, err := locks.Lock(keys[nodes[0].Address], lockso.Wait(3*time.Second)).Lock(ctx)
		waiting <- err
	}()
	silent, _ := b.find(ctx, keys[nodes[0].Address])
	servertest.Eventually(t, "the first wait to connect", func() bool { return len(b.node(silent).opening) == 1 })
	hold, err := locks.Lock(keys[nodes[1].Address], lockso.Wait(2*time.Second)).Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-waiting:
		t.Errorf("not meanwhile: %v", err)
	default:
	}
	if err := hold.Unlock(ctx); err != nil {
		t.Error(err)
	}
	if err := <-waiting; err == nil {
		t.Error("acquired")
	}
}

// slowly returns a backend whose replies arrive this much later, and the number of connections that it has opened.
func slowly(t *testing.T, delay *atomic.Int64) (*backend, *atomic.Int64) {
	var dialed atomic.Int64
	rdb := redis.NewClient(&redis.Options{Addr: servertest.Address, Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed.Add(1)
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &slowConn{conn, delay}, err
	}})
	t.Cleanup(func() { rdb.Close() })
	b, err := newBackend(rdb)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b, &dialed
}

type slowConn struct {
	net.Conn
	delay *atomic.Int64
}

func (c *slowConn) Read(p []byte) (int, error) {
	time.Sleep(time.Duration(c.delay.Load()))
	return c.Conn.Read(p)
}

// The caller's own limit for a short command, or its place in the queue for connections, says nothing about the server.
func TestAShortDeadlineDoesNotConcernTheServer(t *testing.T) {
	var delay atomic.Int64
	b, dialed := slowly(t, &delay)
	ctx := background(t)
	conn, err := b.Conn(ctx, time.Minute, "key", "")
	if err != nil {
		t.Fatal(err)
	}
	conn.Keep()
	before := dialed.Load()
	delay.Store(int64(200 * time.Millisecond))
	info := transport.Command{Args: []string{"LOCK.INFO", "key", "COUNT", "0"}, First: 1, Count: 1}
	soon := func(cmd transport.Command) error {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		_, err := b.Do(ctx, cmd)
		return err
	}
	if err := soon(info); err != context.DeadlineExceeded {
		t.Error(err)
	}
	client, _ := b.find(ctx, "key")
	n := b.node(client)
	servertest.Eventually(t, "the late reply", func() bool { return len(n.short) == 0 })
	for range cap(n.short) {
		n.short <- struct{}{}
	}
	if err := soon(info); err != context.DeadlineExceeded {
		t.Error(err)
	}
	for range cap(n.short) {
		<-n.short
	}
	conn, err = b.Conn(ctx, 20*time.Millisecond, "key", "")
	if err != nil {
		t.Fatal(err)
	}
	conn.Keep()
	if _, err := b.Do(ctx, info); err != nil || dialed.Load() != before {
		t.Errorf("%v, %d connections instead of %d", err, dialed.Load(), before)
	}
}

// countedConn counts those that are open.
type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// A backend with one connection that is in use, and the node that it is to.
func connected(t *testing.T, ctx context.Context) (*backend, *node) {
	b, _ := slowly(t, new(atomic.Int64))
	first, err := b.Conn(ctx, time.Minute, "key", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { first.Close() })
	client, _ := b.find(ctx, "key")
	return b, b.node(client)
}

// A stopped server accepts connections, and does not reply. Callers that leave, as a lock does that is released, leave only
// some of them.
func TestAStoppedServerDoesNotHaveManyConnections(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	var open atomic.Int64
	ctx := background(t)
	b, n := connected(t, ctx)
	n.options.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, silent.Addr().String())
		if err != nil {
			return nil, err
		}
		open.Add(1)
		return &countedConn{conn, sync.OnceFunc(func() { open.Add(-1) })}, nil
	}
	for range 50 {
		left, leave := context.WithCancel(ctx)
		time.AfterFunc(10*time.Millisecond, leave)
		if _, err := b.Conn(left, time.Minute, "key", ""); err != context.Canceled {
			t.Error(err)
		}
	}
	servertest.Eventually(t, "the others to be closed", func() bool { return open.Load() <= transport.MostLate })
}

// Tries that give up leave connections that are opened to the end, for later ones, but not any number.
func TestTriesDoNotLeaveManyConnections(t *testing.T) {
	var dialing atomic.Int64
	ctx := background(t)
	b, n := connected(t, ctx)
	n.options.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
		dialing.Add(1)
		defer dialing.Add(-1)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var tries sync.WaitGroup
	start := time.Now()
	for range 50 {
		tries.Add(1)
		go func() {
			defer tries.Done()
			if _, err := b.Conn(ctx, 100*time.Millisecond, "key", ""); err != context.DeadlineExceeded {
				t.Error(err)
			}
		}()
	}
	tries.Wait()
	servertest.Eventually(t, "the others to end", func() bool { return len(n.late) == transport.MostLate && dialing.Load() == transport.MostLate })
	if took := time.Since(start); took > 4*time.Second || !n.ready.Load() {
		t.Errorf("they ended after %v, when all end", took)
	}
	servertest.Eventually(t, "those to end, too", func() bool { return dialing.Load() == 0 })
}
