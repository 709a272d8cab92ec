//go:build go1.25

package lockso

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

// journal records the commands of several servers, in their order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) log() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, "\n")
}

// server makes a client of a server with this name, whose commands are recorded.
func (j *journal) server(t *testing.T, name string, answer func(string) (any, error)) (*fake, *Client) {
	f, c := newFake(t, func(command string) (any, error) {
		j.mu.Lock()
		words := strings.Fields(command)
		j.lines = append(j.lines, name+": "+words[0]+" "+words[1])
		j.mu.Unlock()
		return answer(command)
	})
	c.core.name = name
	return f, c
}

func TestCombine(t *testing.T) {
	bubble(t, "acquired in the order of the servers, released in reverse", func(t *testing.T) {
		j := &journal{}
		_, a := j.server(t, "a:1", always(int64(7)))
		_, b := j.server(t, "b:1", always(int64(8)))
		lock := Combine(b.Write("k", Fenced()), a.Semaphore("z", 3), a.Lock("y"), a.Fair("x", Wait(time.Hour)), b.Read("j", Wait(time.Minute)))
		hold := kept(t, lock)
		if owners := hold.Holds(); len(owners) != 5 || hold.Owner() != owners[0].Owner() || owners[4].Token() != 8 || hold.Token() != 0 {
			t.Error(owners)
		}
		if err := hold.Renew(background); err != nil {
			t.Error(err)
		}
		_, err := hold.Guard(background, "PING")
		isErr(t, err, ErrOption)
		if err := hold.Unlock(background); err != nil || hold.Context().Err() == nil || isLost(hold) {
			t.Error(err)
		}
		isErr(t, hold.Unlock(background), ErrNotHeld)
		want := `a:1: LOCK.FAIR x|a:1: LOCK.ACQUIRE y|a:1: LOCK.SEMAPHORE z|b:1: LOCK.RWREAD j|b:1: LOCK.RWWRITE k|` +
			`b:1: LOCK.RENEW k|b:1: LOCK.RENEW j|a:1: LOCK.RENEW z|a:1: LOCK.RENEW y|a:1: LOCK.RENEW x|` +
			`b:1: LOCK.RELEASE k|b:1: LOCK.RELEASE j|a:1: LOCK.RELEASE z|a:1: LOCK.RELEASE y|a:1: LOCK.RELEASE x`
		if got := strings.ReplaceAll(j.log(), "\n", "|"); got != want {
			t.Errorf("%s\nnot:\n%s", got, want)
		}
	})
	bubble(t, "all or none, in time", func(t *testing.T) {
		j := &journal{}
		f, a := j.server(t, "a:1", by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RELEASE": int64(0)}))
		d, b := j.server(t, "b:1", by(map[string]any{"LOCK.ACQUIRE": blocks{}, "LOCK.RELEASE": int64(0)}))
		d.info = []any{"holders", []any{[]any{"owner", "another"}}}
		start := time.Now()
		_, err := Combine(b.Lock("l", Wait(3*time.Second)), a.Lock("k")).Lock(background)
		isErr(t, err, ErrNotAcquired, context.DeadlineExceeded)
		if want := `lock "l" was not acquired within 3 s: held by another`; err.Error() != want {
			t.Error(err)
		}
		took(t, start, 3*time.Second, 3100*time.Millisecond)
		if !strings.HasSuffix(f.log(), "LOCK.RELEASE k #") {
			t.Error(f.log())
		}
		_, err = Combine(b.Lock("l"), a.Lock("k")).TryLock(background)
		isErr(t, err, ErrNotAcquired)
	})
	bubble(t, "a release that takes long does not delay the error", func(t *testing.T) {
		j := &journal{}
		_, a := j.server(t, "a:1", by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RELEASE": hang{}}))
		_, b := j.server(t, "b:1", by(map[string]any{"LOCK.ACQUIRE": hang{}, "LOCK.CANCEL": int64(1)}))
		start := time.Now()
		_, err := Combine(b.Lock("l"), a.Lock("k")).TryLock(background)
		isErr(t, err, ErrConnection)
		took(t, start, 0, tolerance)
		_, slow := j.server(t, "0:1", func(string) (any, error) {
			time.Sleep(28 * time.Millisecond)
			return int64(1), nil
		})
		start = time.Now()
		_, err = Combine(b.Lock("l"), slow.Lock("k"), slow.Lock("l"), slow.Lock("m")).TryLock(background)
		isErr(t, err, ErrConnection)
		took(t, start, 0, tolerance)
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		start = time.Now()
		_, err = Combine(b.Lock("l"), a.Lock("k")).Lock(ctx)
		isErr(t, err, ErrNotAcquired)
		took(t, start, time.Second, time.Second+tolerance)
	})
	bubble(t, "a server that does not respond does not delay the releases of the others", func(t *testing.T) {
		j := &journal{}
		f, a := j.server(t, "a:1", always(int64(1)))
		_, b := j.server(t, "b:1", by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RENEW": hang{}, "LOCK.RELEASE": hang{}}))
		hold := kept(t, Combine(a.Lock("k"), b.Lock("l"), b.Lock("m"), b.Lock("n")))
		start := time.Now()
		isErr(t, hold.Renew(background), ErrConnection)
		took(t, start, 2*time.Second, 2*time.Second+3*tolerance)
		time.AfterFunc(4*tolerance, func() {
			if !strings.HasSuffix(f.log(), "LOCK.RELEASE k #") {
				t.Error(f.log())
			}
		})
		isErr(t, hold.Unlock(background), ErrConnection)
	})
	bubble(t, "one is lost while another is waited for", func(t *testing.T) {
		j := &journal{}
		_, a := j.server(t, "a:1", by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RENEW": sequence(refuse("NOTHELD x"), int64(1)),
			"LOCK.RELEASE": sequence(refuse("NOTHELD x"), int64(0))}))
		_, b := j.server(t, "b:1", by(map[string]any{"LOCK.ACQUIRE": sequence(blocks{}, int64(1)), "LOCK.CANCEL": int64(1), "LOCK.RELEASE": int64(0)}))
		hold := kept(t, Combine(a.Lock("k", Lease(3*time.Second)), b.Lock("l")))
		if isLost(hold) || strings.Count(j.log(), "a:1: LOCK.ACQUIRE") != 2 || !strings.Contains(j.log(), "b:1: LOCK.CANCEL") {
			t.Error(j.log())
		}
		if err := hold.Unlock(background); err != nil {
			t.Error(err)
		}
	})
	bubble(t, "one is lost again and again, until the wait ends", func(t *testing.T) {
		j := &journal{}
		_, a := j.server(t, "a:1", by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RENEW": refuse("NOTHELD x"), "LOCK.RELEASE": refuse("NOTHELD x")}))
		_, b := j.server(t, "b:1", by(map[string]any{"LOCK.ACQUIRE": blocks{}, "LOCK.CANCEL": int64(1)}))
		start := time.Now()
		_, err := Combine(a.Lock("k", Lease(300*time.Millisecond)), b.Lock("l", Wait(1200*time.Millisecond))).Lock(background)
		isErr(t, err, ErrNotAcquired, context.DeadlineExceeded)
		took(t, start, 1200*time.Millisecond, 1200*time.Millisecond+tolerance)
	})
	bubble(t, "one is lost while it is held", func(t *testing.T) {
		j := &journal{}
		_, a := j.server(t, "a:1", by(map[string]any{"LOCK.ACQUIRE": int64(1), "LOCK.RENEW": refuse("NOTHELD x"), "LOCK.RELEASE": refuse("NOTHELD x")}))
		f, b := j.server(t, "b:1", always(int64(1)))
		hold := kept(t, Combine(a.Lock("k"), b.Lock("l")))
		<-hold.Lost()
		isErr(t, context.Cause(hold.Context()), ErrNotHeld)
		isErr(t, hold.Renew(background), ErrNotHeld)
		err := hold.Unlock(background)
		if isErr(t, err, ErrNotHeld); !strings.Contains(err.Error(), `combined lock "k", "l" is not held: lock "k" is not held`) {
			t.Error(err)
		}
		if !strings.Contains(f.log(), "LOCK.RELEASE l #") {
			t.Error(f.log())
		}
	})
	bubble(t, "one of the clients is closed", func(t *testing.T) {
		j := &journal{}
		_, a := j.server(t, "a:1", always(int64(1)))
		f, b := j.server(t, "b:1", always(int64(1)))
		hold := kept(t, Combine(a.Lock("k"), b.Lock("l")))
		a.Close()
		<-hold.Lost()
		isErr(t, hold.Unlock(background), ErrNotHeld)
		if !strings.Contains(f.log(), "LOCK.RELEASE l #") {
			t.Error(f.log())
		}
		_, err := Combine(b.Lock("l"), a.Lock("k")).Lock(background)
		isErr(t, err, ErrClosed)
	})
	bubble(t, "reentrant members", func(t *testing.T) {
		j := &journal{}
		_, a := j.server(t, "a:1", always(int64(1)))
		_, b := j.server(t, "b:1", always(int64(1)))
		one, other := a.Lock("k", Reentrant()), b.Lock("l", Reentrant())
		err := one.Do(background, func(ctx context.Context) error {
			return Combine(one, other).Do(ctx, func(ctx context.Context) error {
				return errors.Join(one.Do(ctx, func(context.Context) error { return nil }), other.Do(ctx, func(context.Context) error { return nil }))
			})
		})
		if err != nil || strings.Count(j.log(), "ACQUIRE") != 2 || !strings.HasSuffix(j.log(), "b:1: LOCK.RELEASE l\na:1: LOCK.RELEASE k") {
			t.Error(err, j.log())
		}
	})
	bubble(t, "options that cannot be", func(t *testing.T) {
		j := &journal{}
		_, a := j.server(t, "a:1", always(int64(1)))
		for _, lock := range []*Lock{Combine(), Combine(Combine()), Combine(a.Lock("k"), Combine()), Combine(a.Lock("k"), a.Write("k")), Combine(a.Lock("k"), a.Lock("l", Lease(0)))} {
			_, err := lock.Lock(background)
			isErr(t, err, ErrOption)
			_, err = lock.Info(background)
			isErr(t, err, ErrOption)
		}
		hold := kept(t, Combine(a.Lock("k"), a.Lock("l", Session())))
		isErr(t, hold.RenewFor(background, time.Second), ErrOption)
		if forced, err := Combine(a.Lock("k"), a.Lock("l")).Force(background); err != nil || !forced {
			t.Error(forced, err)
		}
	})
	t.Run("forgotten", func(t *testing.T) {
		j := &journal{}
		f, a := j.server(t, "a:1", always(int64(1)))
		_, b := j.server(t, "b:1", always(int64(1)))
		held(t, Combine(a.Lock("k"), b.Lock("l")))
		collected(t, "both releases", func() bool { return strings.HasSuffix(j.log(), "b:1: LOCK.RELEASE l\na:1: LOCK.RELEASE k") })
		if want := `combined lock \"k\", \"l\" was never released; it is released now`; strings.Count(f.warnings(), want) != 1 {
			t.Error(f.warnings())
		}
	})
}

func TestSlots(t *testing.T) {
	for key, want := range map[string]uint16{"123456789": 12739, "{123456789}.x": 12739, "foo{}{bar}": 8363} {
		if got := slotOf(key); got != want {
			t.Errorf("%s is in slot %d, not %d", key, got, want)
		}
	}
	bubble(t, "one after the other", func(t *testing.T) { // their slots are 3300, 12182 and 15495
		f, c := newFake(t, always(int64(2)))
		c.core.cluster = true
		hold := kept(t, c.MultiModes(Modes{Read: []string{"a", "{b}2"}, Write: []string{"b", "foo"}}))
		if holds := hold.Holds(); len(holds) != 3 || hold.Owner() != holds[0].Owner() {
			t.Error(holds)
		}
		if err := hold.Unlock(background); err != nil {
			t.Error(err)
		}
		kept(t, c.Multi([]string{"{a}1", "{a}2"})).Unlock(background)
		wantLog(t, f,
			"LOCK.MACQUIRE 2 {b}2 b # MODES READ WRITE PX 30000 BLOCK 30000 ONCE",
			"LOCK.MACQUIRE 1 foo # MODES WRITE PX 30000 BLOCK 30000 ONCE",
			"LOCK.MACQUIRE 1 a # MODES READ PX 30000 BLOCK 30000 ONCE",
			"LOCK.MRELEASE 1 a # MODES READ", "LOCK.MRELEASE 1 foo # MODES WRITE", "LOCK.MRELEASE 2 {b}2 b # MODES READ WRITE",
			"LOCK.MACQUIRE 2 {a}1 {a}2 # PX 30000 BLOCK 30000 ONCE", "LOCK.MRELEASE 2 {a}1 {a}2 #")
	})
}
