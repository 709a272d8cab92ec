//go:build go1.25

package lockso

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// cancelAfter requests the lock, with a context that is cancelled after this time.
func cancelAfter(lock *Lock, d time.Duration) (*Hold, error) {
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	defer time.AfterFunc(d, cancel).Stop()
	return lock.Lock(ctx)
}

const requested = "LOCK.ACQUIRE k # PX 30000 BLOCK 30000 ONCE"

func TestACancelledWaitIsEndedAtTheServer(t *testing.T) {
	bubble(t, "while it waits", func(t *testing.T) {
		start := time.Now()
		f, c := newFake(t, nil)
		f.answer = by(map[string]any{"LOCK.ACQUIRE": hang{}, "LOCK.CANCEL": func() (any, error) {
			f.wake()
			return int64(1), nil
		}})
		_, err := cancelAfter(c.Lock("k"), time.Second)
		isErr(t, err, ErrNotAcquired, context.Canceled)
		took(t, start, time.Second, time.Second)
		synctest.Wait()
		wantLog(t, f, requested, "LOCK.CANCEL k # RELEASE")
		if f.conns[0].how() != "kept" {
			t.Errorf("the connection is %q, although the reply arrived", f.conns[0].how())
		}
	})
	bubble(t, "a deadline, which ends the wait at the server", func(t *testing.T) {
		start := time.Now()
		f, c := newFake(t, always(blocks{}))
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		_, err := c.Read("k").Lock(ctx)
		isErr(t, err, ErrNotAcquired, context.DeadlineExceeded)
		took(t, start, time.Second, time.Second+tolerance)
		synctest.Wait()
		wantLog(t, f, "LOCK.RWREAD k # PX 30000 BLOCK 1000 ONCE")
	})
	bubble(t, "the client is closed", func(t *testing.T) {
		f, c := newFake(t, nil)
		f.answer = by(map[string]any{"LOCK.ACQUIRE": hang{}, "LOCK.CANCEL": func() (any, error) {
			f.wake()
			if f.closed {
				t.Error("the connections were closed before")
			}
			return int64(1), nil
		}})
		time.AfterFunc(time.Second, func() { c.Close() })
		_, err := c.Lock("k").Lock(background)
		isErr(t, err, ErrClosed)
		_, err = c.Lock("k").Lock(background)
		isErr(t, err, ErrClosed)
		synctest.Wait()
		wantLog(t, f, requested, "LOCK.CANCEL k # RELEASE")
	})
	bubble(t, "a context that had ended before", func(t *testing.T) {
		f, c := newFake(t, always(int64(1)))
		ctx, cancel := context.WithCancel(background)
		cancel()
		_, err := c.Lock("k").Lock(ctx)
		isErr(t, err, ErrNotAcquired, context.Canceled)
		wantLog(t, f, "")
	})
}

// The request has not arrived at the server when it is cancelled, and is granted later.
func TestACancelThatOvertakesTheRequestIsSentAgain(t *testing.T) {
	for _, first := range []any{int64(0), errCut} {
		bubble(t, fmt.Sprint("granted in the end, after a cancel with the reply ", first), func(t *testing.T) {
			testGrantedAfterCancel(t, first)
		})
	}
	bubble(t, "refused in the end", func(t *testing.T) {
		f, c := newFake(t, nil)
		f.answer = by(map[string]any{
			"LOCK.ACQUIRE": func() (any, error) {
				time.Sleep(time.Second + 10*time.Millisecond)
				return nil, nil
			},
			"LOCK.CANCEL": int64(0),
		})
		cancelAfter(c.Lock("k"), time.Second)
		wantLog(t, f, requested, "LOCK.CANCEL k # RELEASE", "LOCK.CANCEL k # RELEASE")
	})
}

