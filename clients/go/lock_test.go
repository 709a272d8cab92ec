//go:build go1.25

package lockso

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var background = context.Background()

// bubble runs a test in a bubble of testing/synctest: time passes only when all goroutines are blocked.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			t.Cleanup(func() { time.Sleep(time.Minute) }) // after Close, until the background work has ended
			test(t)
		})
	})
}

// always replies to every command with this reply.
func always(reply any) func(string) (any, error) {
	return func(string) (any, error) { return reply, nil }
}

// by replies according to the first word of a command.
func by(replies map[string]any) func(string) (any, error) {
	return func(command string) (any, error) {
		name, _, _ := strings.Cut(command, " ")
		switch reply := replies[name].(type) {
		case nil:
			if _, given := replies[name]; name == "LOCK.WATCH" && !given {
				return blocks{}, nil
			}
			return nil, nil
		case error:
			return nil, reply
		case func() (any, error):
			return reply()
		default:
			return reply, nil
		}
	}
}

// sequence answers with one reply after the other, and repeats the last one.
func sequence(replies ...any) func() (any, error) {
	return func() (any, error) {
		reply := replies[0]
		if len(replies) > 1 {
			replies = replies[1:]
		}
		if err, ok := reply.(error); ok {
			return nil, err
		}
		return reply, nil
	}
}

func TestCommands(t *testing.T) {
	for _, row := range []struct {
		name  string
		lock  func(*Client) *Lock
		lines []string
	}{
		{"lock", func(c *Client) *Lock { return c.Lock("k", Lease(time.Minute)) },
			[]string{"LOCK.ACQUIRE k # PX 60000 BLOCK 30000 ONCE", "LOCK.RELEASE k #"}},
		{"fair", func(c *Client) *Lock { return c.Fair("k", Fenced()) },
			[]string{"LOCK.FAIR k # PX 30000 BLOCK 0 FENCED ONCE", "LOCK.RELEASE k #"}},
		{"read", func(c *Client) *Lock { return c.Read("k", Wait(time.Second)) },
			[]string{"LOCK.RWREAD k # PX 30000 BLOCK 1000 ONCE", "LOCK.RELEASE k # READ"}},
		{"write", func(c *Client) *Lock { return c.Write("k", Wait(0)) },
			[]string{"LOCK.RWWRITE k # PX 30000 ONCE", "LOCK.RELEASE k # WRITE"}},
		{"multi", func(c *Client) *Lock { return c.Multi([]string{"k", "l"}) },
			[]string{"LOCK.MACQUIRE 2 k l # PX 30000 BLOCK 30000 ONCE", "LOCK.MRELEASE 2 k l #"}},
		{"modes", func(c *Client) *Lock {
			return c.MultiModes(Modes{Read: []string{"/", "/a"}, Write: []string{"/a", "/b"}})
		},
			[]string{"LOCK.MACQUIRE 3 / /a /b # MODES READ WRITE WRITE PX 30000 BLOCK 30000 ONCE", "LOCK.MRELEASE 3 / /a /b # MODES READ WRITE WRITE"}},
		{"semaphore", func(c *Client) *Lock { return c.Semaphore("k", 5, Permits(2), Replicas(1, time.Second)) },
			[]string{"LOCK.SEMAPHORE k # 5 PERMITS 2 PX 30000 BLOCK 30000 ONCE REPLICAS 1 1000", "LOCK.RELEASE k # PERMITS 2"}},
	} {
		bubble(t, row.name, func(t *testing.T) {
			f, c := newFake(t, always(int64(7)))
			hold, err := row.lock(c).Lock(background)
			if err != nil {
				t.Fatal(err)
			}
			if err := hold.Unlock(background); err != nil {
				t.Error(err)
			}
			wantLog(t, f, row.lines...)
			if got, want := hold.Token() != 0, row.name == "fair"; got != want {
				t.Errorf("token %d", hold.Token())
			}
			if f.conns[0].how() != "kept" {
				t.Errorf("the connection is %q", f.conns[0].how())
			}
			isErr(t, hold.Unlock(background), ErrNotHeld)
		})
	}
}

