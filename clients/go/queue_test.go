//go:build go1.25

package lockso

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestLatch(t *testing.T) {
	bubble(t, "commands", func(t *testing.T) {
		f, c := newFake(t, by(map[string]any{"LATCH.SET": "OK", "LATCH.DOWN": int64(1), "GET": sequence("2", nil, "-1", "x"), "LATCH.WAIT": int64(1)}))
		latch := c.Latch("k", Lease(time.Minute))
		if err := errors.Join(latch.Set(background, 3), c.Latch("k").Set(background, 0)); err != nil {
			t.Error(err)
		}
		if left, err := latch.CountDown(background, 2); left != 1 || err != nil {
			t.Error(left, err)
		}
		for _, want := range []int64{2, 0, 0} {
			if left, err := latch.Count(background); left != want || err != nil {
				t.Error(left, err)
			}
		}
		_, err := latch.Count(background)
		isErr(t, err, ErrRefused)
		if open, err := c.Latch("k", Wait(time.Second)).Wait(background); !open || err != nil {
			t.Error(open, err)
		}
		wantLog(t, f, "LATCH.SET k 3 PX 60000", "LATCH.SET k 0", "LATCH.DOWN k 2", "GET k", "GET k", "GET k", "GET k", "LATCH.WAIT k BLOCK 1000")
	})
	bubble(t, "options that cannot be", func(t *testing.T) {
		f, c := newFake(t, always(int64(1)))
		_, byZero := c.Latch("k").CountDown(background, 0)
		isErr(t, byZero, ErrOption)
		isErr(t, c.Latch("k").Set(background, -1), ErrOption)
		for _, option := range []Option{Session(), Fenced(), NoRenew(), Replicas(1, time.Second), Permits(1), Reentrant(), Lease(0), Wait(-1)} {
			_, err := c.Latch("k", option).Wait(background)
			isErr(t, err, ErrOption)
		}
		wantLog(t, f)
	})
	bubble(t, "it is counted down once", func(t *testing.T) {
		f, c := newFake(t, by(map[string]any{"LATCH.DOWN": errCut}))
		_, err := c.Latch("k").CountDown(background, 1)
		isErr(t, err, ErrConnection, errCut)
		wantLog(t, f, "LATCH.DOWN k 1")
	})
	bubble(t, "closed", func(t *testing.T) {
		f, c := newFake(t, by(map[string]any{"LATCH.WAIT": blocks{}}), MaxBlock(2*time.Second))
		start := time.Now()
		if open, err := c.Latch("k", Wait(0)).Wait(background); open || err != nil {
			t.Error(open, err)
		}
		if open, err := c.Latch("k", Wait(5*time.Second)).Wait(background); open || err != nil {
			t.Error(open, err)
		}
		took(t, start, 5*time.Second, 5*time.Second)
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		_, err := c.Latch("k").Wait(ctx)
		if isErr(t, err, context.DeadlineExceeded); !strings.Contains(err.Error(), `latch "k" was not opened within 1 s`) {
			t.Error(err)
		}
		wantLog(t, f, "LATCH.WAIT k", "LATCH.WAIT k BLOCK 2000", "LATCH.WAIT k BLOCK 2000", "LATCH.WAIT k BLOCK 1000", "LATCH.WAIT k BLOCK 1000")
	})
	bubble(t, "cancelled, and closed with its client", func(t *testing.T) {
		f, c := newFake(t, by(map[string]any{"LATCH.WAIT": hang{}}))
		ctx, cancel := context.WithCancel(background)
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		_, err := c.Latch("k").Wait(ctx)
		isErr(t, err, context.Canceled)
		time.AfterFunc(time.Second, func() { c.Close() })
		_, err = c.Latch("k").Wait(background)
		isErr(t, err, ErrClosed)
		took(t, start, 2*time.Second, 2*time.Second)
		if f.conns[0].how() != "closed" || f.conns[1].how() != "closed" {
			t.Error("a connection is left that waits")
		}
	})
	bubble(t, "an outage", func(t *testing.T) {
		_, c := newFake(t, by(map[string]any{"LATCH.WAIT": sequence(errCut, errCut, int64(1), errCut)}))
		if open, err := c.Latch("k").Wait(background); !open || err != nil {
			t.Error(open, err)
		}
		if open, err := c.Latch("k", Wait(time.Second)).Wait(background); open || err != nil {
			t.Error(open, err)
		}
	})
	bubble(t, "never a connection", func(t *testing.T) {
		f, c := newFake(t, always(nil))
		f.dial = func() error { return errCut }
		start := time.Now()
		_, err := c.Latch("k").Wait(background)
		isErr(t, err, ErrConnection, errCut)
		took(t, start, 5*time.Second, 5100*time.Millisecond)
	})
}

