package lockso

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"strconv"
	"sync"
	"time"
)

// Lock is a lock with its keys and options. It is not held itself: each acquisition has an owner of its own.
// Many goroutines may use it at once.
type Lock struct {
	client *Client
	spec   *spec
}

// Lock waits until the lock is held, without a limit unless [Wait] or ctx set one. Neither is overrun by more than a
// tenth of a second.
//
// The error is an [Error]: [ErrNotAcquired] when the wait times out, [ErrDeadlock], [ErrNoReplicas], [ErrRefused],
// [ErrConnection] if no connection ever succeeded (see [ConnectTimeout]), [ErrClosed], [ErrOption]. Then there is
// neither a hold nor a wait on the server; if the server does not reply in time, the package keeps trying to ensure this
// in the background, for as long as the lease.
func (l *Lock) Lock(ctx context.Context) (*Hold, error) {
	return l.acquire(ctx, l.spec.wait)
}

// TryLock acquires the lock if it is free now. The error is [ErrNotAcquired] if it is not, and [ErrConnection] if the
// server could not be asked within a tenth of a second, or within the deadline of ctx, if it has one, and 3 seconds at
// most; other errors are those of Lock.
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
	held := hold.Context()
	defer context.AfterFunc(held, func() { cancel(context.Cause(held)) })()
	return fn(inside)
}

func (l *Lock) acquire(ctx context.Context, wait time.Duration) (*Hold, error) {
	client := l.client.core
	if l.spec.wrong != "" {
		return nil, l.spec.fail(l.spec.wrong, ErrOption)
	}
	if err := ctx.Err(); err != nil {
		return nil, l.spec.notAcquired(0, err)
	}
	if !client.begin() {
		return nil, l.spec.closed()
	}
	defer client.end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(client.life, func() { cancel(ErrClosed) })()
	a := &acquisition{client: client, spec: l.spec, owner: newOwner(), ctx: ctx}
	a.limit(wait)
	h, err := a.run()
	if err != nil {
		return nil, err
	}
	return newHandle(l.client, h), nil
}

// owner is the beginning of the name of each owner: who it is.
var owner = sync.OnceValue(func() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + ":" + strconv.Itoa(os.Getpid()) + ":"
})

func newOwner() string {
	var random [8]byte
	rand.Read(random[:])
	return owner() + hex.EncodeToString(random[:])
}