func TestVeryLongDurations(t *testing.T) {
	const longest = time.Duration(math.MaxInt64)
	for d, want := range map[time.Duration]string{longest: "9223372036855", time.Millisecond: "1", time.Millisecond + 1: "2", 1: "1"} {
		if got := millis(d); got != want {
			t.Errorf("%v is %s ms", d, got)
		}
	}
	bubble(t, "", func(t *testing.T) {
		f, c := newFake(t, always(int64(1)), MaxBlock(longest))
		for _, lock := range []*Lock{
			c.Lock("k", Lease(longest), NoRenew(), Wait(longest)),
			c.Fair("k", Wait(longest), Replicas(1, longest)),
		} {
			hold := held(t, lock)
			time.Sleep(time.Millisecond)
			if isLost(hold) {
				t.Error("lost")
			}
			hold.Unlock(background)
		}
		wantLog(t, f, "LOCK.ACQUIRE k # PX 9223372036855 BLOCK 86400000 ONCE", "LOCK.RELEASE k #",
			"LOCK.FAIR k # PX 30000 BLOCK 0 ONCE REPLICAS 1 86400000", "LOCK.RELEASE k #")
	})
	bubble(t, "a deadline far away", func(t *testing.T) {
		_, c := newFake(t, always(int64(1)))
		a := &acquisition{client: c.core, spec: c.Lock("k").target.describe(), ctx: background}
		for _, wait := range []time.Duration{longest, longest / 2, 10000 * day, time.Hour} {
			a.limit(time.Now(), wait)
			if got := a.connectWithin(); got != 5*time.Second {
				t.Errorf("%v to connect within %v", got, wait)
			}
		}
	})
}

func TestEachAcquisitionHasAnOwnerOfItsOwn(t *testing.T) {
	f, c := newFake(t, always(int64(1)))
	lock := c.Lock("k")
	for range 100 {
		hold, err := lock.Lock(background)
		if err != nil || !anOwner.MatchString(hold.Owner()) {
			t.Fatal(hold, err)
		}
		hold.Unlock(background)
	}
	if len(f.owners) != 100 {
		t.Errorf("%d owners", len(f.owners))
	}
}

func TestErrors(t *testing.T) {
	for text, kind := range map[string]error{
		"DEADLOCK a waits for k held by b": ErrDeadlock, "NOREPLICAS fewer": ErrNoReplicas,
		"WRONGTYPE Operation": ErrRefused, "lease is not a positive integer": ErrRefused,
	} {
		bubble(t, text, func(t *testing.T) {
			f, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": refuse(text)}))
			_, err := c.Lock("k").Lock(background)
			isErr(t, err, kind)
			var typed *Error
			if !errors.As(err, &typed) || typed.Keys[0] != "k" || strings.ToUpper(typed.Code) != typed.Code {
				t.Errorf("%#v", err)
			}
			wantText(t, err, `lock "k": `+text)
			wantLog(t, f, "LOCK.ACQUIRE k # PX 30000 BLOCK 30000 ONCE") // there is nothing to cancel
		})
	}
}

func TestAWaitIsRepeatedUntilItTimesOut(t *testing.T) {
	bubble(t, "lock", func(t *testing.T) {
		start := time.Now()
		f, c := newFake(t, nil)
		f.answer = func(command string) (any, error) {
			block := 30 * time.Second
			if strings.Contains(command, "BLOCK 10000 ") {
				block = 10 * time.Second
			}
			time.Sleep(block)
			return nil, nil
		}
		_, err := c.Lock("k", Wait(40*time.Second)).Lock(background)
		isErr(t, err, ErrNotAcquired)
		took(t, start, 40*time.Second, 40*time.Second)
		wantLog(t, f, "LOCK.ACQUIRE k # PX 30000 BLOCK 30000 ONCE", "LOCK.ACQUIRE k # PX 30000 BLOCK 10000 ONCE")
	})
	bubble(t, "fair", func(t *testing.T) { // which ends a blocking call by closing the connection, to keep its place in the queue
		start := time.Now()
		f, c := newFake(t, by(map[string]any{"LOCK.FAIR": sequence(hang{}, int64(1)), "LOCK.RELEASE": int64(0), "LOCK.CANCEL": int64(0)}))
		hold, err := c.Fair("k").Lock(background)
		if err != nil {
			t.Fatal(err)
		}
		took(t, start, 30*time.Second, 30*time.Second) // and the next one follows at once, because everybody behind it waits
		if f.conns[0].how() != "closed" || len(f.owners) != 1 || f.warnings() != "" {
			t.Errorf("%q, %d owners, %s", f.conns[0].how(), len(f.owners), f.warnings())
		}
		hold.Unlock(background)
	})
	bubble(t, "fair, with an outage before and after a blocking call", func(t *testing.T) {
		f, c := newFake(t, by(map[string]any{"LOCK.FAIR": sequence(errCut, hang{}, errCut, int64(1)), "LOCK.RELEASE": int64(0), "LOCK.CANCEL": int64(0)}))
		held(t, c.Fair("k")).Unlock(background)
		if strings.Count(f.warnings(), "the wait goes on") != 2 {
			t.Error(f.warnings())
		}
	})
	bubble(t, "fair, until it times out", func(t *testing.T) {
		f, c := newFake(t, by(map[string]any{"LOCK.FAIR": blocks{}, "LOCK.CANCEL": int64(0)}))
		_, err := c.Fair("k", Wait(61*time.Second)).Lock(background)
		isErr(t, err, ErrNotAcquired)
		if errors.Is(err, ErrConnection) || f.warnings() != "" {
			t.Errorf("%v, %s", err, f.warnings())
		}
	})
	bubble(t, "cancelled by another client", func(t *testing.T) {
		f, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": nil}))
		_, err := c.Lock("k").Lock(background)
		isErr(t, err, ErrNotAcquired)
		wantLog(t, f, "LOCK.ACQUIRE k # PX 30000 BLOCK 30000 ONCE")
	})
}

