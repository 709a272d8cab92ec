//go:build go1.25

package lockso

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
)

func held(t *testing.T, lock *Lock) *Hold {
	t.Helper()
	hold, err := lock.Lock(background)
	if err != nil {
		t.Fatal(err)
	}
	return hold
}

// kept is held, and keeps the hold, which would be released if it were collected.
func kept(t *testing.T, lock *Lock) *Hold {
	t.Helper()
	hold := held(t, lock)
	t.Cleanup(func() { runtime.KeepAlive(hold) })
	return hold
}

func isLost(hold *Hold) bool {
	select {
	case <-hold.Lost():
		return true
	default:
		return false
	}
}

func TestRenewals(t *testing.T) {
	bubble(t, "each third of the lease, until the release", func(t *testing.T) {
		f, c := newFake(t, always(int64(1)))
		hold := held(t, c.Lock("k", Lease(9*time.Second)))
		time.Sleep(10 * time.Second)
		if n := strings.Count(f.log(), "LOCK.RENEW k # PX 9000"); n != 3 {
			t.Errorf("%d renewals in 10 seconds", n)
		}
		hold.Unlock(background)
		before := f.log()
		time.Sleep(time.Hour)
		if f.log() != before || isLost(hold) {
			t.Errorf("after the release: %s", f.log())
		}
	})
	bubble(t, "of all keys at once, and again after lost connections", func(t *testing.T) {
		f, c := newFake(t, by(map[string]any{"LOCK.MACQUIRE": int64(2), "LOCK.MRELEASE": int64(2),
			"LOCK.MRENEW": sequence(errCut, refuse("LOADING x"), int64(1))}))
		hold := held(t, c.Multi([]string{"k", "l"}, Lease(9*time.Second)))
		time.Sleep(4 * time.Second)
		hold.Unlock(background)
		wantLog(t, f, "LOCK.MACQUIRE 2 k l # PX 9000 BLOCK 30000 ONCE", "LOCK.MRENEW 2 k l # PX 9000",
			"LOCK.MRENEW 2 k l # PX 9000", "LOCK.MRENEW 2 k l # PX 9000", "LOCK.MRELEASE 2 k l #")
	})
	bubble(t, "with replicas, on a connection for waits", func(t *testing.T) {
		f, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RELEASE": int64(0),
			"LOCK.RENEW": sequence(refuse("NOREPLICAS too few replicas acknowledged it"), int64(1))}))
		hold := held(t, c.Lock("k", Replicas(1, time.Second)))
		time.Sleep(14 * time.Second)
		if n := strings.Count(f.log(), "LOCK.RENEW k # PX 30000 REPLICAS 1 1000"); n != 2 || isLost(hold) {
			t.Errorf("%d renewals: one that was not acknowledged is to be repeated after a tenth of the lease", n)
		}
		hold.Unlock(background)
	})
}

func TestReplicasThatNeedLong(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RELEASE": int64(0), "LOCK.RENEW": func() (any, error) {
			time.Sleep(4 * time.Second)
			return int64(1), nil
		}}))
		hold := held(t, c.Lock("k", Replicas(1, 5*time.Second)))
		time.Sleep(19 * time.Second)
		hold.Unlock(background)
		wantLog(t, f, "LOCK.ACQUIRE k # PX 30000 BLOCK 30000 ONCE REPLICAS 1 5000", "LOCK.RENEW k # PX 30000 REPLICAS 1 5000", "LOCK.RELEASE k #")
	})
}

func TestLosses(t *testing.T) {
	bubble(t, "noticed by a renewal", func(t *testing.T) {
		start := time.Now()
		_, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RENEW": refuse("NOTHELD x"), "LOCK.RELEASE": refuse("NOTHELD x")}))
		hold := held(t, c.Lock("k"))
		<-hold.Lost()
		took(t, start, 10*time.Second, 10*time.Second)
		isErr(t, context.Cause(hold.Context()), ErrNotHeld)
		isErr(t, hold.Unlock(background), ErrNotHeld)
	})
	bubble(t, "by the clock, when no renewal succeeds", func(t *testing.T) {
		for _, answer := range []any{errCut, hang{}, refuse("NOREPLICAS x"), refuse("MISCONF x")} {
			start := time.Now()
			_, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RENEW": answer, "LOCK.RELEASE": int64(0)}))
			hold := held(t, c.Lock("k"))
			<-hold.Lost()
			took(t, start, 30*time.Second, 30*time.Second)
			isErr(t, hold.Unlock(background), ErrNotHeld) // although the server still had it: the loss was reported
		}
	})
	bubble(t, "by the clock, without renewals", func(t *testing.T) {
		start := time.Now()
		f, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RELEASE": refuse("NOTHELD x")}))
		hold := held(t, c.Lock("k", NoRenew(), Lease(time.Second)))
		<-hold.held.state().lost // without a watch
		took(t, start, time.Second, time.Second)
		isErr(t, hold.Unlock(background), ErrNotHeld)
		wantLog(t, f, "LOCK.ACQUIRE k # PX 1000 BLOCK 30000 ONCE", "LOCK.RELEASE k #")
	})
	bubble(t, "reported by a watch", func(t *testing.T) {
		start := time.Now()
		f, c := newFake(t, nil)
		f.answer = by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RENEW": int64(1), "LOCK.RELEASE": refuse("NOTHELD x"),
			"LOCK.WATCH": func() (any, error) {
				if time.Since(start) < 9*time.Second {
					time.Sleep(10 * time.Second) // one blocking call
					return nil, nil
				}
				return "LOST", nil
			}})
		hold := held(t, c.Lock("k"))
		<-hold.Lost()
		took(t, start, 10*time.Second+unwatched, 10*time.Second+unwatched)
		hold.Unlock(background)
	})
	bubble(t, "never after a release", func(t *testing.T) {
		f, c := newFake(t, nil)
		released := make(chan struct{})
		f.answer = by(map[string]any{"LOCK.MACQUIRE": int64(2), "LOCK.MRELEASE": func() (any, error) { close(released); return int64(2), nil },
			"LOCK.WATCH": func() (any, error) { <-released; return "LOST", nil }})
		hold := held(t, c.Multi([]string{"k", "l"}))
		hold.Context()
		time.Sleep(time.Second)
		if err := hold.Unlock(background); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if isLost(hold) || strings.Count(f.log(), "LOCK.WATCH") != 2 {
			t.Errorf("lost: %v\n%s", isLost(hold), f.log())
		}
	})
}

