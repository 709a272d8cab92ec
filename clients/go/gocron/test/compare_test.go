package test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9"

	"lock-so.invalid/lock-so/clients/go"
	gocronlock "lock-so.invalid/lock-so/clients/go/gocron"
	"lock-so.invalid/lock-so/clients/go/internal/servertest"
)

const (
	handoffs = 120
	kills    = 3
)

// Compares the adapter with what gocron's own locker for Redis does, in one run.
func TestComparison(t *testing.T) {
	if os.Getenv("COMPARE") == "" {
		t.Skip("COMPARE is not set")
	}
	rdb := redis.NewClient(&redis.Options{Addr: servertest.Address})
	t.Cleanup(func() { rdb.Close() })
	theirs := func(tries int) gocron.Locker { return newRedsyncLocker(rdb, 0, redsync.WithTries(tries)) }
	ours := func(atLeast time.Duration, options ...lockso.Option) gocron.Locker {
		return gocronlock.NewLocker(newClient(t, servertest.Address), "app", atLeast, options...)
	}

	one, two, kept := ours(0), ours(0), ours(20*time.Millisecond)
	t.Logf("lock and unlock: this package %v, with atLeast %v, redsync %v",
		p50(300, func() time.Duration { return lockAndUnlock(t, one, "a") }),
		p50(300, func() time.Duration { return lockAndUnlock(t, kept, "b") }),
		p50(300, func() time.Duration { return lockAndUnlock(t, theirs(1), "c") }))
	held, err := one.Lock(jobContext(t), "held")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := theirs(1).Lock(jobContext(t), "theirs"); err != nil {
		t.Fatal(err)
	}
	t.Logf("a lock that is held: this package %v, redsync with one try %v",
		p50(300, func() time.Duration { return refusal(t, two, "held") }),
		p50(300, func() time.Duration { return refusal(t, theirs(1), "theirs") }))
	held.Unlock(context.Background())

	t.Run("handoff", func(t *testing.T) {
		t.Logf("release to grant, p50 of %d: elector %v, redsync %v", handoffs,
			p50(handoffs, electorHandoff(t)), p50(handoffs, func() time.Duration { return redsyncHandoff(t, theirs(1), theirs(100)) }))
	})
	t.Logf("commands per second while three wait: elector %.1f, redsync %.1f", electorWaiting(t), redsyncWaiting(t, theirs(1), theirs(100)))

	for _, ticks := range []scheduler{{Kind: "locker", AtLeast: interval / 2, Lease: 10 * time.Second}, {Kind: "redsync"}} {
		t.Run(ticks.Kind, func(t *testing.T) {
			p := start(t, ticks)
			servertest.Eventually(t, "the sixth tick", func() bool {
				return slices.ContainsFunc(p.all(), func(e event) bool { return e.what == "run" && e.about == "6" })
			})
			runs := slices.DeleteFunc(p.all(), func(e event) bool { return e.what != "run" || e.about < "1" || e.about > "5" })
			t.Logf("%s: %d runs in 5 ticks", ticks.Kind, len(runs))
		})
	}
	for name, s := range map[string]scheduler{
		"locker, session":               {Kind: "locker"},
		"locker, lease of 10 s":         {Kind: "locker", Lease: 10 * time.Second},
		"elector, session":              {Kind: "elector"},
		"elector, lease of 10 s":        {Kind: "elector", Lease: 10 * time.Second},
		"redsync, default expiry (8 s)": {Kind: "redsync"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Logf("%s: free after %v", name, p50(kills, func() time.Duration { return freeAfterKill(t, s, theirs(1)) }))
		})
	}
}

// p50 measures repeatedly.
func p50(times int, measure func() time.Duration) time.Duration {
	var all []time.Duration
	for range times {
		all = append(all, measure())
	}
	slices.Sort(all)
	return all[len(all)/2].Round(time.Microsecond)
}