// lists is a server with delayed queues.
type lists struct {
	mu      sync.Mutex
	list    map[string][]string
	pending map[string]*time.Timer
	refuse  func(command string) error // or nil
}

func newLists() *lists { return &lists{list: map[string][]string{}, pending: map[string]*time.Timer{}} }

func (l *lists) push(list string, values ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list[list] = append(l.list[list], values...)
}

func (l *lists) all(list string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list[list])
}

// empty returns whether nothing is left, apart from failed values.
func (l *lists) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.list["q"])+len(l.list["{q}:taken"])+len(l.pending) == 0
}

func (l *lists) answer(command string) (any, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		if err := l.refuse(command); err != nil {
			return nil, err
		}
	}
	words := strings.SplitN(command, " ", 5)
	switch list := words[1]; words[0] {
	case "BLMOVE":
		if len(l.list[list]) == 0 {
			return blocks{}, nil
		}
		element := l.list[list][0]
		l.list[list], l.list[words[2]] = l.list[list][1:], append(l.list[words[2]], element)
		return element, nil
	case "DELAY.PUSH":
		ms, _ := strconv.Atoi(words[3])
		if old := l.pending[words[2]]; old != nil {
			old.Stop()
		}
		l.pending[words[2]] = time.AfterFunc(time.Duration(ms)*time.Millisecond, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.pending, words[2])
			l.list[list] = append(l.list[list], words[4])
		})
		return words[2], nil
	case "DELAY.CANCEL":
		pending := l.pending[words[2]]
		if pending == nil {
			return int64(0), nil
		}
		pending.Stop()
		delete(l.pending, words[2])
		return int64(1), nil
	case "LREM":
		i := slices.Index(l.list[list], words[3])
		if i < 0 {
			return int64(0), nil
		}
		l.list[list] = slices.Delete(l.list[list], i, i+1)
		return int64(1), nil
	case "RPUSH":
		l.list[list] = append(l.list[list], words[2])
		return int64(1), nil
	case "LRANGE":
		all := []any{}
		for _, element := range l.list[list] {
			all = append(all, element)
		}
		return all, nil
	}
	return nil, fmt.Errorf("unknown: %s", command)
}

// consume runs a consumer until it has called the handler this often, and returns what it was called with.
func consume(t *testing.T, c *Client, calls int, handle func(context.Context, Job) error, options ...ConsumeOption) (jobs []string) {
	t.Helper()
	ctx, stop := context.WithCancelCause(background)
	enough := errors.New("enough")
	err := c.DelayedQueue("q").Consume(ctx, func(ctx context.Context, job Job) error {
		if jobs = append(jobs, fmt.Sprintf("%s %d", job.Value, job.Tries)); len(jobs) == calls {
			defer stop(enough)
		}
		return handle(ctx, job)
	}, options...)
	isErr(t, err, context.Canceled, enough)
	return jobs
}

func wantJobs(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}

func succeed(context.Context, Job) error { return nil }

