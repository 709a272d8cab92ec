package goredis_test

// What go-redis does by itself with a command that waits: docs/clients/go.md says so, and this shows it.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockso/internal/servertest"
)

var background = context.Background()

// raw is a client of the library's with these options.
func raw(t *testing.T, options redis.Options) *redis.Client {
	t.Helper()
	if options.Addr == "" {
		options.Addr = servertest.Address
	}
	rdb := redis.NewClient(&options)
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// safe are the options for waits.
func safe() redis.Options { return redis.Options{ReadTimeout: -1, MaxRetries: -1} }

// held has somebody else hold the key, until release is called.
func held(t *testing.T) (key string, release func()) {
	t.Helper()
	key = t.Name()
	servertest.Say(t, "LOCK.ACQUIRE", key, "holder", "PX", 600000)
	servertest.Say(t, "LOCK.TOP", "COUNT", 0, "RESET")
	t.Cleanup(func() { servertest.Held(t, key, "", 0) })
	return key, func() { servertest.Say(t, "LOCK.RELEASE", key, "holder") }
}

type answer struct {
	reply any
	err   error
}

// wait asks in the background, and returns when the server has it wait.
func wait(t *testing.T, ctx context.Context, rdb redis.UniversalClient, key, owner string, options ...any) <-chan answer {
	t.Helper()
	answers := make(chan answer, 1)
	go func() {
		reply, err := rdb.Do(ctx, append([]any{"LOCK.ACQUIRE", key, owner, "PX", 600000, "BLOCK", 0}, options...)...).Result()
		answers <- answer{reply, err}
	}()
	servertest.Waiting(t, key, 1)
	return answers
}

func TestLibraryDefaults(t *testing.T) {
	o := raw(t, redis.Options{}).Options()
	if o.ReadTimeout != 5*time.Second || o.MaxRetries != 3 || o.PoolTimeout != 6*time.Second || o.ContextTimeoutEnabled || o.Protocol != 3 ||
		o.ConnMaxIdleTime != 30*time.Minute {
		t.Errorf("%+v", o)
	}
	if o := raw(t, safe()).Options(); o.ReadTimeout != 0 || o.MaxRetries != 0 || o.PoolTimeout != 30*time.Second {
		t.Errorf("%+v", o)
	}
}

func TestLibraryAsksFourTimes(t *testing.T) {
	key, release := held(t)
	rdb := raw(t, redis.Options{ReadTimeout: 100 * time.Millisecond})
	servertest.Eventually(t, "to be asked four times", func() bool { // fewer if a new connection was not ready in time
		servertest.Say(t, "LOCK.TOP", "COUNT", 0, "RESET")
		err := rdb.Do(background, "LOCK.ACQUIRE", key, "me", "BLOCK", 0).Err()
		servertest.Waiting(t, key, 0) // it closes the connection each time
		n := servertest.Waits(t, key, servertest.Server)
		if n > 4 {
			t.Fatalf("asked %d times", n)
		}
		if timeout, ok := errors.AsType[net.Error](err); n == 4 && (!ok || !timeout.Timeout()) {
			t.Errorf("%v", err)
		}
		return n == 4
	})
	release()
}

func TestLibraryLosesItsPlace(t *testing.T) {
	key, release := held(t)
	impatient := raw(t, redis.Options{ReadTimeout: time.Second, MaxRetries: 15})
	first := wait(t, background, impatient, key, "first")
	second := make(chan error, 1)
	go func() { second <- raw(t, safe()).Do(background, "LOCK.ACQUIRE", key, "second", "BLOCK", 0).Err() }()
	servertest.Eventually(t, "the second to be the first", func() bool {
		waiters, _ := servertest.Info(t, key)["waiters"].([]any)
		return len(waiters) == 2 && waiters[0].(map[any]any)["owner"] == "second"
	})
	release()
	if err := <-second; err != nil {
		t.Error(err)
	}
	servertest.Say(t, "LOCK.RELEASE", key, "second")
	<-first
	servertest.Say(t, "LOCK.FORCE", key) // it may hold it twice: a grant that came as it gave up is one too
}

func TestLibraryWaitsWithTheseSettings(t *testing.T) {
	for name, rdb := range map[string]*redis.Client{
		"for ever":    raw(t, safe()),
		"WithTimeout": raw(t, redis.Options{ReadTimeout: 100 * time.Millisecond}).WithTimeout(15 * time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			key, release := held(t)
			if err := rdb.Do(background, "LOCK.ACQUIRE", key, "me", "BLOCK", 500).Err(); err != redis.Nil {
				t.Error(err)
			}
			if n := servertest.Waits(t, key, servertest.Server); n != 1 {
				t.Errorf("asked %d times", n)
			}
			release()
		})
	}
}