func testGrantedAfterCancel(t *testing.T, first any) {
	var held atomic.Bool
	f, c := newFake(t, nil)
	answer := sequence(first, int64(0))
	f.answer = by(map[string]any{
		"LOCK.ACQUIRE": func() (any, error) {
			time.Sleep(time.Second + 90*time.Millisecond)
			held.Store(true)
			return int64(1), nil
		},
		"LOCK.CANCEL": func() (any, error) {
			if held.Swap(false) {
				return int64(2), nil
			}
			return answer()
		},
	})
	_, err := cancelAfter(c.Lock("k"), time.Second)
	isErr(t, err, context.Canceled)
	time.Sleep(time.Second)
	if held.Load() {
		t.Error("a hold is left")
	}
	if n := strings.Count(f.log(), "LOCK.CANCEL"); n < 2 || n > 6 {
		t.Errorf("cancelled %d times", n)
	}
}

func TestARequestThatMayArriveAfterTheReleaseIsCancelled(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": sequence(errCut, int64(1)), "LOCK.RELEASE": int64(0), "LOCK.CANCEL": int64(0)}))
		held(t, c.Lock("k")).Unlock(background)
		time.Sleep(time.Second)
		wantLog(t, f, requested, requested, "LOCK.RELEASE k #", "LOCK.CANCEL k # RELEASE", "LOCK.CANCEL k # RELEASE")
	})
}

func TestAConnectionGetsNoReply(t *testing.T) {
	bubble(t, "that of the wait", func(t *testing.T) {
		start := time.Now()
		f, c := newFake(t, by(map[string]any{"LOCK.ACQUIRE": hang{}, "LOCK.CANCEL": int64(0)}))
		_, err := cancelAfter(c.Lock("k"), time.Second)
		isErr(t, err, context.Canceled)
		took(t, start, time.Second, time.Second+tolerance) // and the rest in the background
		time.Sleep(time.Second)                            // and some more cancels, because its request may arrive late
		if f.conns[0].how() != "closed" {
			t.Errorf("the connection is %q", f.conns[0].how())
		}
		before := f.log()
		time.Sleep(time.Hour)
		if f.log() != before {
			t.Errorf("it still sends: %s", f.log())
		}
	})
	bubble(t, "also that of the cancel: it is repeated for as long as the lease", func(t *testing.T) {
		start := time.Now()
		f, c := newFake(t, always(hang{}))
		_, err := cancelAfter(c.Lock("k"), time.Second)
		isErr(t, err, context.Canceled)
		took(t, start, time.Second, time.Second+tolerance)
		time.Sleep(2 * time.Second)
		f.mu.Lock()
		f.answer = by(map[string]any{"LOCK.CANCEL": int64(2)})
		f.mu.Unlock()
		time.Sleep(5 * time.Second)
		before := f.log()
		if !strings.Contains(before, "LOCK.CANCEL") {
			t.Error("it was not cancelled")
		}
		time.Sleep(time.Hour)
		if n := strings.Count(f.log(), "LOCK.CANCEL") - strings.Count(before, "LOCK.CANCEL"); n > 100 {
			t.Errorf("cancelled %d times more", n)
		}
	})
}

func TestAMultiKeyLockIsCancelledWithMrelease(t *testing.T) {
	bubble(t, "a hold", func(t *testing.T) {
		f, c := newFake(t, nil)
		f.answer = by(map[string]any{"LOCK.MACQUIRE": hang{}, "LOCK.CANCEL": int64(0), "LOCK.MRELEASE": func() (any, error) {
			f.wake()
			return int64(2), nil
		}})
		_, err := cancelAfter(c.Multi([]string{"k", "l"}), time.Second)
		isErr(t, err, context.Canceled)
		wantLog(t, f, "LOCK.MACQUIRE 2 k l # PX 30000 BLOCK 30000 ONCE", "LOCK.CANCEL k #", "LOCK.MRELEASE 2 k l #")
		synctest.Wait()
	})
	bubble(t, "nothing", func(t *testing.T) {
		f, c := newFake(t, by(map[string]any{"LOCK.MACQUIRE": errCut, "LOCK.CANCEL": int64(0), "LOCK.MRELEASE": refuse("NOTHELD x")}))
		_, err := c.Multi([]string{"k", "l"}).TryLock(background)
		isErr(t, err, ErrConnection)
		time.Sleep(time.Second)
		if n := strings.Count(f.log(), "LOCK.MRELEASE"); n != 2 {
			t.Errorf("released %d times", n)
		}
	})
}
