//go:build go1.25

package lockso

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func wantText(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || err.Error() != text {
		t.Errorf("the error is %q, not %q", err, text)
	}
}

func TestInvalidOptions(t *testing.T) {
	for text, lock := range map[string]func(*Client) *Lock{
		"Lease must be greater than 0, not 0s":               func(c *Client) *Lock { return c.Lock("k", Lease(0)) },
		"Lease must be at least 1 ms, not 500ns":             func(c *Client) *Lock { return c.Lock("k", Lease(500)) },
		"Wait must not be negative, not -1ns":                func(c *Client) *Lock { return c.Lock("k", Wait(-1)) },
		"limit must be at least 1, not 0":                    func(c *Client) *Lock { return c.Semaphore("k", 0) },
		"Permits must be from 1 to the limit of 3, not 4":    func(c *Client) *Lock { return c.Semaphore("k", 3, Permits(4)) },
		"Permits must be from 1 to the limit of 3, not 5":    func(c *Client) *Lock { return c.Semaphore("k", 3, Permits(5), Permits(2)) },
		"Permits: only a semaphore has permits":              func(c *Client) *Lock { return c.Write("k", Permits(1)) },
		"Fenced: a read lock has no fencing token":           func(c *Client) *Lock { return c.Read("k", Fenced()) },
		"Fenced: a semaphore has no fencing token":           func(c *Client) *Lock { return c.Semaphore("k", 3, Fenced()) },
		"Replicas must be at least 1, not 0":                 func(c *Client) *Lock { return c.Lock("k", Replicas(0, 0)) },
		"Replicas: the time must be greater than 0, not -1s": func(c *Client) *Lock { return c.Lock("k", Replicas(1, -time.Second)) },
		"keys must not be empty":                             func(c *Client) *Lock { return c.Multi(nil) },
	} {
		bubble(t, text, func(t *testing.T) {
			f, c := newFake(t, always(int64(1)))
			_, err := lock(c).Lock(background)
			isErr(t, err, ErrOption)
			wantText(t, err, text)
			wantLog(t, f, "")
		})
	}
}

func TestInvalidOptionsOfAClient(t *testing.T) {
	for text, option := range map[string]ClientOption{
		"ConnectTimeout must be greater than 0, not 0s": ConnectTimeout(0),
		"MaxBlock must be greater than 0, not -1ns":     MaxBlock(-1),
	} {
		f := &fake{t: t}
		_, err := New(f, false, option)
		isErr(t, err, ErrOption)
		wantText(t, err, text+": invalid option")
		if !f.closed {
			t.Error("the connections are open")
		}
	}
}

func holders(owners ...string) any {
	list := []any{}
	for _, owner := range owners {
		list = append(list, map[any]any{"owner": owner})
	}
	return []any{"mode", "exclusive", "holders", list}
}

func TestWhereRedirectionsLead(t *testing.T) {
	for text, want := range map[string]route{
		"MOVED 1 10.0.0.1:7000":    {address: "10.0.0.1:7000"},
		"ASK 1 host:7000":          {address: "host:7000", asking: true},
		"MOVED 1 2001:db8::1:7000": {address: "[2001:db8::1]:7000"},
		"MOVED 1 [::1]:7000":       {address: "[::1]:7000"},
		"MOVED 1 :7000":            {},
		"MOVED 1":                  {},
		"MOVED 1 host":             {},
		"READONLY 1 host:7000":     {},
	} {
		if got := redirection(refuse(text)); got != want {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

func TestNotAcquired(t *testing.T) {
	for text, info := range map[string]any{
		`lock "k" was not acquired within 1.5 s`:                            nil,
		`lock "k" was not acquired within 1.5 s: held by a`:                 holders("a", "a"),
		`lock "k" was not acquired within 1.5 s: held by a and b`:           holders("a", "b"),
		`lock "k" was not acquired within 1.5 s: held by a, b and 1 other`:  holders("a", "b", "c"),
		`lock "k" was not acquired within 1.5 s: held by a, b and 3 others`: holders("a", "b", "c", "d", "e"),
	} {
		bubble(t, text, func(t *testing.T) {
			f, c := newFake(t, always(blocks{}))
			f.info = info
			_, err := c.Lock("k", Wait(1500*time.Millisecond)).Lock(background)
			isErr(t, err, ErrNotAcquired, context.DeadlineExceeded)
			wantText(t, err, text)
			ctx, cancel := context.WithTimeout(background, 1500*time.Millisecond)
			defer cancel()
			_, err = c.Lock("k").Lock(ctx)
			isErr(t, err, ErrNotAcquired, context.DeadlineExceeded)
			wantText(t, err, text)
		})
	}
	bubble(t, "a try", func(t *testing.T) {
		f, c := newFake(t, always(blocks{}))
		f.info = holders("a")
		_, err := c.Multi([]string{"k", "l"}).TryLock(background)
		wantText(t, err, `multi-key lock "k", "l" was not acquired: held by a`)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Error("no deadline was the limit")
		}
	})
}

var errDial = &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1},
	Err: errors.New("connection refused")}