// The connection is lost with the grant: the command is sent again, and counts again.
func TestLibraryHasASecondHold(t *testing.T) {
	for _, row := range []struct {
		options []any
		holds   int64
	}{{nil, 2}, {[]any{"ONCE"}, 1}} {
		t.Run(fmt.Sprint(row.options), func(t *testing.T) {
			key, release := held(t)
			wire := servertest.NewWire(t)
			got := wait(t, background, raw(t, redis.Options{Addr: wire.Address}), key, "me", row.options...)
			wire.Lose()
			release()
			if got := <-got; got.err != nil || got.reply != row.holds {
				t.Errorf("answered %v, %v", got.reply, got.err)
			}
			servertest.Held(t, key, "me", row.holds)
			servertest.Say(t, "LOCK.FORCE", key)
		})
	}
}

func TestLibraryRepeatsNOREPLICAS(t *testing.T) {
	for retries, times := range map[int]int{0: 4, -1: 1} {
		servertest.Say(t, "CONFIG", "RESETSTAT")
		err := raw(t, redis.Options{MaxRetries: retries}).Do(background, "LOCK.ACQUIRE", t.Name(), "me", "REPLICAS", 1, 100).Err()
		asked := servertest.Count(t, servertest.Server, "commandstats", "cmdstat_lock.acquire:calls")
		if !redis.HasErrorPrefix(err, "NOREPLICAS") || asked != times {
			t.Errorf("asked %d times: %v", asked, err)
		}
	}
}

// The end of a context does not end a wait, unless it is a deadline and the client is told to look at it.
func TestLibraryIsNotCancelled(t *testing.T) {
	for _, enabled := range []bool{false, true} {
		t.Run(fmt.Sprint("ContextTimeoutEnabled ", enabled), func(t *testing.T) {
			key, release := held(t)
			options := safe()
			options.ContextTimeoutEnabled = enabled
			ctx, cancel := context.WithCancel(background)
			got := wait(t, ctx, raw(t, options), key, "me")
			cancel()
			servertest.Waiting(t, key, 1)
			release()
			if got := <-got; got.err != nil || got.reply != int64(1) {
				t.Errorf("answered %v, %v", got.reply, got.err)
			}
			servertest.Say(t, "LOCK.RELEASE", key, "me")
		})
	}
}

func TestLibraryAndDeadlines(t *testing.T) {
	t.Run("not looked at", func(t *testing.T) {
		key, release := held(t)
		ctx, cancel := context.WithTimeout(background, 3*time.Second)
		defer cancel()
		got := wait(t, ctx, raw(t, safe()), key, "me")
		<-ctx.Done()
		servertest.Waiting(t, key, 1)
		release()
		if got := <-got; got.err != nil || got.reply != int64(1) {
			t.Errorf("answered %v, %v", got.reply, got.err)
		}
		servertest.Say(t, "LOCK.RELEASE", key, "me")
	})
	t.Run("ContextTimeoutEnabled", func(t *testing.T) {
		key, release := held(t)
		options := safe()
		options.ContextTimeoutEnabled = true
		ctx, cancel := context.WithTimeout(background, 3*time.Second)
		defer cancel()
		got := <-wait(t, ctx, raw(t, options), key, "me")
		if timeout, ok := errors.AsType[net.Error](got.err); !ok || !timeout.Timeout() {
			t.Errorf("answered %v, %v", got.reply, got.err)
		}
		servertest.Waiting(t, key, 0)
		release()
	})
}

