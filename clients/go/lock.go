package lockso

import (
	"context"
	"crypto/rand"
	"errors"
	"time"
)

// Lock is a lock by its name and options. It holds nothing itself: each acquisition has an owner of its own.
// Many goroutines may use it at once.
type Lock struct {
	client *Client
	spec   *spec
}

// Lock waits until the lock is held: for ever, or as long as [Wait] and ctx let it.
//
// The error is an [Error]: [ErrNotAcquired] when the time is over, [ErrDeadlock], [ErrNoReplicas], [ErrRefused],
// [ErrConnection], [ErrClosed]. Nothing is held or waited for then. If the server cannot be reached to make sure of it,
// Lock returns two seconds after the end of ctx, and goes on trying in the background for as long as the lease.
func (l *Lock) Lock(ctx context.Context) (*Hold, error) {
	return l.acquire(ctx, l.spec.wait)
}

// TryLock takes the lock if it is free at this moment. The error is [ErrNotAcquired] if it is not; others as of Lock.
func (l *Lock) TryLock(ctx context.Context) (*Hold, error) {
	return l.acquire(ctx, 0)
}

// Do runs fn while it holds the lock, which it waits for as Lock does. The context of fn is ctx, which also ends, with
// [ErrNotHeld] as its cause, when the lock is lost.
//
// The error is that of Lock, or what fn returned joined with what Unlock returned: errors.Is finds either.
// If fn panics, the lock is released and the panic goes on.
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
