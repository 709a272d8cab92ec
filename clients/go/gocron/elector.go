package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"lock-so.invalid/lock-so/clients/go"
)

// How long the elector waits after an error before it tries again.
const retry = time.Second

// Elector elects one of several schedulers, which does all runs, as long as it holds a lock; the others wait for the lock.
// It is passed to [gocron.WithDistributedElector].
type Elector struct {
	lock   *lockso.Lock
	settle time.Duration
	resign context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	hold  *lockso.Hold // nil if it is not the leader
	err   error        // why not, if it is known
	since time.Time    // when either was set
}

var _ gocron.Elector = (*Elector)(nil)

// NewElector creates an elector, which waits for the lock in the background, until Close. All schedulers use a lock with the
// same key. If the leader dies, or is paused, its lease decides how soon it is replaced, 30 seconds by default; with
// [lockso.Session] one that died is replaced sooner, but one that is paused stays the leader.
//
// A new leader runs nothing until settle has passed, because its predecessor may just have done the run that is due, if its
// clock is ahead. settle must be longer than the clocks of the schedulers differ, and shorter than the interval of the jobs.
func NewElector(lock *lockso.Lock, settle time.Duration) *Elector {
	ctx, cancel := context.WithCancel(context.Background())
	e := &Elector{lock: lock, settle: settle, resign: cancel, done: make(chan struct{})}
	go e.campaign(ctx)
	return e
}

// campaign waits for the lock and holds it, again and again.
func (e *Elector) campaign(ctx context.Context) {
	defer close(e.done)
	for failing := false; ; {
		hold, err := e.lock.Lock(ctx)
		if e.set(hold, err); err == nil {
			failing = false
			select {
			case <-hold.Context().Done():
				err = context.Cause(hold.Context())
			case <-ctx.Done():
				err = lockso.ErrClosed
			}
			e.set(nil, err)
			hold.Unlock(ctx) // of a lost one too, so that nothing of it is left
		}
		if ctx.Err() != nil || errors.Is(err, lockso.ErrClosed) {
			return
		}
		if !failing && !errors.Is(err, context.Canceled) { // as it is after the client's Close
			slog.Warn("gocron: this scheduler is not the leader", "error", err)
		}
		if hold == nil {
			failing = true
			sleep(ctx, retry)
		}
	}
}

func (e *Elector) set(hold *lockso.Hold, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hold, e.err, e.since = hold, err, time.Now()
}

// IsLeader is called by gocron, when a job is due. The leader asks the server whether it still is, so that a process that
// was paused does not run a job. If the server does not reply within two seconds, the lease counts that was confirmed last.
// The error is [ErrNotLeader]; gocron skips the run.
func (e *Elector) IsLeader(ctx context.Context) error {
	e.mu.Lock()
	hold, err, since := e.hold, e.err, e.since
	e.mu.Unlock()
	if hold != nil && time.Since(since) >= e.settle {
		err = hold.Renew(ctx)
		if err == nil || errors.Is(err, lockso.ErrConnection) && ctx.Err() == nil && hold.Context().Err() == nil {
			return nil
		}
	}
	if err == nil {
		return ErrNotLeader
	}
	return fmt.Errorf("%w: %w", ErrNotLeader, err)
}

// Hold returns the hold of the leader, or nil if this scheduler is not the leader: for its fencing token, or to write
// under the lock by [lockso.Hold.Guard].
func (e *Elector) Hold() *lockso.Hold {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.hold
}

// Context returns a context that also ends when this scheduler is not the leader any more, with [lockso.ErrNotHeld] as its
// cause if the lock was lost. If it is not the leader, the context has ended, with [ErrNotLeader] as its cause. It is called
// with the context that gocron passes to the job.
func (e *Elector) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	return while(ctx, e.Hold(), ErrNotLeader)
}

// Close ends the candidacy, and releases the lock, so that another scheduler is elected at once. Call it after the
// scheduler's Shutdown, and before the client's Close.
func (e *Elector) Close() error {
	e.resign()
	<-e.done
	return nil
}
