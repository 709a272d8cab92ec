package main

import (
	"context"
	"errors"
	"slices"

	lockso "lock-so.invalid/lock-so/clients/go"
)

// What a lock can do besides locking, and re-entry.

func (r *runner) locked(req request) (fields, error) {
	locked, err := r.lock(req.On, req.Lock, nil).Locked(context.Background())
	return fields{"locked": locked}, err
}

func (r *runner) info(req request) (fields, error) {
	info, err := r.lock(req.On, req.Lock, nil).Info(context.Background())
	holders, waiters := []fields{}, []fields{}
	for _, holder := range info.Holders {
		holders = append(holders, fields{"key": holder.Key, "owner": holder.Owner, "mode": holder.Mode, "holds": holder.Holds})
	}
	for _, waiter := range info.Waiters {
		waiters = append(waiters, fields{"key": waiter.Key, "owner": waiter.Owner, "mode": waiter.Mode, "fair": waiter.Fair})
	}
	return fields{"holders": holders, "waiting": info.Waiting, "waiters": waiters}, err
}

func (r *runner) force(req request) (fields, error) {
	forced, err := r.lock(req.On, req.Lock, nil).Force(context.Background())
	return fields{"forced": forced}, err
}

func (r *runner) renew(req request) (fields, error) {
	hold, err := r.hold(req.As)
	if err != nil {
		return nil, err
	}
	if req.LeaseMs == nil {
		return nil, hold.Renew(context.Background())
	}
	return nil, hold.RenewFor(context.Background(), millis(*req.LeaseMs))
}

func (r *runner) guard(req request) (fields, error) {
	hold, err := r.hold(req.As)
	if err != nil {
		return nil, err
	}
	reply, err := hold.Guard(context.Background(), req.Command...)
	return fields{"reply": reply}, err
}

// reenter acquires the lock several times, each time inside of the one before.
func (r *runner) reenter(req request) (fields, error) {
	var holds []*lockso.Hold
	var owners []string
	ctx := context.Background()
	var err error
	for range req.Times {
		var hold *lockso.Hold
		if hold, err = r.take(ctx, req); err != nil {
			break
		}
		holds, owners, ctx = append(holds, hold), append(owners, hold.Owner()), hold.Context()
	}
	if err == nil {
		say(fields{"event": "inside", "id": req.ID})
		<-r.body(req.ID)
	}
	for _, hold := range slices.Backward(holds) {
		err = errors.Join(err, hold.Unlock(context.Background()))
	}
	return fields{"owners": owners}, err
}