func TestConsume(t *testing.T) {
	bubble(t, "what any client has pushed", func(t *testing.T) {
		l := newLists()
		_, c := newFake(t, l.answer)
		l.push("q", "raw", "lock-so:0:zero", "lock-so:3:thrice", "lock-so:x:y", "lock-so:5:over", "lock-so:2:lock-so:1:a")
		wantJobs(t, consume(t, c, 5, succeed), "raw 1", "zero 1", "thrice 4", "lock-so:x:y 1", "lock-so:1:a 3")
		if failed := l.all("{q}:failed"); !l.empty() || !slices.Equal(failed, []string{"over"}) {
			t.Error(failed, l.list)
		}
	})
	bubble(t, "failures", func(t *testing.T) {
		l := newLists()
		f, c := newFake(t, l.answer)
		l.push("q", "bad", "good")
		start := time.Now()
		jobs := consume(t, c, 4, func(_ context.Context, job Job) error {
			if string(job.Value) == "bad" {
				return errors.New("it fails")
			}
			return nil
		}, MaxTries(3), Backoff(2*time.Second))
		wantJobs(t, jobs, "bad 1", "good 1", "bad 2", "bad 3")
		took(t, start, 6*time.Second, 9*time.Second) // 2 and 4 s, and the time until the next BLMOVE
		wantJobs(t, consume(t, c, 1, func(context.Context, Job) error {
			return nil
		}, MaxTries(4)), "bad 4")
		if n := strings.Count(f.warnings(), "it fails"); n != 3 || !l.empty() {
			t.Error(f.warnings(), l.list)
		}
	})
	bubble(t, "a handler that takes too long", func(t *testing.T) {
		l := newLists()
		f, c := newFake(t, l.answer)
		l.push("q", "slow")
		jobs := consume(t, c, 2, func(_ context.Context, job Job) error {
			if job.Tries == 1 {
				time.Sleep(3 * time.Second)
			}
			return nil
		}, Timeout(2*time.Second))
		wantJobs(t, jobs, "slow 1", "slow 2")
		if !strings.Contains(f.warnings(), "longer than its timeout of 2s") || !l.empty() {
			t.Error(f.warnings(), l.list)
		}
	})
	bubble(t, "left behind by another consumer", func(t *testing.T) {
		l := newLists()
		_, c := newFake(t, l.answer)
		l.push("{q}:taken", "raw", "lock-so:2:tried", "raw")
		start := time.Now()
		jobs := consume(t, c, 3, succeed)
		slices.Sort(jobs)
		wantJobs(t, jobs, "raw 1", "raw 1", "tried 3")
		took(t, start, time.Second, 3*time.Second)
		if !l.empty() {
			t.Error(l.list)
		}
	})
	bubble(t, "another consumer was faster", func(t *testing.T) {
		l := newLists()
		l.refuse = func(command string) error { // before its LREM, the element is gone
			if command == "LREM {q}:taken 1 a" {
				l.list["{q}:taken"] = nil
			}
			return nil
		}
		_, c := newFake(t, l.answer)
		l.push("q", "a", "b")
		wantJobs(t, consume(t, c, 1, succeed), "b 1")
		if !l.empty() {
			t.Error(l.list)
		}
	})
	bubble(t, "a stop gives the job back, and does not count the try", func(t *testing.T) {
		l := newLists()
		_, c := newFake(t, l.answer)
		l.push("q", "a")
		ctx, stop := context.WithCancel(background)
		err := c.DelayedQueue("q").Consume(ctx, func(ctx context.Context, job Job) error {
			stop()
			<-ctx.Done()
			return fmt.Errorf("stopped: %w", ctx.Err())
		}, MaxTries(1))
		isErr(t, err, context.Canceled)
		wantJobs(t, consume(t, c, 1, succeed, MaxTries(1)), "a 1")
		if !l.empty() {
			t.Error(l.list)
		}
	})
	bubble(t, "also if the handler needs long to stop", func(t *testing.T) {
		l := newLists()
		_, c := newFake(t, l.answer)
		l.push("q", "a")
		ctx, stop := context.WithCancel(background)
		err := c.DelayedQueue("q").Consume(ctx, func(ctx context.Context, job Job) error {
			stop()
			time.Sleep(5 * time.Second)
			return ctx.Err()
		})
		isErr(t, err, context.Canceled)
		time.Sleep(time.Second)
		if waiting := l.all("q"); !slices.Equal(waiting, []string{"lock-so:0:a"}) {
			t.Error(l.list)
		}
	})
	bubble(t, "a stop while a job is handled takes no other one", func(t *testing.T) {
		l := newLists()
		f, c := newFake(t, l.answer)
		l.push("q", "a", "b")
		wantJobs(t, consume(t, c, 1, succeed), "a 1")
		if n := strings.Count(f.log(), "BLMOVE"); n != 1 || !slices.Equal(l.all("q"), []string{"b"}) {
			t.Error(f.log())
		}
	})
	for want, d := range map[string]time.Duration{"1": time.Minute, "0.5": 500 * time.Millisecond} {
		bubble(t, "a MaxBlock of "+d.String(), func(t *testing.T) {
			l := newLists()
			f, c := newFake(t, l.answer, MaxBlock(d))
			l.push("q", "a")
			wantJobs(t, consume(t, c, 1, succeed), "a 1")
			if !strings.Contains(f.log(), "BLMOVE q {q}:taken LEFT RIGHT "+want+"\n") {
				t.Error(f.log())
			}
		})
	}
	bubble(t, "a short Backoff is no busy loop", func(t *testing.T) {
		l := newLists()
		l.refuse = func(command string) error {
			if strings.HasPrefix(command, "BLMOVE") {
				return refuse("OOM x")
			}
			return nil
		}
		f, c := newFake(t, l.answer)
		ctx, cancel := context.WithTimeout(background, 10*time.Microsecond)
		defer cancel()
		isErr(t, c.DelayedQueue("q").Consume(ctx, succeed, Backoff(1)), context.DeadlineExceeded)
		if n := strings.Count(f.log(), "BLMOVE"); n > 1 {
			t.Errorf("sent %d times", n)
		}
	})
	bubble(t, "out of memory", func(t *testing.T) {
		l := newLists()
		start := time.Now()
		l.refuse = func(command string) error {
			if strings.HasPrefix(command, "DELAY.PUSH") && time.Since(start) < 10*time.Second {
				return refuse("OOM x")
			}
			return nil
		}
		f, c := newFake(t, l.answer)
		l.push("q", "a")
		wantJobs(t, consume(t, c, 1, succeed), "a 1")
		if !strings.Contains(f.warnings(), "OOM x") || !l.empty() {
			t.Error(f.warnings(), l.list)
		}
	})
	bubble(t, "lost replies", func(t *testing.T) {
		for _, cut := range []string{"BLMOVE", "LRANGE", "DELAY.PUSH", "LREM", "DELAY.CANCEL"} {
			l := newLists()
			done := false
			_, c := newFake(t, func(command string) (any, error) {
				reply, err := l.answer(command)
				if strings.HasPrefix(command, cut) && reply != (blocks{}) && !done {
					done = true
					return nil, errCut
				}
				return reply, err
			})
			l.push("q", "a")
			wantJobs(t, consume(t, c, 1, succeed), "a 1")
			if !l.empty() {
				t.Error(cut, l.list)
			}
		}
	})
	bubble(t, "a removal whose reply is lost, while another consumer takes an equal element", func(t *testing.T) {
		l, cut := newLists(), false
		f, c := newFake(t, func(command string) (any, error) {
			reply, err := l.answer(command)
			if strings.HasPrefix(command, "LREM") && !cut {
				cut = true
				l.push("{q}:taken", "a")
				return nil, errCut
			}
			return reply, err
		})
		l.push("q", "a")
		wantJobs(t, consume(t, c, 1, succeed), "a 1")
		if taken := l.all("{q}:taken"); !slices.Equal(taken, []string{"a"}) || strings.Count(f.log(), "LREM") != 1 {
			t.Errorf("%q\n%s", taken, f.log())
		}
	})
	bubble(t, "an outage", func(t *testing.T) {
		l := newLists()
		start := time.Now()
		away := func() error {
			if since := time.Since(start); since > 5*time.Second && since < 10*time.Second {
				return errCut
			}
			return nil
		}
		l.refuse = func(string) error { return away() }
		f, c := newFake(t, l.answer)
		f.dial = away
		time.AfterFunc(20*time.Second, func() { l.push("q", "a") })
		wantJobs(t, consume(t, c, 1, succeed), "a 1")
		if n := strings.Count(f.warnings(), "no connection to"); n != 1 {
			t.Error(f.warnings())
		}
	})
	bubble(t, "errors that end it", func(t *testing.T) {
		for _, text := range []string{"WRONGTYPE x", "NOPERM x", "CROSSSLOT x", "ERR unknown command 'BLMOVE'"} {
			for _, command := range []string{"BLMOVE", "LRANGE", "DELAY.PUSH", "LREM", "DELAY.CANCEL", "RPUSH"} {
				l := newLists()
				l.refuse = func(sent string) error {
					if strings.HasPrefix(sent, command) {
						return refuse(text)
					}
					return nil
				}
				_, c := newFake(t, l.answer)
				l.push("q", "a", "lock-so:5:over")
				ctx, cancel := context.WithTimeout(background, time.Minute)
				isErr(t, c.DelayedQueue("q").Consume(ctx, succeed), ErrRefused)
				cancel()
			}
		}
		f, c := newFake(t, newLists().answer)
		f.dial = func() error { return errCut }
		start := time.Now()
		isErr(t, c.DelayedQueue("q").Consume(background, succeed), ErrConnection, errCut)
		took(t, start, 5*time.Second, 5500*time.Millisecond)
	})
	bubble(t, "close", func(t *testing.T) {
		l := newLists()
		_, c := newFake(t, l.answer)
		l.push("q", "a")
		err := c.DelayedQueue("q").Consume(background, func(ctx context.Context, _ Job) error {
			go c.Close()
			<-ctx.Done()
			return ctx.Err()
		})
		isErr(t, err, ErrClosed)
		time.Sleep(time.Second)
		if waiting := l.all("q"); !slices.Equal(waiting, []string{"lock-so:0:a"}) {
			t.Error(l.list)
		}
		isErr(t, c.DelayedQueue("q").Consume(background, succeed), ErrClosed)
	})
	bubble(t, "options that cannot be", func(t *testing.T) {
		f, c := newFake(t, always(nil))
		for _, option := range []ConsumeOption{Timeout(0), MaxTries(0), Backoff(0)} {
			isErr(t, c.DelayedQueue("q").Consume(background, succeed, option), ErrOption)
		}
		wantLog(t, f)
	})
}

