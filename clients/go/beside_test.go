//go:build go1.25

package lockso

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestInfo(t *testing.T) {
	want := LockInfo{
		Holders: []Holder{
			{Key: "k", Owner: "a", Mode: "write", Holds: 2, Left: 1500 * time.Millisecond},
			{Key: "k", Owner: "b", Mode: "read", Holds: 1, Left: -1, Session: true},
		},
		Waiting: 12,
		Waiters: []Waiter{{Key: "k", Owner: "c", Mode: "read", Fair: true, Waited: 3 * time.Second, Left: -1}},
	}
	for name, reply := range map[string]any{
		"RESP2": []any{
			"mode", "write", "of a later version", int64(1), "waiting", int64(12),
			"holders", []any{
				[]any{"owner", "a", "mode", "write", "holds", int64(2), "pttl", int64(1500), "session", nil},
				[]any{"owner", "b", "mode", "read", "holds", int64(1), "pttl", int64(-1), "session", int64(7)}},
			"waiters", []any{[]any{"owner", "c", "mode", "read", "fair", int64(1), "waited", int64(3000), "left", nil}}},
		"RESP3": map[string]any{
			"mode": "write", "waiting": int64(12),
			"holders": []any{
				map[string]any{"owner": "a", "mode": "write", "holds": int64(2), "pttl": int64(1500), "session": nil},
				map[any]any{"owner": "b", "mode": "read", "holds": int64(1), "pttl": int64(-1), "session": int64(7)}},
			"waiters": []any{map[string]any{"owner": "c", "mode": "read", "fair": int64(1), "waited": int64(3000), "left": nil}}},
	} {
		bubble(t, name, func(t *testing.T) {
			f, c := newFake(t, always(nil))
			f.info = reply
			if got, err := c.Write("k").Info(background); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, %v", got, err)
			}
			if locked, err := c.Write("k").Locked(background); err != nil || !locked {
				t.Error(locked, err)
			}
		})
	}
	bubble(t, "free", func(t *testing.T) {
		_, c := newFake(t, always(nil))
		if got, err := c.Multi([]string{"k", "l"}).Info(background); err != nil || len(got.Holders)+len(got.Waiters)+got.Waiting > 0 {
			t.Errorf("%+v, %v", got, err)
		}
		if locked, err := c.Lock("k").Locked(background); err != nil || locked {
			t.Error(locked, err)
		}
	})
	bubble(t, "a server that does not respond", func(t *testing.T) {
		f, c := newFake(t, always(nil))
		f.info = hang{}
		start := time.Now()
		_, err := c.Lock("k").Info(background)
		isErr(t, err, ErrConnection)
		took(t, start, 2*time.Second, 2*time.Second)
		ctx, cancel := context.WithCancel(background)
		time.AfterFunc(time.Second, cancel)
		start = time.Now()
		_, err = c.Lock("k").Locked(ctx)
		isErr(t, err, ErrConnection, context.Canceled)
		took(t, start, time.Second, time.Second)
	})
	bubble(t, "closed, and an invalid option", func(t *testing.T) {
		_, c := newFake(t, always(nil))
		_, err := c.Lock("k", Lease(0)).Info(background)
		isErr(t, err, ErrOption)
		c.Close()
		_, err = c.Lock("k").Info(background)
		isErr(t, err, ErrClosed)
	})
}

func TestForce(t *testing.T) {
	bubble(t, "one of the keys was held", func(t *testing.T) {
		f, c := newFake(t, by(map[string]any{"LOCK.FORCE": sequence(int64(0), int64(1), int64(0))}))
		if forced, err := c.Multi([]string{"k", "l"}).Force(background); err != nil || !forced {
			t.Error(forced, err)
		}
		if forced, err := c.Lock("k").Force(background); err != nil || forced {
			t.Error(forced, err)
		}
		wantLog(t, f, "LOCK.FORCE k", "LOCK.FORCE l", "LOCK.FORCE k")
	})
	bubble(t, "one of the servers does not respond", func(t *testing.T) {
		_, a := newFake(t, by(map[string]any{"LOCK.FORCE": hang{}}))
		f, b := newFake(t, by(map[string]any{"LOCK.FORCE": int64(1)}))
		forced, err := Combine(a.Lock("k"), b.Lock("l")).Force(background)
		if isErr(t, err, ErrConnection); !forced {
			t.Error(f.log())
		}
	})
	bubble(t, "a server that is slow, and many keys", func(t *testing.T) {
		f, c := newFake(t, func(string) (any, error) { time.Sleep(1500 * time.Millisecond); return int64(1), nil })
		start := time.Now()
		forced, err := c.Multi([]string{"k", "l", "m"}).Force(background)
		if isErr(t, err, ErrConnection); !forced {
			t.Error(f.log())
		}
		took(t, start, 2*time.Second, 2*time.Second+tolerance)
		wantLog(t, f, "LOCK.FORCE k", "LOCK.FORCE l")
	})
	bubble(t, "refused", func(t *testing.T) {
		_, c := newFake(t, by(map[string]any{"LOCK.FORCE": refuse("NOPERM x")}))
		_, err := c.Lock("k").Force(background)
		isErr(t, err, ErrRefused)
	})
}

