package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"lock-so.invalid/lock-so/clients/go"
)

// How long a server that does not reply is tried before a run is skipped.
const patience = 2 * time.Second

// Locker locks each run of a job, so that one of the schedulers that share an application's name and a server does it.
// It is passed to [gocron.WithDistributedLocker] or [gocron.WithDistributedJobLocker].
type Locker struct {
	client  *lockso.Client
	app     string
	atLeast time.Duration
	options []lockso.Option
	runs    sync.Map // from the context of each job that is locked, or is about to be, to its *run
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker creates a locker. The key of a job's lock is app, a colon, and the name of the job.
//
// A lock is held while its job runs, and for atLeast from the beginning of the run if the job ends sooner, even if the
// process ends too. atLeast must be longer than the clocks of the schedulers differ, and shorter than the interval of the
// job. With 0 a job that has ended is run again by each scheduler whose clock is late.
//
// The options are those of [lockso.Client.Lock]: with [lockso.Lease] or [lockso.Session] the lock of a process that died is
// free sooner than after 30 seconds.
func NewLocker(client *lockso.Client, app string, atLeast time.Duration, options ...lockso.Option) *Locker {
	return &Locker{client: client, app: app, atLeast: atLeast, options: options}
}

// Lock is called by gocron, when a job is due. It waits for no other holder. If the server does not reply, it tries for two
// seconds. The error is [lockso.ErrNotAcquired] if another scheduler does this run, [ErrRunning], or another one of
// [lockso.Lock.TryLock]; gocron passes it to the listener AfterLockError, and skips the run.
func (l *Locker) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	if _, running := l.runs.LoadOrStore(ctx, (*run)(nil)); running {
		return nil, fmt.Errorf("%s: %w", name, ErrRunning)
	}
	began := time.Now()
	hold, err := try(ctx, l.client.Lock(l.app+":"+name, l.options...))
	if err != nil {
		l.runs.Delete(ctx)
		if !errors.Is(err, lockso.ErrNotAcquired) && ctx.Err() == nil {
			slog.Warn("gocron: a run of "+name+" is skipped", "error", err) // gocron logs nothing
		}
		return nil, err
	}
	r := &run{hold: hold, left: func() time.Duration { return l.atLeast - time.Since(began) }, end: func() { l.runs.Delete(ctx) }}
	l.runs.Store(ctx, r)
	return r, nil
}

// try tries again if there was no reply, for which TryLock waits only a tenth of a second.
func try(ctx context.Context, lock *lockso.Lock) (*lockso.Hold, error) {
	for end := time.Now().Add(patience); ; {
		hold, err := lock.TryLock(ctx)
		if err == nil || !errors.Is(err, lockso.ErrConnection) || time.Now().After(end) || !sleep(ctx, pause) {
			return hold, err
		}
	}
}

// Hold returns the hold of the job that runs with this context, the one that gocron passes to a function whose first
// parameter is a context, or nil: for its fencing token, or to write under the lock by [lockso.Hold.Guard].
func (l *Locker) Hold(ctx context.Context) *lockso.Hold {
	if r, _ := l.runs.Load(ctx); r != nil && r.(*run) != nil {
		return r.(*run).hold
	}
	return nil
}

// Context returns a context that also ends when the lock of the job is lost, with [lockso.ErrNotHeld] as its cause. It is
// called with the context that gocron passes to the job; gocron itself cannot end it, because it has one context for
// all runs of a job. If the context is another one, that which is returned has ended, with [ErrNoRun] as its cause.
func (l *Locker) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	return while(ctx, l.Hold(ctx), ErrNoRun)
}

// run is the lock of a job that runs.
type run struct {
	hold *lockso.Hold
	left func() time.Duration // of atLeast
	end  func()
}

// Unlock is called by gocron when the job has ended. gocron ignores the error, so it is also logged.
func (r *run) Unlock(ctx context.Context) error {
	defer r.end()
	err := r.keep(context.WithoutCancel(ctx))
	if failed := r.hold.Unlock(ctx); failed != nil {
		err = failed
	}
	if err != nil {
		slog.Warn("gocron: the lock of a run was not released in order", "error", err)
	}
	return err
}

// keep adds a hold of the same owner for what is left of atLeast, which only its lease ends: not the release of this hold,
// and not the end of the client or the process. It does no harm to add it twice, because nothing depends on the number.
func (r *run) keep(ctx context.Context) error {
	left := r.left().Milliseconds()
	if left <= 0 {
		return nil
	}
	guard := func(command string) func() error {
		return func() error {
			_, err := r.hold.Guard(ctx, command, r.hold.Keys()[0], r.hold.Owner(), "PX", strconv.FormatInt(left, 10))
			return err
		}
	}
	for _, step := range []func() error{
		func() error { return r.hold.Renew(ctx) }, // so that the package does not renew the lease between here and Unlock
		guard("LOCK.ACQUIRE"),
		guard("LOCK.RENEW"), // shortens the lease, and unbinds a session
	} {
		for err := step(); err != nil; err = step() { // at the latest until the lease expires
			if !errors.Is(err, lockso.ErrConnection) {
				return err
			}
			sleep(ctx, pause)
		}
	}
	return nil
}