func TestAfterALostConnectionTheSameOwnerRequestsAgain(t *testing.T) {
	for _, lost := range []error{errCut, refuse("READONLY You can't write"), refuse("UNBLOCKED x"), refuse("LOADING x"),
		refuse("CLUSTERDOWN x"), refuse("TRYAGAIN x"), refuse("MASTERDOWN x")} {
		bubble(t, lost.Error(), func(t *testing.T) {
			start := time.Now()
			f, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": sequence(lost, lost, int64(1)), "LOCK.RELEASE": int64(0)}))
			hold, err := c.Lock("k", Wait(time.Second)).Lock(background)
			if err != nil {
				t.Fatal(err)
			}
			last := 940 // after 20 ms, then 40
			if code := codeOf(lost); code == "" || code == "READONLY" {
				last = 960 // which other idle connections may reply, too
			}
			took(t, start, time.Duration(1000-last)*time.Millisecond, time.Duration(1000-last)*time.Millisecond)
			wantLog(t, f, "LOCK.ACQUIRE k # PX 30000 BLOCK 1000 ONCE", "LOCK.ACQUIRE k # PX 30000 BLOCK 980 ONCE",
				fmt.Sprintf("LOCK.ACQUIRE k # PX 30000 BLOCK %d ONCE", last))
			how := "closed"
			if codeOf(lost) == "TRYAGAIN" {
				how = "kept"
			}
			if len(f.owners) != 1 || f.conns[0].how() != how || f.conns[2].how() != "kept" {
				t.Errorf("%v, %q, %q", f.owners, f.conns[0].how(), f.conns[2].how())
			}
			hold.Unlock(background)
		})
	}
}

// After a failover, as many idle connections as are kept lead to the old master.
func TestManyConnectionsToAnOldMaster(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		old := func() func() (any, error) {
			left := 16
			return func() (any, error) {
				if left--; left >= 0 {
					return nil, refuse("READONLY x")
				}
				return int64(1), nil
			}
		}
		_, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": old(), "LOCK.RELEASE": old()}))
		start := time.Now()
		if err := held(t, c.Lock("k", Wait(time.Second))).Unlock(background); err != nil {
			t.Error(err)
		}
		took(t, start, 640*time.Millisecond, 640*time.Millisecond)
	})
}

func TestRedirections(t *testing.T) {
	bubble(t, "a wait", func(t *testing.T) {
		f, c := newFake(t, by(map[string]any{"ASKING": "OK", "LOCK.RELEASE": int64(0),
			"LOCK.ACQUIRE": sequence(refuse("MOVED 1 127.0.0.1:7001"), refuse("ASK 1 127.0.0.1:7002"), int64(1))}))
		hold, err := c.Lock("k").Lock(background)
		if err != nil {
			t.Fatal(err)
		}
		hold.Unlock(background)
		wantLog(t, f, "LOCK.ACQUIRE k # PX 30000 BLOCK 30000 ONCE", "LOCK.ACQUIRE k # PX 30000 BLOCK 30000 ONCE",
			"ASKING", "LOCK.ACQUIRE k # PX 30000 BLOCK 30000 ONCE", "LOCK.RELEASE k #")
		if f.conns[1].address != "127.0.0.1:7001" || f.conns[2].address != "127.0.0.1:7002" {
			t.Errorf("%q, %q", f.conns[1].address, f.conns[2].address)
		}
	})
	bubble(t, "a release", func(t *testing.T) {
		f, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": int64(1),
			"LOCK.RELEASE": sequence(refuse("MOVED 1 127.0.0.1:7001"), int64(0))}))
		hold, _ := c.Lock("k").Lock(background)
		if err := hold.Unlock(background); err != nil {
			t.Error(err)
		}
		if len(f.conns) != 2 || f.conns[1].address != "127.0.0.1:7001" {
			t.Errorf("%d connections", len(f.conns))
		}
	})
}

