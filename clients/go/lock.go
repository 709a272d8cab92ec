package lockso

import (
	"context"
	"crypto/rand"
	"errors"
	"time"
)

// Lock is a lock with its keys and options. It is not held itself: each acquisition has an owner of its own.
// Many goroutines may use it at once.
type Lock struct {
	client *Client
	spec   *spec
}

// Lock waits until the lock is held, without a limit unless [Wait] or ctx set one.
//
// The error is an [Error]: [ErrNotAcquired] when the wait times out, [ErrDeadlock], [ErrNoReplicas], [ErrRefused],
// [ErrConnection], [ErrClosed]. Then there is neither a hold nor a wait on the server. If the server cannot be reached
// to ensure this, Lock returns two seconds after the end of ctx, and keeps trying in the background for as long as the
// lease.
func (l *Lock) Lock(ctx context.Context) (*Hold, error) {
	return l.acquire(ctx, l.spec.wait)
}

// TryLock acquires the lock if it is free now. The error is [ErrNotAcquired] if it is not; other errors are those of
// Lock.
func (l *Lock) TryLock(ctx context.Context) (*Hold, error) {
	return l.acquire(ctx, 0)
}

// Do acquires the lock as Lock does, and runs fn while the lock is held. The context of fn is derived from ctx, and
// also ends when the lock is lost, with [ErrNotHeld] as its cause.
//
// The error is that of Lock, or the error of fn joined with that of Unlock: errors.Is finds both.
// If fn panics, the lock is released and the panic continues.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	hold, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hold.Unlock(ctx)) }()
	inside, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(hold.Context(), func() { cancel(context.Cause(hold.Context())) })()
	return fn(inside)
}

func (l *Lock) acquire(ctx context.Context, wait time.Duration) (*Hold, error) {
	if err := ctx.Err(); err != nil {
		return nil, l.spec.fail(ErrNotAcquired, "", err)
	}
	if len(l.spec.keys) == 0 {
		return nil, l.spec.fail(ErrRefused, "", errors.New("no keys"))
	}
	if !l.client.begin() {
		return nil, l.spec.fail(ErrClosed, "", nil)
	}
	defer l.client.end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.client.life, func() { cancel(ErrClosed) })()
	a := &acquisition{client: l.client, spec: l.spec, owner: rand.Text(), ctx: ctx}
	a.limit(wait)
	return a.run()
}