func TestSessions(t *testing.T) {
	bubble(t, "the server renews, and the watch confirms it", func(t *testing.T) {
		_, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RELEASE": int64(0), "LOCK.WATCH": func() (any, error) {
			time.Sleep(302 * time.Millisecond) // the blocking call, and the time on the network
			return nil, nil
		}}))
		hold := held(t, c.Lock("k", Session(), Lease(900*time.Millisecond)))
		time.Sleep(time.Minute)
		if isLost(hold) {
			t.Error("lost")
		}
		hold.Unlock(background)
		time.Sleep(time.Second)
	})
	bubble(t, "another connection is bound", func(t *testing.T) {
		f, c := newFake(t, nil)
		watches := sequence(errCut, hang{})
		f.answer = by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RENEW": int64(1), "LOCK.RELEASE": int64(0), "LOCK.WATCH": watches})
		hold := held(t, c.Lock("k", Session()))
		time.Sleep(time.Second)
		wantLog(t, f, "LOCK.ACQUIRE k # SESSION BLOCK 30000 ONCE", "LOCK.WATCH k # BLOCK 10000", "LOCK.RENEW k # SESSION", "LOCK.WATCH k # BLOCK 10000")
		f.wake()
		time.Sleep(20 * time.Second)
		if err := hold.Unlock(background); err != nil || isLost(hold) {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if f.conns[0].how() != "closed" || len(f.conns) < 2 {
			t.Errorf("%q of %d", f.conns[0].how(), len(f.conns))
		}
	})
	bubble(t, "its connection was lost for longer than the grace", func(t *testing.T) {
		_, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.WATCH": errCut, "LOCK.RENEW": refuse("NOTHELD x"), "LOCK.RELEASE": refuse("NOTHELD x")}))
		hold := held(t, c.Lock("k", Session()))
		time.Sleep(time.Second)
		if !isLost(hold) {
			t.Error("not lost")
		}
		hold.Unlock(background)
	})
	bubble(t, "the server is down", func(t *testing.T) {
		start := time.Now()
		_, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.WATCH": errCut, "LOCK.RENEW": errCut, "LOCK.RELEASE": errCut}))
		hold := held(t, c.Lock("k", Session(), Lease(6*time.Second)))
		<-hold.Lost()
		took(t, start, 6*time.Second, 6*time.Second)
		hold.Unlock(background)
	})
	bubble(t, "the server stalls: the connection is not used any more, because it may still be bound to the hold", func(t *testing.T) {
		f, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.WATCH": hang{}, "LOCK.RENEW": hang{}}))
		hold := held(t, c.Lock("k", Session(), Lease(6*time.Second)))
		<-hold.Lost()
		time.Sleep(10 * time.Second)
		for i, conn := range f.conns {
			if conn.how() != "closed" {
				t.Errorf("connection %d is %q", i, conn.how())
			}
		}
		hold.Unlock(background)
	})
	bubble(t, "released: the connection is kept", func(t *testing.T) {
		f, c := newFake(t, nil)
		f.answer = by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.WATCH": hang{}, "LOCK.RELEASE": func() (any, error) {
			time.AfterFunc(time.Millisecond, f.wake) // when the reply to the release has been read
			return int64(0), nil
		}})
		hold := held(t, c.Lock("k", Session()))
		time.Sleep(time.Second)
		hold.Unlock(background)
		time.Sleep(10 * time.Second)
		if f.conns[0].how() != "kept" {
			t.Errorf("it is %q", f.conns[0].how())
		}
	})
	bubble(t, "one of its keys is lost: its connection is closed, which ends the others", func(t *testing.T) {
		f, c := newFake(t, by(map[string]any{"LOCK.MACQUIRE": int64(2), "LOCK.WATCH": sequence("LOST")}))
		hold := held(t, c.Multi([]string{"k", "l"}, Session()))
		time.Sleep(time.Second)
		if !isLost(hold) || f.conns[0].how() != "closed" {
			t.Errorf("lost: %v, its connection is %q", isLost(hold), f.conns[0].how())
		}
		hold.Unlock(background)
	})
	bubble(t, "no permission to watch", func(t *testing.T) {
		f, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.WATCH": refuse("NOPERM x"), "LOCK.RENEW": int64(1), "LOCK.RELEASE": int64(0)}))
		hold := held(t, c.Lock("k", Session()))
		time.Sleep(100 * time.Second)
		if n := strings.Count(f.log(), "LOCK.RENEW"); isLost(hold) || n < 9 || n > 11 || len(f.conns) != 1 {
			t.Errorf("%d renewals on %d connections", n, len(f.conns))
		}
		hold.Unlock(background)
	})
}