func TestTheLastErrorWhenAWaitTimesOut(t *testing.T) {
	bubble(t, "connection", func(t *testing.T) {
		start := time.Now()
		f, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": errCut, "LOCK.CANCEL": int64(0)}))
		_, err := c.Lock("k", Wait(time.Second)).Lock(background)
		isErr(t, err, ErrConnection, errCut)
		took(t, start, time.Second, time.Second+tolerance)
		time.Sleep(time.Second)
		if !strings.HasSuffix(f.log(), "\nLOCK.CANCEL k # RELEASE\nLOCK.CANCEL k # RELEASE") {
			t.Errorf("not cancelled, and again a little later:\n%s", f.log())
		}
	})
	bubble(t, "a try is repeated once, because the first may have had an old connection", func(t *testing.T) {
		_, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": sequence(errCut, int64(1)), "LOCK.RELEASE": int64(0)}))
		hold, err := c.Lock("k").TryLock(background)
		if err != nil {
			t.Fatal(err)
		}
		hold.Unlock(background)
	})
	bubble(t, "no reply", func(t *testing.T) {
		start := time.Now()
		_, c := newFake(t, always(hang{}))
		_, err := c.Lock("k", Wait(time.Second)).Lock(background)
		isErr(t, err, ErrConnection, ErrNotAcquired, context.DeadlineExceeded)
		took(t, start, time.Second, time.Second+tolerance)
		time.Sleep(time.Minute) // until the lease has expired it tries to cancel the request
	})
	bubble(t, "no reply, and a wait that is a little longer than one blocking call", func(t *testing.T) {
		_, c := newFake(t, always(hang{}))
		_, short := newFake(t, always(hang{}), MaxBlock(time.Second))
		for _, lock := range []*Lock{c.Lock("k", Wait(31*time.Second)), short.Multi([]string{"k"}, Wait(1200*time.Millisecond)),
			c.Fair("k", Wait(31*time.Second))} {
			start := time.Now()
			_, err := lock.Lock(background)
			isErr(t, err, ErrConnection, ErrNotAcquired, context.DeadlineExceeded)
			took(t, start, lock.target.describe().wait, lock.target.describe().wait+tolerance)
		}
	})
}

func TestDo(t *testing.T) {
	body := errors.New("body")
	bubble(t, "no error and no loss", func(t *testing.T) {
		_, c := newFake(t, always(int64(1)))
		if err := c.Lock("k").Do(background, func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
	})
	bubble(t, "a loss alone is an *Error", func(t *testing.T) {
		_, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RELEASE": refuse("NOTHELD x")}))
		err := c.Lock("k").Do(background, func(context.Context) error { return nil })
		if _, ok := err.(*Error); !ok {
			t.Errorf("%T", err)
		}
	})
	bubble(t, "the body's error and a loss", func(t *testing.T) {
		_, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RELEASE": refuse("NOTHELD x")}))
		err := c.Lock("k").Do(background, func(context.Context) error { return body })
		isErr(t, err, body, ErrNotHeld)
	})
	bubble(t, "the lock was lost meanwhile", func(t *testing.T) {
		_, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RENEW": refuse("NOTHELD x"), "LOCK.RELEASE": refuse("NOTHELD x")}))
		err := c.Lock("k").Do(background, func(ctx context.Context) error {
			<-ctx.Done()
			isErr(t, context.Cause(ctx), ErrNotHeld)
			return fmt.Errorf("stopped: %w", ctx.Err())
		})
		isErr(t, err, context.Canceled, ErrNotHeld)
	})
	bubble(t, "the caller's context ends the body, and the lock is released", func(t *testing.T) {
		f, c := newFake(t, always(int64(1)))
		ctx, cancel := context.WithCancel(background)
		err := c.Lock("k").Do(ctx, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return body
		})
		isErr(t, err, body)
		wantLog(t, f, "LOCK.ACQUIRE k # PX 30000 BLOCK 30000 ONCE", "LOCK.RELEASE k #")
	})
	bubble(t, "a panic", func(t *testing.T) {
		f, c := newFake(t, always(int64(1)))
		defer func() {
			if recover() != body {
				t.Error("the panic was swallowed")
			}
			wantLog(t, f, "LOCK.ACQUIRE k # PX 30000 BLOCK 30000 ONCE", "LOCK.RELEASE k #")
		}()
		c.Lock("k").Do(background, func(context.Context) error { panic(body) })
	})
}