func TestNoServer(t *testing.T) {
	const text = "dial tcp 127.0.0.1:1: connection refused"
	bubble(t, "without a limit: the time to connect", func(t *testing.T) {
		start := time.Now()
		f, c := newFake(t, always(int64(1)))
		f.dial = func() error { return errDial }
		_, err := c.Lock("k").Lock(background)
		isErr(t, err, ErrConnection, errDial)
		wantText(t, err, `lock "k": no connection: `+text)
		took(t, start, 5*time.Second, 5*time.Second+tolerance)
		wantLog(t, f, "") // nor is there anything to cancel
	})
	bubble(t, "a limit", func(t *testing.T) {
		for _, dial := range []error{errDial, errSilent} {
			start := time.Now()
			f, c := newFake(t, always(int64(1)))
			f.dial = func() error { return dial }
			_, err := c.Lock("k", Wait(3*time.Second)).Lock(background)
			isErr(t, err, ErrNotAcquired, ErrConnection, context.DeadlineExceeded)
			took(t, start, 3*time.Second, 3*time.Second+tolerance)
			start = time.Now()
			_, err = c.Lock("k").TryLock(background)
			isErr(t, err, ErrConnection)
			took(t, start, 0, tolerance)
		}
	})
	for _, limit := range []time.Duration{10 * time.Millisecond, time.Second} {
		bubble(t, "a try within a context of "+limit.String(), func(t *testing.T) {
			start := time.Now()
			f, c := newFake(t, always(int64(1)))
			f.dial = func() error { return errSilent }
			ctx, cancel := context.WithTimeout(background, limit)
			defer cancel()
			_, err := c.Lock("k").TryLock(ctx)
			isErr(t, err, ErrConnection)
			took(t, start, 0, min(limit+replyTolerance/2, tolerance))
		})
	}
	bubble(t, "a try that connects late, with a late reply and holders that are not reported", func(t *testing.T) {
		start := time.Now()
		f, c := newFake(t, func(string) (any, error) { time.Sleep(25 * time.Millisecond); return nil, nil })
		f.dial = func() error { time.Sleep(50 * time.Millisecond); return nil }
		f.info = hang{}
		_, err := c.Multi([]string{"k", "l", "m"}).TryLock(background)
		isErr(t, err, ErrNotAcquired)
		took(t, start, 75*time.Millisecond, tolerance)
	})
	bubble(t, "cancelled while it connects", func(t *testing.T) {
		start := time.Now()
		f, c := newFake(t, always(int64(1)))
		f.dial = func() error { return errSilent }
		_, err := cancelAfter(c.Lock("k"), time.Second)
		isErr(t, err, ErrNotAcquired, context.Canceled)
		took(t, start, time.Second, time.Second+tolerance)
		wantText(t, err, `lock "k" was not acquired within 1 s: context canceled`)
	})
	bubble(t, "cancelled for a reason", func(t *testing.T) {
		_, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": hang{}, "LOCK.CANCEL": int64(1)})) // but no reply to the wait
		why := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(background)
		time.AfterFunc(time.Second, func() { cancel(why) })
		start := time.Now()
		for _, within := range []string{" within 1.06 s", ""} { // the second time it has ended before
			_, err := c.Lock("k").Lock(ctx)
			isErr(t, err, ErrNotAcquired, context.Canceled, why)
			wantText(t, err, `lock "k" was not acquired`+within+`: shutting down`)
		}
		took(t, start, time.Second, time.Second+tolerance)
	})
	bubble(t, "a deadline for a reason", func(t *testing.T) {
		_, c := newFake(t, always(blocks{}))
		why := errors.New("out of budget")
		ctx, cancel := context.WithTimeoutCause(background, time.Second, why)
		defer cancel()
		_, err := c.Lock("k").Lock(ctx)
		isErr(t, err, ErrNotAcquired, context.DeadlineExceeded, why)
		wantText(t, err, `lock "k" was not acquired within 1 s`)
	})
	bubble(t, "an outage later is survived, and logged once", func(t *testing.T) {
		f, c := newFake(t, always(int64(1)))
		held(t, c.Lock("other")).Unlock(background)
		start := time.Now()
		f.dial = func() error {
			if time.Since(start) < time.Minute {
				return errDial
			}
			return nil
		}
		held(t, c.Lock("k")).Unlock(background)
		took(t, start, time.Minute, time.Minute+time.Second)
		want := `lock \"k\": no connection to 127.0.0.1:1 (` + text + `); the wait goes on`
		if got := f.warnings(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, want) {
			t.Error(got)
		}
	})
	bubble(t, "a server that is full from the beginning", func(t *testing.T) {
		_, c := newFake(t, nil)
		full := refuse("ERR max number of clients reached")
		c.core.backend.(*fake).dial = func() error { return full }
		_, err := c.Lock("k").Lock(background)
		isErr(t, err, ErrConnection, full)
		if got := c.core.backend.(*fake).warnings(); strings.Count(got, "the wait goes on") != 1 {
			t.Error(got)
		}
		_, err = c.Lock("k", Wait(time.Second)).Lock(background)
		isErr(t, err, ErrNotAcquired, ErrConnection, full)
	})
	bubble(t, "a full server", func(t *testing.T) {
		full := refuse("ERR max number of clients reached")
		f, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RELEASE": sequence(full, full, int64(0))}))
		start := time.Now()
		f.dial = func() error {
			if time.Since(start) < time.Second {
				return full
			}
			return nil
		}
		if err := held(t, c.Lock("k")).Unlock(background); err != nil {
			t.Error(err)
		}
	})
}