func TestUnlock(t *testing.T) {
	bubble(t, "sent again, NOTHELD means that the first one was executed", func(t *testing.T) {
		_, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RELEASE": sequence(errCut, refuse("NOTHELD x"))}))
		if err := held(t, c.Lock("k")).Unlock(background); err != nil {
			t.Error(err)
		}
	})
	bubble(t, "unless an error reply shows that it was not", func(t *testing.T) {
		_, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RELEASE": sequence(refuse("READONLY x"), refuse("NOTHELD x"))}))
		isErr(t, held(t, c.Lock("k")).Unlock(background), ErrNotHeld)
	})
	bubble(t, "repeated while the server is down for longer than the first attempt", func(t *testing.T) {
		for _, answer := range []string{"CLUSTERDOWN x", "LOADING x", "ERR max number of clients reached"} {
			start := time.Now()
			_, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RELEASE": func() (any, error) {
				if time.Since(start) < 5*time.Second {
					return nil, refuse(answer)
				}
				return int64(0), nil
			}}))
			if err := held(t, c.Lock("k")).Unlock(background); err != nil {
				t.Error(err)
			}
		}
	})
	bubble(t, "repeated for the rest of the lease", func(t *testing.T) {
		start := time.Now()
		_, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RELEASE": errCut}))
		isErr(t, held(t, c.Lock("k")).Unlock(background), ErrConnection, errCut)
		took(t, start, 29*time.Second, 31*time.Second)
	})
	bubble(t, "a context that has ended", func(t *testing.T) {
		start := time.Now()
		f, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RELEASE": sequence(hang{}, int64(0))}))
		ctx, cancel := context.WithCancel(background)
		cancel()
		hold := held(t, c.Lock("k"))
		isErr(t, hold.Unlock(ctx), ErrConnection)
		took(t, start, 2*time.Second, 2*time.Second)
		time.Sleep(time.Second)
		if strings.Count(f.log(), "LOCK.RELEASE") != 2 {
			t.Error("it was not repeated in the background")
		}
	})
	bubble(t, "a context that has ended, and a server that replies", func(t *testing.T) {
		_, c := newFake(t, always(int64(1)))
		ctx, cancel := context.WithCancel(background)
		cancel()
		if err := held(t, c.Lock("k")).Unlock(ctx); err != nil {
			t.Error(err)
		}
	})
	bubble(t, "one key of a multi-key lock was lost, the others are released", func(t *testing.T) {
		f, c := newFake(t, by(map[string]any{"LOCK.MACQUIRE": int64(2), "LOCK.MRELEASE": refuse("NOTHELD x"), "LOCK.RELEASE": int64(0)}))
		isErr(t, held(t, c.Multi([]string{"k", "l"})).Unlock(background), ErrNotHeld)
		if !strings.HasSuffix(f.log(), "LOCK.MRELEASE 2 k l #\nLOCK.RELEASE k #\nLOCK.RELEASE l #") {
			t.Error(f.log())
		}
	})
	bubble(t, "refused", func(t *testing.T) {
		_, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RELEASE": refuse("NOPERM x")}))
		err := held(t, c.Lock("k")).Unlock(background)
		var typed *Error
		if isErr(t, err, ErrRefused); !errors.As(err, &typed) || typed.Code != "NOPERM" {
			t.Error(err)
		}
	})
}

func TestSeveralKeysOfWhichOneIsLost(t *testing.T) {
	bubble(t, "each is released in its mode", func(t *testing.T) {
		f, c := newFake(t, by(map[string]any{"LOCK.MACQUIRE": int64(2), "LOCK.MRELEASE": refuse("NOTHELD x"), "LOCK.RELEASE": int64(0)}))
		hold := held(t, c.MultiModes(Modes{Read: []string{"/"}, Write: []string{"/a"}}))
		isErr(t, hold.Unlock(background), ErrNotHeld)
		wantLog(t, f, "LOCK.MACQUIRE 2 / /a # MODES READ WRITE PX 30000 BLOCK 30000 ONCE", "LOCK.MRELEASE 2 / /a # MODES READ WRITE",
			"LOCK.RELEASE / # READ", "LOCK.RELEASE /a # WRITE")
	})
}