func TestRenewNow(t *testing.T) {
	acquired := func(renewed any) func(string) (any, error) {
		return by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RENEW": renewed, "LOCK.RELEASE": int64(0)})
	}
	bubble(t, "a longer lease, which the next renewals have too", func(t *testing.T) {
		f, c := newFake(t, acquired(int64(1)))
		hold := kept(t, c.Lock("k", Lease(3*time.Second)))
		if err := hold.RenewFor(background, time.Minute); err != nil {
			t.Error(err)
		}
		time.Sleep(30 * time.Second)
		wantLog(t, f, "LOCK.ACQUIRE k # PX 3000 BLOCK 30000 ONCE", "LOCK.RENEW k # PX 60000", "LOCK.RENEW k # PX 60000")
		hold.Unlock(background)
	})
	bubble(t, "a shorter lease is renewed in time", func(t *testing.T) {
		f, c := newFake(t, acquired(int64(1)))
		hold := kept(t, c.Lock("k", Lease(time.Minute)))
		if err := hold.RenewFor(background, 3*time.Second); err != nil {
			t.Error(err)
		}
		time.Sleep(3500 * time.Millisecond)
		if n := strings.Count(f.log(), "LOCK.RENEW k # PX 3000"); n != 4 {
			t.Errorf("%d renewals", n)
		}
		hold.Unlock(background)
	})
	bubble(t, "without automatic renewal", func(t *testing.T) {
		_, c := newFake(t, acquired(int64(1)))
		hold := kept(t, c.Lock("k", Lease(3*time.Second), NoRenew()))
		time.Sleep(2 * time.Second)
		if err := hold.Renew(background); err != nil {
			t.Error(err)
		}
		time.Sleep(2500 * time.Millisecond)
		if isLost(hold) {
			t.Error("lost")
		}
		time.Sleep(time.Second)
		if !isLost(hold) {
			t.Error("not lost")
		}
		isErr(t, hold.Renew(background), ErrNotHeld)
	})
	bubble(t, "a shorter lease counts without its reply", func(t *testing.T) {
		_, c := newFake(t, acquired(hang{}))
		hold := kept(t, c.Lock("k", Lease(time.Minute), NoRenew()))
		start := time.Now()
		isErr(t, hold.RenewFor(background, 5*time.Second), ErrConnection)
		took(t, start, 2*time.Second, 2*time.Second)
		<-hold.Lost()
		took(t, start, 5*time.Second, 5*time.Second)
	})
	bubble(t, "while another renewal has no reply", func(t *testing.T) {
		_, c := newFake(t, acquired(hang{}))
		hold := kept(t, c.Lock("k", Lease(30*time.Second)))
		time.Sleep(11 * time.Second)
		start := time.Now()
		isErr(t, hold.Renew(background), ErrConnection)
		took(t, start, 2*time.Second, 2*time.Second+tolerance)
	})
	bubble(t, "a longer lease does not", func(t *testing.T) {
		_, c := newFake(t, acquired(hang{}))
		hold := kept(t, c.Lock("k", Lease(5*time.Second), NoRenew()))
		start := time.Now()
		isErr(t, hold.RenewFor(background, time.Minute), ErrConnection)
		<-hold.Lost()
		took(t, start, 5*time.Second, 5*time.Second)
	})
	bubble(t, "lost, or released", func(t *testing.T) {
		f, c := newFake(t, acquired(refuse("NOTHELD x")))
		hold := kept(t, c.Lock("k"))
		isErr(t, hold.Renew(background), ErrNotHeld)
		if !isLost(hold) {
			t.Error("not lost")
		}
		isErr(t, hold.Renew(background), ErrNotHeld)
		hold = kept(t, c.Lock("k"))
		hold.Unlock(background)
		isErr(t, hold.Renew(background), ErrNotHeld)
		if n := strings.Count(f.log(), "LOCK.RENEW"); n != 1 {
			t.Errorf("%d renewals", n)
		}
	})
	bubble(t, "a session is checked, and has no lease", func(t *testing.T) {
		f, c := newFake(t, acquired(int64(1)))
		hold := kept(t, c.Lock("k", Session()))
		isErr(t, hold.RenewFor(background, time.Minute), ErrOption)
		if err := hold.Renew(background); err != nil {
			t.Error(err)
		}
		if !strings.Contains(f.log()+"\n", "LOCK.RENEW k #\n") {
			t.Error(f.log())
		}
	})
	bubble(t, "impossible leases", func(t *testing.T) {
		f, c := newFake(t, acquired(int64(1)))
		hold := kept(t, c.Lock("k"))
		for lease, text := range map[time.Duration]string{0: "greater than 0, not 0s", 500: "at least 1 ms, not 500ns"} {
			err := hold.RenewFor(background, lease)
			isErr(t, err, ErrOption)
			wantText(t, err, "RenewFor: Lease must be "+text)
		}
		wantLog(t, f, "LOCK.ACQUIRE k # PX 30000 BLOCK 30000 ONCE")
	})
}

