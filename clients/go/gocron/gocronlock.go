// Package gocronlock provides a [gocron.Locker] and a [gocron.Elector] of gocron v2 on the locks of package lockso.
//
// With a [Locker] each run of a job is done by one of several schedulers; with an [Elector] one of them does all runs.
package gocronlock

import (
	"context"
	"errors"
	"time"

	"lock-so.invalid/lock-so/clients/go"
)

var (
	// ErrRunning means that the previous run of the job has not ended in this scheduler.
	ErrRunning = errors.New("the job is running in this scheduler")
	// ErrNotLeader means that this scheduler is not the leader.
	ErrNotLeader = errors.New("not the leader")
	// ErrNoRun is the cause of the end of [Locker.Context], if its context is not that of a job that holds its lock.
	ErrNoRun = errors.New("not the context of a job that this locker has locked")
)

// How long to wait before another attempt.
const pause = 50 * time.Millisecond

// while returns a context that also ends when the hold does. If there is no hold, it has ended, with this cause.
func while(ctx context.Context, hold *lockso.Hold, otherwise error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if hold == nil {
		cancel(otherwise)
		return ctx, func() {}
	}
	held := hold.Context()
	lose := func() { cancel(context.Cause(held)) }
	if held.Err() != nil {
		lose()
	}
	stop := context.AfterFunc(held, lose)
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// sleep returns false if ctx has ended.
func sleep(ctx context.Context, delay time.Duration) bool {
	select {
	case <-time.After(delay):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
