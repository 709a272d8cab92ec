package goredis

import (
	"context"
	"net"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockso"
	"lockso/internal/servertest"
	"lockso/internal/transport"
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