func TestGuard(t *testing.T) {
	guarded := func(reply any) func(string) (any, error) {
		return by(map[string]any{"LOCK.MACQUIRE": int64(1), "LOCK.GUARD": reply})
	}
	bubble(t, "the reply of the command", func(t *testing.T) {
		f, c := newFake(t, guarded("a value"))
		hold := kept(t, c.Multi([]string{"k", "l"}))
		if reply, err := hold.Guard(background, "GET", "key"); err != nil || reply != "a value" {
			t.Error(reply, err)
		}
		if !strings.Contains(f.log(), "LOCK.GUARD k # GET key") {
			t.Error(f.log())
		}
		_, err := hold.Guard(background)
		isErr(t, err, ErrOption)
	})
	bubble(t, "after a lost connection it is not sent again", func(t *testing.T) {
		f, c := newFake(t, guarded(errCut))
		_, err := kept(t, c.Multi([]string{"k"})).Guard(background, "INCR", "n")
		isErr(t, err, ErrConnection, errCut)
		if n := strings.Count(f.log(), "LOCK.GUARD"); n != 1 {
			t.Errorf("sent %d times", n)
		}
	})
	bubble(t, "after READONLY it is, because it was not executed", func(t *testing.T) {
		_, c := newFake(t, guarded(sequence(refuse("READONLY x"), int64(1))))
		if _, err := kept(t, c.Multi([]string{"k"})).Guard(background, "INCR", "n"); err != nil {
			t.Error(err)
		}
	})
	bubble(t, "lost", func(t *testing.T) {
		_, c := newFake(t, guarded(refuse("NOTHELD x")))
		hold := kept(t, c.Multi([]string{"k"}))
		_, err := hold.Guard(background, "INCR", "n")
		isErr(t, err, ErrNotHeld)
		if !isLost(hold) {
			t.Error("not lost")
		}
	})
}