func TestWithoutTheModule(t *testing.T) {
	unknown := func(command string) (any, error) {
		name, _, _ := strings.Cut(command, " ")
		if name == "LRANGE" || name == "BLMOVE" {
			return "value", nil
		}
		return nil, refuse("ERR unknown command '" + name + "', with args beginning with: 'k' ")
	}
	for name, use := range map[string]func(*Client) error{
		`lock "k"`:                 func(c *Client) error { _, err := c.Lock("k").Lock(background); return err },
		`fair lock "k"`:            func(c *Client) error { _, err := c.Fair("k").TryLock(background); return err },
		`multi-key lock "k", "l"`:  func(c *Client) error { return c.Multi([]string{"k", "l"}).Do(background, nil) },
		`read lock "k"`:            func(c *Client) error { _, err := c.Read("k").Force(background); return err },
		`latch "k"`:                func(c *Client) error { _, err := c.Latch("k").Wait(background); return err },
		`latch "l"`:                func(c *Client) error { return c.Latch("l").Set(background, 1) },
		`delayed queue "q"`:        func(c *Client) error { return c.DelayedQueue("q").PushID(background, "id", nil, 0) },
		`delayed queue "consumed"`: func(c *Client) error { return c.DelayedQueue("consumed").Consume(background, nil) },
	} {
		bubble(t, name, func(t *testing.T) {
			_, c := newFake(t, unknown)
			err := use(c)
			isErr(t, err, ErrModuleMissing, ErrRefused)
			wantText(t, err, name+": unknown command: is lock.so loaded on 127.0.0.1:6379?")
			var typed *Error
			if !errors.As(err, &typed) || typed.Code != "ERR" {
				t.Errorf("%#v", err)
			}
		})
	}
	for text, answer := range map[string]map[string]any{
		"NOPERM the rule says: unknown command":                                {"LOCK.ACQUIRE": refuse("NOPERM the rule says: unknown command")},
		"ERR unknown command 'SETT', with args beginning with: 'k' 'LOCK.SO' ": {"LOCK.ACQUIRE": int64(1), "LOCK.GUARD": refuse("ERR unknown command 'SETT', with args beginning with: 'k' 'LOCK.SO' "), "LOCK.RELEASE": int64(0)},
	} {
		bubble(t, "another error that mentions it: "+text, func(t *testing.T) {
			_, c := newFake(t, by(answer))
			hold, err := c.Lock("k").Lock(background)
			if err == nil {
				_, err = hold.Guard(background, "SETT", "k", "LOCK.SO")
				hold.Unlock(background)
			}
			if isErr(t, err, ErrRefused); errors.Is(err, ErrModuleMissing) {
				t.Error(err)
			}
			wantText(t, err, `lock "k": `+text)
		})
	}
}