// The grant is on its way when the deadline comes: nobody reads it, and the hold is there.
func TestLibraryLeavesAHold(t *testing.T) {
	key, release := held(t)
	wire := servertest.NewWire(t)
	options := safe()
	options.Addr, options.ContextTimeoutEnabled = wire.Address, true
	ctx, cancel := context.WithTimeout(background, 4*time.Second)
	defer cancel()
	got := wait(t, ctx, raw(t, options), key, "me")
	wire.Silence()
	release()
	if got := <-got; got.err == nil {
		t.Errorf("answered %v", got.reply)
	}
	servertest.Held(t, key, "me", 1)
	if n := servertest.Say(t, "LOCK.CANCEL", key, "me", "RELEASE"); n != int64(2) {
		t.Errorf("LOCK.CANCEL answered %v", n)
	}
}

// Deadlines that race grants. How many left a hold is logged; none does after LOCK.CANCEL.
func TestLibraryDeadlinesRaceGrants(t *testing.T) {
	const times = 200
	key := t.Name()
	options := safe()
	options.ContextTimeoutEnabled = true
	rdb := raw(t, options)
	left, granted := 0, 0
	for i := range times {
		owner := fmt.Sprint(i)
		servertest.Say(t, "LOCK.ACQUIRE", key, "holder")
		ctx, cancel := context.WithTimeout(background, time.Duration(1000+i*7%1000)*time.Microsecond)
		go func() {
			<-ctx.Done()
			servertest.Server.Do(background, "LOCK.RELEASE", key, "holder")
		}()
		if rdb.Do(ctx, "LOCK.ACQUIRE", key, owner, "BLOCK", 0).Err() == nil {
			granted++
			servertest.Say(t, "LOCK.RELEASE", key, owner)
		} else if servertest.Cancel(t, key, owner) {
			left++
		}
		cancel()
		servertest.Held(t, key, "", 0)
	}
	t.Logf("of %d waits that gave up %d left a hold", times-granted, left)
}

func TestLibraryPoolIsFull(t *testing.T) {
	key, release := held(t)
	rdb := raw(t, redis.Options{PoolSize: 1, PoolTimeout: 100 * time.Millisecond, ReadTimeout: -1})
	got := wait(t, background, rdb, key, "me")
	start := time.Now()
	if err := rdb.Do(background, "LOCK.RELEASE", key, "holder").Err(); err != redis.ErrPoolTimeout {
		t.Error(err)
	}
	if d := time.Since(start); d < 400*time.Millisecond { // four tries
		t.Errorf("after %v", d)
	}
	release()
	if got := <-got; got.err != nil {
		t.Error(got.err)
	}
	servertest.Say(t, "LOCK.RELEASE", key, "me")
}