func TestReentrant(t *testing.T) {
	bubble(t, "the last release releases it", func(t *testing.T) {
		f, c := newFake(t, always(int64(7)))
		lock := c.Write("k", Reentrant(), Fenced())
		outer := kept(t, lock)
		inner, err := c.Write("k", Reentrant(), Wait(0)).Lock(outer.Context())
		if err != nil {
			t.Fatal(err)
		}
		innermost, err := lock.TryLock(inner.Context())
		if err != nil || innermost.Owner() != outer.Owner() || innermost.Token() != 7 {
			t.Fatal(innermost, err)
		}
		for _, hold := range []*Hold{inner, outer, innermost} { // in any order
			if strings.Contains(f.log(), "LOCK.RELEASE") {
				t.Error("released too early")
			}
			if err := hold.Unlock(background); err != nil {
				t.Error(err)
			}
			if ended := hold.Context().Err() != nil; ended != (hold != outer) {
				t.Errorf("%v: ended", ended)
			}
			isErr(t, hold.Unlock(background), ErrNotHeld)
		}
		if n := strings.Count(f.log(), "LOCK.RELEASE"); n != 1 {
			t.Error(f.log())
		}
	})
	bubble(t, "the context of Do, and of another lock inside of it", func(t *testing.T) {
		f, c := newFake(t, always(int64(1)))
		a := c.Multi([]string{"k", "l"}, Reentrant())
		b := c.Lock("m", Reentrant())
		err := a.Do(background, func(ctx context.Context) error {
			hold, err := b.Lock(ctx)
			if err != nil {
				return err
			}
			again, err := c.Multi([]string{"l", "k"}, Reentrant()).Lock(hold.Context())
			if err != nil {
				return err
			}
			return errors.Join(b.Do(again.Context(), func(context.Context) error { return nil }),
				again.Unlock(ctx), hold.Unlock(ctx))
		})
		if err != nil || strings.Count(f.log(), "ACQUIRE") != 2 {
			t.Error(err, f.log())
		}
	})
	bubble(t, "another kind, another client, no context", func(t *testing.T) {
		f, c := newFake(t, always(int64(1)))
		other, d := newFake(t, always(int64(1)))
		ctx := kept(t, c.Lock("k", Reentrant())).Context()
		for _, lock := range []*Lock{c.Write("k", Reentrant()), d.Lock("k", Reentrant()), c.Lock("k"), c.Lock("l", Reentrant())} {
			hold, err := lock.Lock(ctx)
			if err != nil {
				t.Error(err)
			}
			defer runtime.KeepAlive(hold)
		}
		kept(t, c.Lock("k", Reentrant()))
		if sent := f.log() + other.log(); strings.Count(sent, " PX ") != 6 {
			t.Error(sent)
		}
	})
	bubble(t, "its lease has ended, and it is not known to be lost yet", func(t *testing.T) {
		_, c := newFake(t, always(int64(1)))
		lock := c.Lock("k", Reentrant())
		outer := kept(t, lock)
		h := outer.held.(*hold)
		h.mu.Lock()
		h.ends = time.Now()
		h.mu.Unlock()
		_, err := lock.TryLock(outer.Context())
		isErr(t, err, ErrNotHeld)
	})
	bubble(t, "its client is being closed", func(t *testing.T) {
		_, c := newFake(t, always(int64(1)))
		lock := c.Lock("k", Reentrant())
		ctx := kept(t, lock).Context()
		closing := func(closing bool) {
			c.core.mu.Lock()
			defer c.core.mu.Unlock()
			c.core.closing = closing
		}
		closing(true)
		_, err := lock.TryLock(ctx)
		closing(false)
		isErr(t, err, ErrClosed)
	})
	bubble(t, "its last release has begun", func(t *testing.T) {
		f, c := newFake(t, always(int64(1)))
		lock := c.Lock("k", Reentrant())
		outer := kept(t, lock)
		outer.held.state().leave(outer.entry) // what Unlock does first
		if hold, err := lock.TryLock(outer.Context()); err != nil || hold.Owner() == outer.Owner() {
			t.Error(f.log(), err)
		}
	})
	bubble(t, "the outer hold is lost", func(t *testing.T) {
		_, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RENEW": refuse("NOTHELD x"), "LOCK.RELEASE": refuse("NOTHELD x")}))
		lock := c.Lock("k", Reentrant())
		outer := kept(t, lock)
		inner, err := lock.Lock(outer.Context())
		if err != nil {
			t.Fatal(err)
		}
		<-inner.Lost()
		<-inner.Context().Done()
		isErr(t, context.Cause(inner.Context()), ErrNotHeld)
		_, err = lock.Lock(outer.Context())
		if isErr(t, err, ErrNotHeld); errors.Is(err, ErrNotAcquired) {
			t.Error(err)
		}
		isErr(t, inner.Unlock(background), ErrNotHeld)
		isErr(t, outer.Unlock(background), ErrNotHeld)
		hold, err := lock.Lock(context.WithoutCancel(outer.Context()))
		if err != nil {
			t.Error("after the release: ", err)
		}
		runtime.KeepAlive(hold)
	})
	bubble(t, "options that cannot be", func(t *testing.T) {
		_, c := newFake(t, always(int64(1)))
		_, err := c.Semaphore("k", 2, Reentrant()).Lock(background)
		isErr(t, err, ErrOption)
		outer := kept(t, c.Lock("k", Reentrant()))
		_, err = c.Lock("k", Reentrant(), Fenced()).Lock(outer.Context())
		isErr(t, err, ErrOption)
	})
	bubble(t, "without the option a program waits for itself", func(t *testing.T) {
		f, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": sequence(int64(1), blocks{}), "LOCK.RELEASE": int64(0)}))
		outer := kept(t, c.Lock("k"))
		f.info = []any{"holders", []any{[]any{"owner", outer.Owner()}, []any{"owner", "another:1:0"}}}
		_, err := c.Lock("k", Wait(time.Second)).Lock(outer.Context())
		isErr(t, err, ErrNotAcquired)
		if !strings.Contains(err.Error(), ": held by "+outer.Owner()+" (this process) and another:1:0") {
			t.Error(err)
		}
		var typed *Error
		if errors.As(err, &typed); typed.Holders[0] != outer.Owner() {
			t.Error(typed.Holders)
		}
	})
}