func TestNotHeld(t *testing.T) {
	bubble(t, "released twice", func(t *testing.T) {
		_, c := newFake(t, always(int64(1)))
		hold := held(t, c.Lock("k"))
		hold.Unlock(background)
		wantText(t, hold.Unlock(background), `lock "k" is not held: it was released before`)
	})
	bubble(t, "expired", func(t *testing.T) {
		_, c := newFake(t, always(int64(1)))
		hold := held(t, c.Fair("k", NoRenew()))
		<-hold.Lost()
		wantText(t, hold.Unlock(background), `fair lock "k" is not held: its lease expired`)
	})
}

func TestClose(t *testing.T) {
	bubble(t, "releases what is held", func(t *testing.T) {
		f, c := newFake(t, always(int64(1)))
		hold := held(t, c.Lock("k"))
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		wantLog(t, f, "LOCK.ACQUIRE k # PX 30000 BLOCK 30000 ONCE", "LOCK.RELEASE k #")
		isErr(t, hold.Unlock(background), ErrNotHeld)
		if isLost(hold) {
			t.Error("a loss was reported")
		}
		_, err := c.Lock("k").Lock(background)
		isErr(t, err, ErrClosed)
		wantText(t, err, `lock "k": these locks are closed`)
	})
	bubble(t, "meets a grant", func(t *testing.T) {
		start := time.Now()
		f, c := newFake(t, nil)
		f.answer = by(map[string]any{"LOCK.ACQUIRE": func() (any, error) {
			c.core.mu.Lock() // Close begins, and the request does not notice any more
			c.core.closing, c.core.waits, c.core.holds = true, nil, nil
			c.core.mu.Unlock()
			return int64(1), nil
		}, "LOCK.RELEASE": hang{}})
		_, err := c.Lock("k").Lock(background)
		isErr(t, err, ErrClosed)
		took(t, start, 0, 0)
		synctest.Wait()
		wantLog(t, f, "LOCK.ACQUIRE k # PX 30000 BLOCK 30000 ONCE", "LOCK.RELEASE k #")
		if c.core.busy < 2 {
			t.Error("Close does not wait for the release")
		}
	})
	bubble(t, "waits for a release that is in progress", func(t *testing.T) {
		f, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RELEASE": sequence(hang{}, hang{}, int64(0))}))
		hold, result := held(t, c.Lock("k")), make(chan error, 1)
		go func() { result <- hold.Unlock(background) }()
		time.Sleep(time.Second)
		if err := c.Shutdown(background); err != nil {
			t.Error(err)
		}
		if err := <-result; err != nil || strings.Count(f.log(), "LOCK.RELEASE") != 3 {
			t.Errorf("%v\n%s", err, f.log())
		}
	})
	bubble(t, "in time", func(t *testing.T) {
		start := time.Now()
		f, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RELEASE": hang{}}))
		hold := held(t, c.Lock("k"))
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		isErr(t, c.Shutdown(ctx), context.DeadlineExceeded)
		took(t, start, time.Second, time.Second)
		if !f.closed {
			t.Error("the connections are open")
		}
		runtime.KeepAlive(hold)
	})
}

