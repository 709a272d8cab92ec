package rueidis

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	lockso "lock-so.invalid/lock-so/clients/go"
	"lock-so.invalid/lock-so/clients/go/internal/servertest"
	"lock-so.invalid/lock-so/clients/go/internal/transport"
)

// slowTo returns options with which connections that are made while slow is true do not respond, until close is called.
func slowTo(slow *atomic.Bool, dialed chan<- struct{}, closed <-chan struct{}) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{servertest.Address}, DisableCache: true, DisableRetry: true,
		DialCtxFn: func(ctx context.Context, address string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if slow.Load() {
				dialed <- struct{}{}
				<-closed
			}
			return dialer.DialContext(ctx, "tcp", address)
		}}
}

// connected is a backend with this option.
func connected(t *testing.T, option rueidis.ClientOption) *backend {
	b, err := newBackend(option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// The second caller in the library waits for the connection that the first one makes, without regard to its context.
func TestAShortDeadlineIsKept(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and never replies
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	var slow atomic.Bool
	dialed := make(chan struct{}, 100)
	b := connected(t, rueidis.ClientOption{InitAddress: []string{servertest.Address}, Dialer: net.Dialer{Timeout: 5 * time.Second},
		DialCtxFn: func(ctx context.Context, address string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if slow.Load() {
				address = silent.Addr().String()
				defer func() { dialed <- struct{}{} }()
			}
			return dialer.DialContext(ctx, "tcp", address)
		}})
	within := func(d time.Duration) (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		return b.Do(ctx, transport.Command{Args: []string{"EXISTS", "key"}, First: 1, Count: 1})
	}
	if _, err := within(time.Minute); err != nil {
		t.Fatal(err)
	}
	slow.Store(true)
	servertest.Server.Val("CLIENT", "KILL", "TYPE", "normal")
	first := make(chan struct{})
	go func() {
		defer close(first)
		for len(dialed) == 0 { // until the library has noticed that its connection is lost
			within(10 * time.Second)
		}
	}()
	servertest.Eventually(t, "the library to connect", func() bool { return len(dialed) > 0 })
	for _, d := range []time.Duration{80 * time.Millisecond, 1500 * time.Millisecond} {
		start := time.Now()
		if _, err := within(d); err == nil || time.Since(start) > d+time.Second {
			t.Errorf("a deadline of %v: %v after %v", d, err, time.Since(start))
		}
	}
	<-first
}

// A wait that is cancelled returns in time although its connection does not respond any more.
func TestACancelledWaitOnADeadConnection(t *testing.T) {
	var silent atomic.Bool
	option := rueidis.ClientOption{InitAddress: []string{servertest.Address},
		DialCtxFn: func(ctx context.Context, address string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, "tcp", address)
			return &deafConn{Conn: conn, silent: &silent}, err
		}}
	locks, err := New(option)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	servertest.Server.Val("CONFIG", "RESETSTAT")
	servertest.Server.Val("LOCK.ACQUIRE", t.Name(), "another")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var start time.Time
	go func() {
		for waiting := false; !waiting; time.Sleep(time.Millisecond) {
			waiting = servertest.Count(servertest.Server, "commandstats", "cmdstat_lock.acquire:calls") >= 2
		}
		silent.Store(true)
		start = time.Now()
		cancel()
	}()
	_, err = locks.Lock(t.Name()).Lock(ctx)

	if took := time.Since(start); err == nil || took > 500*time.Millisecond { // 100 ms, and what the machine is late
		t.Errorf("%v after %v", err, took)
	}
	servertest.Server.Val("LOCK.RELEASE", t.Name(), "another")
}

// deafConn drops what arrives while silent is true.
type deafConn struct {
	net.Conn
	silent *atomic.Bool
}

func (c *deafConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.silent.Load() {
			return n, err
		}
	}
}

// As long as the server does not respond to connections, tries begin only some of them.
func TestTriesDoNotLeaveManyConnections(t *testing.T) {
	var slow atomic.Bool
	dialed, closed := make(chan struct{}, 100), make(chan struct{})
	b := connected(t, slowTo(&slow, dialed, closed))
	slow.Store(true)
	defer close(closed)
	for i := range 3 * transport.MostLate {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		within := []time.Duration{10 * time.Millisecond, 5 * time.Second}[i%2] // also one that has time, but whose caller leaves
		if _, err := b.Conn(ctx, within, "key", ""); err != context.DeadlineExceeded {
			t.Error(i, err)
		}
		cancel()
		want := min(i+1, transport.MostLate)
		servertest.Eventually(t, "a try that is given up", func() bool { return len(b.late) >= want })
	}
	if len(dialed) != transport.MostLate {
		t.Errorf("%d connections", len(dialed))
	}
}