func lockAndUnlock(t *testing.T, locker gocron.Locker, key string) time.Duration {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	began := time.Now()
	lock, err := locker.Lock(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(ctx); err != nil {
		t.Fatal(err)
	}
	passed := time.Since(began)
	for servertest.Server.Val("EXISTS", "app:"+key) == int64(1) {
		time.Sleep(time.Millisecond)
	}
	return passed
}

func refusal(t *testing.T, locker gocron.Locker, key string) time.Duration {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	began := time.Now()
	if _, err := locker.Lock(ctx, key); err == nil {
		t.Fatal("granted")
	}
	return time.Since(began)
}

// electorHandoff measures from the end of a leader to the election of the other candidate.
func electorHandoff(t *testing.T) func() time.Duration {
	clients := []*lockso.Client{newClient(t, servertest.Address), newClient(t, servertest.Address)}
	leader := gocronlock.NewElector(clients[0].Lock("handoff"), 0)
	t.Cleanup(func() { leader.Close() })
	elected(t, leader)
	return func() time.Duration {
		clients[0], clients[1] = clients[1], clients[0]
		candidate := gocronlock.NewElector(clients[0].Lock("handoff"), 0)
		servertest.Eventually(t, "the candidate", func() bool {
			info, err := clients[1].Lock("handoff").Info(context.Background())
			return err == nil && info.Waiting == 1
		})
		began := time.Now()
		go leader.Close()
		for candidate.Hold() == nil {
			time.Sleep(20 * time.Microsecond)
		}
		passed := time.Since(began)
		leader.Close()
		leader = candidate
		return passed
	}
}

func redsyncHandoff(t *testing.T, holder, waiter gocron.Locker) time.Duration {
	ctx := jobContext(t)
	lock, err := holder.Lock(ctx, "handoff of redsync")
	if err != nil {
		t.Fatal(err)
	}
	granted := make(chan time.Time)
	go func() {
		lock, err := waiter.Lock(ctx, "handoff of redsync")
		granted <- time.Now()
		if err != nil {
			t.Error(err)
		} else {
			lock.Unlock(ctx)
		}
		granted <- time.Now()
	}()
	time.Sleep(20 * time.Millisecond) // so that it waits
	began := time.Now()
	lock.Unlock(ctx)
	passed := (<-granted).Sub(began)
	<-granted
	return passed
}

// commands returns how many commands per second are sent to the server in five seconds.
func commands() float64 {
	sent := func() (n int) {
		for line := range strings.Lines(servertest.Server.Val("INFO", "commandstats").(string)) {
			var calls int
			name, text, _ := strings.Cut(line, ":calls=")
			fmt.Sscan(strings.Split(text, ",")[0], &calls)
			if name != "cmdstat_get" && name != "cmdstat_info" { // those of redsync's script, and these
				n += calls
			}
		}
		return n
	}
	before := sent()
	time.Sleep(5 * time.Second)
	return float64(sent()-before) / 5
}

func electorWaiting(t *testing.T) float64 {
	var all []*gocronlock.Elector
	for range 4 {
		all = append(all, gocronlock.NewElector(newClient(t, servertest.Address).Lock("waiting"), 0))
	}
	info := newClient(t, servertest.Address).Lock("waiting")
	servertest.Eventually(t, "the candidates", func() bool {
		found, err := info.Info(context.Background())
		return err == nil && found.Waiting == 3
	})
	rate := commands()
	for _, e := range all {
		e.Close()
	}
	return rate
}

func redsyncWaiting(t *testing.T, holder, waiter gocron.Locker) float64 {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	lock, err := holder.Lock(ctx, "waiting of redsync")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock(ctx)
	for range 3 {
		go waiter.Lock(ctx, "waiting of redsync")
	}
	time.Sleep(500 * time.Millisecond) // so that all three wait, and their connections are open
	return commands()
}

// freeAfterKill measures from the death of a process that holds the lock until this process acquires it.
func freeAfterKill(t *testing.T, s scheduler, theirs gocron.Locker) time.Duration {
	p := start(t, s)
	gate(true)
	holder := p.next("run", 0, 1, 2).process
	for _, i := range others(holder) {
		p.signal(i, 9)
		p.commands[i].Wait()
	}
	client := newClient(t, servertest.Address)
	acquire := theirs.Lock
	switch s.Kind {
	case "locker":
		acquire = gocronlock.NewLocker(client, "app", 0).Lock
	case "elector":
		e := gocronlock.NewElector(client.Lock("app:leader"), 0)
		defer e.Close()
		acquire = func(ctx context.Context, _ string) (gocron.Lock, error) { return nil, e.IsLeader(ctx) }
	}
	if _, err := acquire(jobContext(t), "job"); err == nil {
		t.Fatal("the lock is not held")
	}
	p.signal(holder, 9)
	began := time.Now()
	servertest.Eventually(t, "the lock", func() bool {
		lock, err := acquire(jobContext(t), "job")
		if lock != nil {
			defer lock.Unlock(context.Background())
		}
		return err == nil
	})
	return time.Since(began)
}