// collected runs the garbage collector until something has happened.
func collected(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if runtime.GC(); time.Now().After(end) {
			t.Fatal("timed out waiting for ", what)
		}
	}
}

// The garbage collector is not simulated, so time is not either.
func TestForgotten(t *testing.T) {
	eventually := func(what string, is func() bool) {
		t.Helper()
		collected(t, what, is)
	}
	t.Run("a hold", func(t *testing.T) {
		f, c := newFake(t, always(int64(1)))
		held(t, c.Lock("k"))
		eventually("the release", func() bool { return strings.HasSuffix(f.log(), "LOCK.RELEASE k #") })
		if want := `lock \"k\" was never released; it is released now`; strings.Count(f.warnings(), want) != 1 {
			t.Error(f.warnings())
		}
	})
	// Another hold, which is forgotten later, is released: so the first one would have been, too.
	later := func(f *fake, c *Client) {
		runtime.GC()
		held(t, c.Lock("later"))
		eventually("the later release", func() bool { return strings.Contains(f.log(), "LOCK.RELEASE later #") })
		runtime.GC()
		held(t, c.Lock("last"))
		eventually("the last release", func() bool { return strings.Contains(f.log(), "LOCK.RELEASE last #") })
	}
	t.Run("not while its context is in use", func(t *testing.T) {
		f, c := newFake(t, always(int64(1)))
		ctx, cancel := context.WithCancel(held(t, c.Lock("k")).Context())
		defer cancel()
		if later(f, c); strings.Contains(f.log(), "LOCK.RELEASE k") || ctx.Err() != nil {
			t.Error(f.log())
		}
	})
	t.Run("not while the end of its context is waited for", func(t *testing.T) {
		f, c := newFake(t, always(int64(1)))
		done := held(t, c.Lock("k")).Context().Done()
		if later(f, c); strings.Contains(f.log(), "LOCK.RELEASE k") {
			t.Error(f.log())
		}
		runtime.KeepAlive(done)
	})
	t.Run("not while it is waited for its loss", func(t *testing.T) {
		f, c := newFake(t, always(int64(1)))
		lost := held(t, c.Lock("k")).Lost()
		if later(f, c); strings.Contains(f.log(), "LOCK.RELEASE k") {
			t.Error(f.log())
		}
		runtime.KeepAlive(lost)
	})
	t.Run("not if its lease ends it", func(t *testing.T) {
		f, c := newFake(t, always(int64(1)))
		held(t, c.Lock("k", NoRenew()))
		if later(f, c); strings.Contains(f.log(), "LOCK.RELEASE k") {
			t.Error(f.log())
		}
	})
	t.Run("with its client", func(t *testing.T) {
		f, c := newFake(t, always(int64(1)))
		held(t, c.Lock("k"))
		held(t, c.Lock("l", NoRenew()))
		c.core.close(true) // as when it is collected before them
		if got := f.warnings(); strings.Count(got, "never released") != 1 || !strings.Contains(got, `lock \"k\"`) {
			t.Error(got)
		}
		if strings.Contains(f.log(), "LOCK.RELEASE l") {
			t.Error(f.log())
		}
	})
	t.Run("the loss is reported to whoever could still listen", func(t *testing.T) {
		_, c := newFake(t, always(int64(1)))
		hold := held(t, c.Lock("k"))
		hold.held.forget()
		<-hold.Lost()
		isErr(t, context.Cause(hold.Context()), ErrNotHeld)
	})
	t.Run("a client", func(t *testing.T) {
		f := &fake{t: t, owners: map[string]bool{}, answer: always(int64(1))}
		func() {
			c, _ := New(f, false)
			if err := held(t, c.Lock("k")).Unlock(background); err != nil {
				t.Error(err)
			}
		}()
		eventually("the connections to be closed", func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.closed
		})
	})
}

func TestAShortBodyIsNotWatched(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f, c := newFake(t, always(int64(1)))
		c.Lock("k").Do(background, func(context.Context) error { return nil })
		synctest.Wait()
		wantLog(t, f, "LOCK.ACQUIRE k # PX 30000 BLOCK 30000 ONCE", "LOCK.RELEASE k #")
	})
}
