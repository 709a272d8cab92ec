package rueidis_test

// What rueidis does by itself with a command that waits: docs/clients/go.md says so, and this shows it.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	rueidisv1 "github.com/redis/rueidis"

	"lockso/internal/servertest"
)

var background = context.Background()

// raw is a client of the library's with these options.
func raw(t *testing.T, options rueidisv1.ClientOption) rueidisv1.Client {
	t.Helper()
	if options.InitAddress == nil {
		options.InitAddress = []string{servertest.Address}
	}
	var client rueidisv1.Client
	servertest.Eventually(t, "a connection", func() bool { // ConnWriteTimeout is for its handshake too
		var err error
		if client, err = rueidisv1.NewClient(options); err != nil {
			t.Log(err)
		}
		return err == nil
	})
	t.Cleanup(client.Close)
	return client
}

func command(client rueidisv1.Client, name, key string, words ...string) rueidisv1.Completed {
	return client.B().Arbitrary(name).Keys(key).Args(words...).Build()
}

func waiting(client rueidisv1.Client, key, owner string) rueidisv1.Completed {
	return client.B().Arbitrary("LOCK.ACQUIRE").Keys(key).Args(owner, "PX", "600000", "BLOCK", "0").Blocking()
}

// held has somebody else hold the key, until release is called.
func held(t *testing.T) (key string, release func()) {
	t.Helper()
	key = t.Name()
	servertest.Say(t, "LOCK.ACQUIRE", key, "holder", "PX", 600000)
	servertest.Say(t, "LOCK.TOP", "COUNT", 0, "RESET")
	t.Cleanup(func() { servertest.Held(t, key, "", 0) })
	return key, func() { servertest.Say(t, "LOCK.RELEASE", key, "holder") }
}

// wait asks in the background, and returns when the server has it wait.
func wait(t *testing.T, ctx context.Context, client rueidisv1.Client, cmd rueidisv1.Completed, key string) <-chan rueidisv1.RedisResult {
	t.Helper()
	answers := make(chan rueidisv1.RedisResult, 1)
	go func() { answers <- client.Do(ctx, cmd) }()
	servertest.Waiting(t, key, 1)
	return answers
}

func granted(t *testing.T, got rueidisv1.RedisResult) {
	t.Helper()
	if n, err := got.AsInt64(); n != 1 || err != nil {
		t.Errorf("answered %d, %v", n, err)
	}
}

// within says what a command answered in half a second.
func within(t *testing.T, client rueidisv1.Client, cmd rueidisv1.Completed) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(background, 500*time.Millisecond)
	defer cancel()
	return client.Do(ctx, cmd).Error()
}

func TestLibraryStalls(t *testing.T) {
	key, release := held(t)
	client := raw(t, rueidisv1.ClientOption{PipelineMultiplex: -1}) // one connection for all, as in a cluster
	cmd := command(client, "LOCK.ACQUIRE", key, "me", "BLOCK", "0")
	got := wait(t, background, client, cmd, key)
	if err := within(t, client, command(client, "LOCK.RELEASE", key, "holder")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the release got through: %v", err)
	}
	release()
	granted(t, <-got)
	servertest.Say(t, "LOCK.RELEASE", key, "me")
}

func TestLibraryCutsAWaitThatIsNotBlocking(t *testing.T) {
	key, release := held(t)
	client := raw(t, rueidisv1.ClientOption{ConnWriteTimeout: 2 * time.Second})
	err := client.Do(background, command(client, "LOCK.ACQUIRE", key, "me", "BLOCK", "0")).Error()
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	if n := servertest.Waits(t, key, servertest.Server); n != 1 {
		t.Errorf("asked %d times", n)
	}
	servertest.Waiting(t, key, 0)
	release()
}

func TestLibraryWaitsWithBlocking(t *testing.T) {
	key, _ := held(t)
	client := raw(t, rueidisv1.ClientOption{ConnWriteTimeout: 2 * time.Second, PipelineMultiplex: -1})
	got := wait(t, background, client, waiting(client, key, "me"), key)
	cmd := client.B().Arbitrary("LOCK.ACQUIRE").Keys(key).Args("other", "BLOCK", "3000").Blocking()
	if err := client.Do(background, cmd).Error(); !rueidisv1.IsRedisNil(err) { // longer than ConnWriteTimeout
		t.Error(err)
	}
	if err := client.Do(background, command(client, "LOCK.RELEASE", key, "holder")).Error(); err != nil {
		t.Error(err)
	}
	granted(t, <-got)
	if n := servertest.Waits(t, key, servertest.Server); n != 2 {
		t.Errorf("asked %d times", n)
	}
	servertest.Say(t, "LOCK.RELEASE", key, "me")
}

