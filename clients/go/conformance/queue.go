package main

import (
	"context"
	"slices"
	"sync/atomic"

	lockso "lock-so.invalid/lock-so/clients/go"
)

// Latches and delayed queues.

func (c *connection) latch(req request) *lockso.Latch {
	var options []lockso.Option
	if req.LeaseMs != nil {
		options = append(options, lockso.Lease(millis(*req.LeaseMs)))
	}
	return c.locks.Latch(req.Key, waits(options, req.WaitMs)...)
}

func (r *runner) latchSet(req request) (fields, error) {
	return nil, r.client(req.On).latch(req).Set(context.Background(), req.Count)
}

func (r *runner) latchDown(req request) (fields, error) {
	left, err := r.client(req.On).latch(req).CountDown(context.Background(), req.By)
	return fields{"left": left}, err
}

func (r *runner) latchCount(req request) (fields, error) {
	count, err := r.client(req.On).latch(req).Count(context.Background())
	return fields{"count": count}, err
}

func (r *runner) latchWait(ctx context.Context, req request) (fields, error) {
	open, err := r.client(req.On).latch(req).Wait(ctx)
	return fields{"open": open}, err
}

func (r *runner) queue(req request) *lockso.DelayedQueue {
	return r.client(req.On).locks.DelayedQueue(req.Queue)
}

func (r *runner) delayPush(req request) (fields, error) {
	ctx, value, delay := context.Background(), []byte(req.Value), millis(req.DelayMs)
	if req.Item != nil {
		return fields{"item": *req.Item}, r.queue(req).PushID(ctx, *req.Item, value, delay)
	}
	item, err := r.queue(req).Push(ctx, value, delay)
	return fields{"item": item}, err
}

func (r *runner) delayCancel(req request) (fields, error) {
	cancelled, err := r.queue(req).Cancel(context.Background(), *req.Item)
	return fields{"cancelled": cancelled}, err
}

func (r *runner) delayList(req request) (fields, error) {
	items := []fields{}
	pending, err := r.queue(req).List(context.Background(), 0)
	for _, one := range pending {
		items = append(items, fields{"item": one.ID, "value": string(one.Value)})
	}
	return fields{"items": items}, err
}

// consume runs a consumer. It is stopped by a cancellation, and with jobs also during the last one, which is settled before
// the consumer ends.
func (r *runner) consume(ctx context.Context, req request) (fields, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var options []lockso.ConsumeOption
	if req.TimeoutMs != nil {
		options = append(options, lockso.Timeout(millis(*req.TimeoutMs)))
	}
	if req.MaxTries != nil {
		options = append(options, lockso.MaxTries(*req.MaxTries))
	}
	if req.BackoffMs != nil {
		options = append(options, lockso.Backoff(millis(*req.BackoffMs)))
	}
	leave := r.body(req.ID)
	var handled atomic.Int64
	err := r.queue(req).Consume(ctx, func(ctx context.Context, job lockso.Job) error {
		value := string(job.Value)
		say(fields{"event": "job", "id": req.ID, "value": value, "tries": job.Tries})
		if slices.Contains(req.Hold, value) {
			select {
			case <-leave:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if handled.Add(1); req.Jobs != nil && handled.Load() == int64(*req.Jobs) {
			defer stop()
		}
		if slices.Contains(req.Fail, value) {
			return errBody
		}
		return nil
	}, options...)
	if req.Jobs != nil && handled.Load() == int64(*req.Jobs) {
		err = nil
	}
	return nil, err
}