func TestDelayedQueue(t *testing.T) {
	bubble(t, "commands", func(t *testing.T) {
		f, c := newFake(t, by(map[string]any{"DELAY.PUSH": "17", "DELAY.CANCEL": int64(1),
			"DELAY.LIST": []any{[]any{"17", int64(1500), "value"}, []any{"18", int64(0), nil}}}))
		q := c.DelayedQueue("q")
		if id, err := q.Push(background, []byte("value"), 1500*time.Millisecond); id != "17" || err != nil {
			t.Error(id, err)
		}
		if err := q.PushID(background, "one", []byte("value"), 0); err != nil {
			t.Error(err)
		}
		if cancelled, err := q.Cancel(background, "one"); !cancelled || err != nil {
			t.Error(cancelled, err)
		}
		all, err := q.List(background, 0)
		if err != nil || len(all) != 2 || all[0].ID != "17" || all[0].Left != 1500*time.Millisecond || string(all[0].Value) != "value" || len(all[1].Value) != 0 {
			t.Error(all, err)
		}
		q.List(background, 3)
		wantLog(t, f, "DELAY.PUSH q * 1500 value", "DELAY.PUSH q one 0 value", "DELAY.CANCEL q one", "DELAY.LIST q", "DELAY.LIST q COUNT 3")
	})
	bubble(t, "only with an id it is sent again", func(t *testing.T) {
		f, c := newFake(t, by(map[string]any{"DELAY.PUSH": sequence(errCut, "one", errCut)}))
		q := c.DelayedQueue("q")
		if err := q.PushID(background, "one", nil, 0); err != nil {
			t.Error(err)
		}
		_, err := q.Push(background, nil, 0)
		isErr(t, err, ErrConnection, errCut)
		if n := strings.Count(f.log(), "DELAY.PUSH"); n != 3 {
			t.Error(f.log())
		}
	})
	bubble(t, "options that cannot be", func(t *testing.T) {
		f, c := newFake(t, always("id"))
		q := c.DelayedQueue("q")
		_, negative := q.Push(background, nil, -1)
		_, ours := q.Push(background, []byte("lock-so:1:a"), 0)
		_, count := q.List(background, -1)
		for _, err := range []error{negative, ours, count, q.PushID(background, "*", nil, 0), q.PushID(background, "", nil, 0)} {
			isErr(t, err, ErrOption)
		}
		wantLog(t, f)
	})
	for list, want := range map[string]string{"a": "{a}:taken", "{a}b": "{a}b:taken", "{}a": "{{}a}:taken", "a{b": "{a{b}:taken"} {
		if got := beside(list, ":taken"); got != want {
			t.Errorf("%s: %s", list, got)
		}
	}
}