func TestLibraryDoesNotAskAgain(t *testing.T) {
	key, release := held(t)
	wire := servertest.NewWire(t)
	client := raw(t, rueidisv1.ClientOption{InitAddress: []string{wire.Address}})
	got := wait(t, background, client, waiting(client, key, "me"), key)
	wire.Lose()
	release()
	if _, refused := rueidisv1.IsRedisErr((<-got).Error()); refused {
		t.Error("an answer of the server")
	}
	servertest.Held(t, key, "me", 1) // a hold that the caller has not been told of
	if n := servertest.Waits(t, key, servertest.Server); n != 1 {
		t.Errorf("asked %d times", n)
	}
	servertest.Say(t, "LOCK.RELEASE", key, "me")
}

// A context ends the wait of a blocking command at once, and its connection.
func TestLibraryIsCancelled(t *testing.T) {
	for _, unblock := range []bool{false, true} {
		for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
			t.Run(fmt.Sprint(end, ", UnblockOnCancel ", unblock), func(t *testing.T) {
				key, release := held(t)
				client := raw(t, rueidisv1.ClientOption{})
				ctx, cancel := context.WithCancel(background)
				if end == context.DeadlineExceeded {
					ctx, cancel = context.WithTimeout(background, 3*time.Second)
				}
				defer cancel()
				cmd := waiting(client, key, "me")
				if unblock {
					cmd = cmd.UnblockOnCancel()
				}
				got := wait(t, ctx, client, cmd, key)
				if end == context.Canceled {
					cancel()
				}
				if err := (<-got).Error(); !errors.Is(err, end) {
					t.Error(err)
				}
				servertest.Waiting(t, key, 0)
				release()
			})
		}
	}
}

// The grant is on its way when the context ends: nobody reads it, and the hold is there.
func TestLibraryLeavesAHold(t *testing.T) {
	for _, unblock := range []bool{false, true} {
		t.Run(fmt.Sprint("UnblockOnCancel ", unblock), func(t *testing.T) {
			key, release := held(t)
			wire := servertest.NewWire(t)
			client := raw(t, rueidisv1.ClientOption{InitAddress: []string{wire.Address}})
			ctx, cancel := context.WithCancel(background)
			cmd := waiting(client, key, "me")
			if unblock {
				cmd = cmd.UnblockOnCancel()
			}
			got := wait(t, ctx, client, cmd, key)
			wire.Silence()
			release()
			servertest.Held(t, key, "me", 1)
			cancel()
			if err := (<-got).Error(); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			servertest.Held(t, key, "me", 1)
			if n := servertest.Say(t, "LOCK.CANCEL", key, "me", "RELEASE"); n != int64(2) {
				t.Errorf("LOCK.CANCEL answered %v", n)
			}
		})
	}
}

// Cancellations that race grants. How many left a hold is logged; none does after LOCK.CANCEL.
func TestLibraryCancellationsRaceGrants(t *testing.T) {
	const times = 200
	client := raw(t, rueidisv1.ClientOption{})
	left, had := 0, 0
	for i := range times {
		key, owner := fmt.Sprint(t.Name(), i), fmt.Sprint(i) // of this round alone: a request may be sent after all
		servertest.Say(t, "LOCK.ACQUIRE", key, "holder")
		ctx, cancel := context.WithTimeout(background, time.Duration(1000+i*7%1000)*time.Microsecond)
		go func() {
			<-ctx.Done()
			servertest.Server.Do(background, "LOCK.RELEASE", key, "holder")
		}()
		if client.Do(ctx, waiting(client, key, owner)).Error() == nil {
			had++
			servertest.Say(t, "LOCK.RELEASE", key, owner)
			servertest.Held(t, key, "", 0)
		} else if servertest.Cancel(t, key, owner) {
			left++
		}
		cancel()
	}
	t.Logf("of %d waits that gave up %d left a hold", times-had, left)
}