func TestLibrarySessions(t *testing.T) {
	session := func(t *testing.T, rdb *redis.Client) *redis.Conn {
		t.Helper()
		conn := rdb.Conn()
		if err := conn.Do(background, "LOCK.ACQUIRE", t.Name(), "me", "SESSION").Err(); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	t.Run("a connection that is given back stays open", func(t *testing.T) {
		rdb := raw(t, redis.Options{})
		conn := session(t, rdb)
		id := conn.ClientID(background).Val()
		conn.Close()
		servertest.Held(t, t.Name(), "me", 1)
		if holder := servertest.Info(t, t.Name())["holders"].([]any)[0].(map[any]any); holder["session"] != id {
			t.Errorf("bound to %v, not to %d", holder["session"], id)
		}
		rdb.Close()
		servertest.Held(t, t.Name(), "", 0)
	})
	t.Run("the pool closes it", func(t *testing.T) {
		rdb := raw(t, redis.Options{ConnMaxLifetime: 200 * time.Millisecond})
		session(t, rdb).Close()
		servertest.Eventually(t, "the hold to go", func() bool {
			rdb.Ping(background)
			return servertest.Info(t, t.Name()) == nil
		})
	})
	t.Run("no other connection takes its place", func(t *testing.T) {
		conn := session(t, raw(t, redis.Options{}))
		defer conn.Close()
		servertest.Say(t, "CLIENT", "KILL", "ID", conn.ClientID(background).Val())
		for range 2 {
			if err := conn.Ping(background).Err(); err == nil {
				t.Error("no error")
			}
		}
		servertest.Held(t, t.Name(), "", 0)
	})
}

func TestLibraryInACluster(t *testing.T) {
	nodes := servertest.Cluster(t)
	moved := func() (n int) {
		for _, node := range nodes {
			n += servertest.Count(t, node, "errorstats", "errorstat_MOVED:count")
		}
		return n
	}
	cluster := func(options redis.ClusterOptions) *redis.ClusterClient {
		options.Addrs = []string{nodes[0].Options().Addr}
		rdb := redis.NewClusterClient(&options)
		t.Cleanup(func() { rdb.Close() })
		return rdb
	}
	t.Run("the key behind numkeys", func(t *testing.T) {
		rdb := cluster(redis.ClusterOptions{})
		before := moved()
		for i := range 20 {
			key := fmt.Sprintf("{%d}:a", i)
			cmd := redis.NewCmd(background, "LOCK.MACQUIRE", 2, key, fmt.Sprintf("{%d}:b", i), "me")
			cmd.SetFirstKeyPos(2)
			if err := rdb.Process(background, cmd); err != nil {
				t.Error(err)
			}
		}
		if n := moved() - before; n != 0 {
			t.Errorf("%d MOVED", n)
		}
	})
	t.Run("without a word of it", func(t *testing.T) {
		rdb := cluster(redis.ClusterOptions{})
		before := moved()
		for i := range 20 {
			if err := rdb.Do(background, "LOCK.MACQUIRE", 1, fmt.Sprintf("{%d}:c", i), "me").Err(); err != nil {
				t.Error(err)
			}
		}
		if n := moved() - before; n > 1 {
			t.Errorf("%d MOVED", n)
		}
	})
	t.Run("asked again as a redirection", func(t *testing.T) {
		const key = "held"
		if err := cluster(redis.ClusterOptions{}).Do(background, "LOCK.ACQUIRE", key, "holder", "PX", 600000).Err(); err != nil {
			t.Fatal(err)
		}
		rdb := cluster(redis.ClusterOptions{ReadTimeout: time.Second})
		if err := rdb.Do(background, "LOCK.ACQUIRE", key, "me", "BLOCK", 0).Err(); err == nil {
			t.Error("granted")
		}
		before := servertest.Waits(t, key, nodes...)
		if before < 2 {
			t.Errorf("asked %d times", before)
		}
		node, err := rdb.MasterForKey(background, key)
		if err != nil {
			t.Fatal(err)
		}
		servertest.Eventually(t, "to be asked once", func() bool { // not at all if a new connection was not ready in time
			if err := node.Do(background, "LOCK.ACQUIRE", key, "me", "BLOCK", 0).Err(); err == nil {
				t.Error("granted")
			}
			n := servertest.Waits(t, key, nodes...) - before
			if n > 1 {
				t.Fatalf("asked %d times", n)
			}
			return n == 1
		})
	})
}

func TestLibraryReplies(t *testing.T) {
	key, release := held(t)
	resp3, resp2 := raw(t, redis.Options{}), raw(t, redis.Options{Protocol: 2})
	if info, ok := resp3.Do(background, "LOCK.INFO", key).Val().(map[any]any); !ok || info["mode"] != "exclusive" || info["token"] != nil {
		t.Errorf("RESP3: %v", info)
	} else if holder, ok := info["holders"].([]any)[0].(map[any]any); !ok || holder["owner"] != "holder" || holder["holds"] != int64(1) {
		t.Errorf("RESP3: %v", info)
	}
	if info, ok := resp2.Do(background, "LOCK.INFO", key).Val().([]any); !ok || info[0] != "mode" || info[1] != "exclusive" {
		t.Errorf("RESP2: %v", info)
	} else if holder, ok := info[3].([]any)[0].([]any); !ok || holder[0] != "owner" || holder[1] != "holder" {
		t.Errorf("RESP2: %v", info)
	}
	release()
	for _, rdb := range []*redis.Client{resp3, resp2} {
		err := rdb.Do(background, "LOCK.INFO", key).Err()
		if _, ok := errors.AsType[redis.Error](err); !ok || !errors.Is(err, redis.Nil) {
			t.Error(err)
		}
		err = rdb.Do(background, "LOCK.RELEASE", key, "me").Err()
		if _, ok := errors.AsType[redis.Error](err); !ok || !redis.HasErrorPrefix(err, "NOTHELD") {
			t.Error(err)
		}
		token, err := rdb.Do(background, "LOCK.ACQUIRE", key, "me", "FENCED").Int64()
		if err != nil || token == 0 {
			t.Error(token, err)
		}
		if left, err := rdb.Do(background, "LOCK.RELEASE", key, "me").Int(); err != nil || left != 0 {
			t.Error(left, err)
		}
	}
}
