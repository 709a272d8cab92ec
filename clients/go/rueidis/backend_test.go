package rueidis

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"lockso/internal/servertest"
	"lockso/internal/transport"
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

// The second caller in the library waits for the connection that the first one makes, without regard to its context.
func TestAShortDeadlineIsKept(t *testing.T) {
	var slow atomic.Bool
	dialed, closed := make(chan struct{}, 100), make(chan struct{})
	option := slowTo(&slow, dialed, closed)
	client, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	b := &backend{client: client}
	ping := transport.Command{Args: []string{"EXISTS", "key"}, First: 1, Count: 1}
	within := func(d time.Duration) (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		return b.Do(ctx, ping)
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
			within(time.Minute)
		}
	}()
	servertest.Eventually(t, "the library to connect", func() bool { return len(dialed) > 0 })
	second := make(chan struct{})
	go func() {
		defer close(second)
		within(80 * time.Millisecond)
	}()
	select {
	case <-second:
	case <-time.After(10 * time.Second):
		t.Error("a deadline of 80 ms is not kept")
	}
	close(closed)
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
