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
type Lock struct{ target target }

// target is what a lock acquires.
type target interface {
	// all is what it consists of.
	all() []*single
	describe() *spec
	// acquire waits until this time after it has begun, without a limit if wait is negative; with 0 it only tries.
	acquire(ctx context.Context, began time.Time, wait time.Duration) (*Hold, error)
}

// single is one lock of one client.
type single struct {
	client *Client
	spec   *spec
}

func (l *single) describe() *spec { return l.spec }

// Lock waits until the lock is held, without a limit unless [Wait] or ctx set one. Neither is overrun by more than a
// tenth of a second.
//
// The error is an [Error]: [ErrNotAcquired] when the wait times out, [ErrDeadlock], [ErrNoReplicas], [ErrRefused],
// [ErrConnection] if no connection ever succeeded (see [ConnectTimeout]), [ErrClosed], [ErrOption]. Then there is
// neither a hold nor a wait on the server; if the server does not reply in time, the package keeps trying to ensure this
// in the background, for as long as the lease.
func (l *Lock) Lock(ctx context.Context) (*Hold, error) {
	return l.target.acquire(ctx, time.Now(), l.target.describe().wait)
}

// TryLock acquires the lock if it is free now, and takes a tenth of a second at most; use [Wait] to allow for more. The
// error is [ErrNotAcquired] if it is not free, and [ErrConnection] if the server did not reply within this time or the
// deadline of ctx; other errors are those of Lock.
func (l *Lock) TryLock(ctx context.Context) (*Hold, error) {
	return l.target.acquire(ctx, time.Now(), 0)
}

// Do acquires the lock as Lock does, and runs fn while the lock is held. The context of fn is derived from ctx, and
// also ends when the lock is lost, with [ErrNotHeld] as its cause.
//
// The error is that of Lock, that of fn, or that of Unlock. If both fn and Unlock fail, errors.Is finds both.
// If fn panics, the lock is released and the panic continues.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	hold, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if failed := hold.Unlock(ctx); err == nil {
			err = failed
		} else if failed != nil {
			err = errors.Join(err, failed)
		}
	}()
	held := hold.Context()
	inside, cancel := context.WithCancelCause(context.WithValue(ctx, enclosing{}, held.Value(enclosing{})))
	defer cancel(nil)
	defer context.AfterFunc(held, func() { cancel(context.Cause(held)) })()
	return fn(inside)
}

func (l *single) acquire(ctx context.Context, began time.Time, wait time.Duration) (*Hold, error) {
	if all := l.all(); len(all) > 1 {
		return acquireAll(ctx, l.spec, all, began, wait)
	}
	if h, err := l.reenter(ctx); h != nil || err != nil {
		return h, err
	}
	a, err := newAcquisition(ctx, l.client.core, l.spec)
	if err != nil {
		return nil, err
	}
	defer a.cancel(nil)
	a.owner = newOwner()
	a.limit(began, wait)
	g, err := a.run()
	if err != nil {
		a.client.leave(a, nil)
		return nil, err
	}
	h := newHold(a, g)
	if !a.client.leave(a, h) {
		return nil, l.spec.closed()
	}
	return newHandle(l.client, h, h.ctx), nil
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
	return owner() + randomHex()
}

// randomHex is 16 random hexadecimal digits.
func randomHex() string {
	var random [8]byte
	rand.Read(random[:])
	return hex.EncodeToString(random[:])
}