// id is that of the connection for short commands.
func id(t *testing.T, b *backend) any {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	got, err := b.Do(ctx, transport.Command{Args: []string{"CLIENT", "ID"}})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// The user may have no permission for PING.
func TestAUserWithoutPing(t *testing.T) {
	servertest.Server.Val("ACL", "SETUSER", "few", "on", ">secret", "~*", "+@all", "-ping")
	defer servertest.Server.Val("ACL", "DELUSER", "few")
	b := connected(t, rueidis.ClientOption{InitAddress: []string{servertest.Address}, Username: "few", Password: "secret"})
	b.lost.Add(1)
	conn, err := b.Conn(context.Background(), time.Minute, "key", "")
	if err != nil || b.known.Load() != b.lost.Load() {
		t.Fatalf("%v, %d losses", err, b.lost.Load())
	}
	conn.Keep()
}

// The number is the same only if it is a connection that was there before.
func TestNumbersOfConnections(t *testing.T) {
	b := connected(t, rueidis.ClientOption{InitAddress: []string{servertest.Address}})
	conn := func() transport.Conn {
		t.Helper()
		c, err := b.Conn(context.Background(), time.Minute, "key", "")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := conn()
	before := first.Number()
	first.Keep()
	first = conn()
	if n := first.Number(); n != before {
		t.Errorf("%d, and %d for the same connection", before, n)
	}
	second := conn()
	if n := second.Number(); n == before {
		t.Errorf("%d for two connections", n)
	}
	first.Keep()
	second.Keep()
}

// A server that has become a replica keeps its connections, but the address may lead to its master.
func TestTheConnectionToAReplicaIsReplaced(t *testing.T) {
	b := connected(t, rueidis.ClientOption{InitAddress: []string{servertest.Address}})
	first := id(t, b)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	servertest.Server.Val("REPLICAOF", "127.0.0.1", "1")
	defer servertest.Server.Val("REPLICAOF", "NO", "ONE")
	if _, err := b.Do(ctx, transport.Command{Args: []string{"LOCK.RELEASE", "key", "owner"}, First: 1, Count: 1}); err == nil {
		t.Error("released on a replica")
	}
	if last := id(t, b); last == first {
		t.Error("the connection is the same")
	}
}

// The limit for a short command does not close the connection of the others.
func TestAShortDeadlineClosesNoConnection(t *testing.T) {
	var dials atomic.Int64
	b := connected(t, rueidis.ClientOption{InitAddress: []string{servertest.Address},
		DialCtxFn: func(ctx context.Context, address string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			dials.Add(1)
			return dialer.DialContext(ctx, "tcp", address)
		}})
	first, before := id(t, b), dials.Load()
	servertest.Server.Val("CLIENT", "PAUSE", "300", "ALL")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := b.Do(ctx, transport.Command{Args: []string{"EXISTS", "key"}, First: 1, Count: 1}); err != context.DeadlineExceeded {
		t.Error(err)
	}
	if last := id(t, b); last != first || dials.Load() != before {
		t.Errorf("connection %v, then %v", first, last)
	}
}

// After the server has closed all connections, that for the release is opened before that of the wait.
func TestTheConnectionForTheReleaseIsOpenedFirst(t *testing.T) {
	var allowed, refused atomic.Int64
	allowed.Store(1000)
	locks, err := New(rueidis.ClientOption{InitAddress: []string{servertest.Address},
		DialCtxFn: func(ctx context.Context, address string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if allowed.Add(-1) < 0 {
				refused.Add(1)
				return nil, errors.New("full")
			}
			return dialer.DialContext(ctx, "tcp", address)
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	servertest.Server.Val("LOCK.ACQUIRE", t.Name(), "another")
	granted := make(chan *lockso.Hold)
	go func() {
		hold, err := locks.Lock(t.Name()).Lock(context.Background())
		if err != nil {
			t.Error(err)
		}
		granted <- hold
	}()
	waiting := func() bool {
		return servertest.Server.Val("LOCK.INFO", t.Name()).([]any)[5] == int64(1)
	}
	servertest.Eventually(t, "the wait", waiting)
	allowed.Store(1)
	servertest.Server.Val("CLIENT", "KILL", "TYPE", "normal")
	servertest.Eventually(t, "a connection that is refused", func() bool { return refused.Load() > 0 })
	if waiting() {
		t.Error("it waits, without a connection for the release")
	}
	allowed.Store(1000)
	servertest.Server.Val("LOCK.RELEASE", t.Name(), "another")
	if err := (<-granted).Unlock(context.Background()); err != nil {
		t.Error(err)
	}
}
