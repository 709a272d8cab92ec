package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	lockso "lock-so.invalid/lock-so/clients/go"
)

// count runs workers that increment a counter, which only the lock protects.
func (r *runner) count(req request) (fields, error) {
	client := r.client(req.On)
	lock := r.lock(req.On, req.Lock, nil)
	var done atomic.Int64
	var workers sync.WaitGroup
	faults := make([]error, req.Workers)
	for i := range req.Workers {
		workers.Go(func() {
			for range req.Times {
				faults[i] = errors.Join(faults[i], lock.Do(context.Background(), func(ctx context.Context) error {
					if err := client.increment(ctx, req.Counter, req.Lock.Kind != "read"); err != nil {
						return err
					}
					done.Add(1)
					return nil
				}))
			}
		})
	}
	workers.Wait()
	return fields{"done": done.Load()}, errors.Join(faults...)
}

func (c *connection) increment(ctx context.Context, counter string, write bool) error {
	n, err := c.user.get(ctx, counter)
	if err != nil || !write {
		return err
	}
	return c.user.set(ctx, counter, n+1)
}

// handoff measures a release that hands a lock to a waiter, and a push that unblocks a BLPOP, alternating.
func (r *runner) handoff(req request) (fields, error) {
	a, err := r.make(req)
	if err != nil {
		return nil, err
	}
	b, err := r.make(req)
	if err != nil {
		return nil, err
	}
	defer a.user.close()
	defer b.user.close()
	defer a.locks.Close()
	defer b.locks.Close()
	var locks, pops []int64
	for range req.Rounds {
		µs, err := handLock(a, b, req.Lock)
		if err != nil {
			return nil, err
		}
		locks = append(locks, µs)
		if µs, err = handElement(a, b, req.Lock.Keys[0]+":list"); err != nil {
			return nil, err
		}
		pops = append(pops, µs)
	}
	return fields{"lock_us": locks, "blpop_us": pops}, nil
}

// end is the time of a grant or of an element, or the error.
type end struct {
	at   time.Time
	err  error
	hold *lockso.Hold
}

func handLock(a, b *connection, spec lockSpec) (int64, error) {
	ctx := context.Background()
	hold, err := a.lock(spec, nil).Lock(ctx)
	if err != nil {
		return 0, err
	}
	granted := make(chan end, 1)
	go func() {
		hold, err := b.lock(spec, nil).Lock(ctx)
		granted <- end{time.Now(), err, hold}
	}()
	if err := seenBlocked(ctx, a.user); err != nil {
		return 0, err
	}
	start := time.Now()
	if err := hold.Unlock(ctx); err != nil {
		return 0, err
	}
	got := <-granted
	if got.err != nil {
		return 0, got.err
	}
	return got.at.Sub(start).Microseconds(), got.hold.Unlock(ctx)
}

func handElement(a, b *connection, key string) (int64, error) {
	ctx := context.Background()
	popped := make(chan end, 1)
	go func() {
		err := b.user.pop(ctx, key)
		popped <- end{at: time.Now(), err: err}
	}()
	if err := seenBlocked(ctx, a.user); err != nil {
		return 0, err
	}
	start := time.Now()
	if err := a.user.push(ctx, key); err != nil {
		return 0, err
	}
	got := <-popped
	return got.at.Sub(start).Microseconds(), got.err
}

// seenBlocked polls until a client is blocked on the server. No other client uses the server meanwhile.
func seenBlocked(ctx context.Context, u user) error {
	for {
		if n, err := blocked(ctx, u); err != nil || n > 0 {
			return err
		}
	}
}