// A wait for which the pool has no connection is not asked for, and has no place in the queue.
func TestLibraryPoolIsFull(t *testing.T) {
	key, release := held(t)
	client := raw(t, rueidisv1.ClientOption{BlockingPoolSize: 1})
	got := wait(t, background, client, waiting(client, key, "me"), key)
	if err := within(t, client, waiting(client, key, "other")); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if n := servertest.Waits(t, key, servertest.Server); n != 1 {
		t.Errorf("asked %d times", n)
	}
	release()
	granted(t, <-got)
	if err := client.Do(background, command(client, "LOCK.RELEASE", key, "me")).Error(); err != nil {
		t.Error(err)
	}
}

func TestLibrarySessions(t *testing.T) {
	for name, end := range map[string]func(rueidisv1.DedicatedClient, func()){
		"given back, it stays open": func(_ rueidisv1.DedicatedClient, cancel func()) { cancel() },
		"closed":                    func(wire rueidisv1.DedicatedClient, _ func()) { wire.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			client := raw(t, rueidisv1.ClientOption{})
			wire, cancel := client.Dedicate()
			cmd := wire.B().Arbitrary("LOCK.ACQUIRE").Keys(t.Name()).Args("me", "SESSION").Build()
			if err := wire.Do(background, cmd).Error(); err != nil {
				t.Fatal(err)
			}
			end(wire, cancel)
			if name != "closed" {
				if err := client.Do(background, client.B().Ping().Build()).Error(); err != nil {
					t.Error(err)
				}
				servertest.Held(t, t.Name(), "me", 1)
				client.Close()
			}
			servertest.Held(t, t.Name(), "", 0)
		})
	}
}

func TestLibraryInACluster(t *testing.T) {
	nodes := servertest.Cluster(t)
	client := raw(t, rueidisv1.ClientOption{InitAddress: []string{nodes[0].Options().Addr}})
	for i := range 20 {
		a, b := fmt.Sprintf("{%d}:a", i), fmt.Sprintf("{%d}:b", i)
		cmd := client.B().Arbitrary("LOCK.MACQUIRE", "2").Keys(a, b).Args("me").Blocking()
		if n, err := client.Do(background, cmd).AsInt64(); n != 2 || err != nil {
			t.Error(n, err)
		}
	}
	for _, node := range nodes {
		if n := servertest.Count(t, node, "errorstats", "errorstat_MOVED:count"); n != 0 {
			t.Errorf("%d MOVED", n)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic over keys of several slots")
		}
	}()
	client.B().Arbitrary("LOCK.MACQUIRE", "2").Keys("{1}", "{2}").Args("me").Blocking()
}

func TestLibraryReplies(t *testing.T) {
	key, release := held(t)
	for name, client := range map[string]rueidisv1.Client{
		"RESP3": raw(t, rueidisv1.ClientOption{}), "RESP2": raw(t, rueidisv1.ClientOption{AlwaysRESP2: true, DisableCache: true}),
	} {
		info, err := client.Do(background, command(client, "LOCK.INFO", key)).AsMap() // of either
		if err != nil {
			t.Fatal(name, err)
		}
		mode, token, holders := info["mode"], info["token"], info["holders"]
		if text, err := mode.ToString(); text != "exclusive" || err != nil || !token.IsNil() {
			t.Error(name, text, err)
		}
		list, err := holders.ToArray()
		if err != nil || len(list) != 1 {
			t.Fatal(name, list, err)
		}
		holder, err := list[0].AsMap()
		if err != nil {
			t.Fatal(name, err)
		}
		owner, holds := holder["owner"], holder["holds"]
		if text, err := owner.ToString(); text != "holder" || err != nil {
			t.Error(name, text, err)
		}
		if n, err := holds.ToInt64(); n != 1 || err != nil {
			t.Error(name, n, err)
		}
		if err := client.Do(background, command(client, "LOCK.INFO", key+" free")).Error(); !rueidisv1.IsRedisNil(err) {
			t.Error(name, err)
		}
		answered, ok := rueidisv1.IsRedisErr(client.Do(background, command(client, "LOCK.RELEASE", key, "me")).Error())
		if !ok || answered.Error() != "NOTHELD the owner holds no such lock" {
			t.Error(name, answered)
		}
		answered, ok = rueidisv1.IsRedisErr(client.Do(background, command(client, "LOCK.ACQUIRE", key, "me", "PX", "x")).Error())
		if !ok || answered.Error() == "" || answered.Error()[:4] == "ERR " {
			t.Error(name, answered)
		}
	}
	release()
}
