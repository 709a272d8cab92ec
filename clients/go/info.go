package lockso

import (
	"cmp"
	"context"
	"sync"
	"time"

	"lock-so.invalid/lock-so/clients/go/internal/transport"
)

// LockInfo is who holds a lock, and who waits for it, of all its keys.
type LockInfo struct {
	Holders []Holder
	Waiting int      // how many owners wait; those that wait for several keys count for each of them
	Waiters []Waiter // the first ten for each key, in the order of its queue
}

// Holder is an owner that holds one of the keys of a lock.
type Holder struct {
	Key, Owner string
	Mode       string        // "exclusive", "write", "read" or "semaphore"
	Holds      int           // how many holds, or permits, it has in this mode
	Left       time.Duration // until its lease expires; negative if it does not
	Session    bool          // whether it is bound to a connection
}

// Waiter is an owner that waits for one of the keys of a lock.
type Waiter struct {
	Key, Owner string
	Mode       string        // in which it waits: "exclusive", "write", "read" or "semaphore"
	Fair       bool          // whether it is in the fair queue
	Waited     time.Duration // for how long it has waited
	Left       time.Duration // for how long it will still wait; negative if it has no limit
}

// Locked returns whether any owner holds one of the keys; for a semaphore, whether any permit is taken. Errors are those of
// Info.
func (l *Lock) Locked(ctx context.Context) (bool, error) {
	info, err := l.info(ctx, "COUNT", "0")
	return len(info.Holders) > 0, err
}

// Info returns who holds the lock and who waits for it. It waits for nothing: the error is [ErrConnection] if no server
// replied within two seconds, [ErrRefused], [ErrClosed] or [ErrOption]. Of a RedLock's servers, a majority must reply.
func (l *Lock) Info(ctx context.Context) (LockInfo, error) { return l.info(ctx) }

func (l *Lock) info(ctx context.Context, options ...string) (all LockInfo, err error) {
	err = l.eachKey(ctx, false, func(key string) transport.Command { return onKey("LOCK.INFO", key, options...) },
		func(key string, reply any) {
			one := infoOf(key, reply)
			all.Holders, all.Waiters = append(all.Holders, one.Holders...), append(all.Waiters, one.Waiters...)
			all.Waiting += one.Waiting
		})
	return all, err
}

// Force is LOCK.FORCE: it frees all keys, whoever holds them, and returns whether anything was held. It is a tool for
// operators: the holders are not asked, and two of them may work at the same time. Errors are those of Info; the keys on other
// servers are freed all the same. After [ErrConnection] it may have been executed: it is not sent again, because it would
// free the lock of the next holder.
func (l *Lock) Force(ctx context.Context) (forced bool, err error) {
	err = l.eachKey(ctx, true, func(key string) transport.Command {
		cmd := onKey("LOCK.FORCE", key)
		cmd.Once = true
		return cmd
	},
		func(_ string, reply any) { forced = forced || reply == int64(1) })
	return forced, err
}

// eachKey sends a short command for each key, at once to all locks that this one consists of, and of one of them, unless all
// are needed, until the first error. It returns the first error, but not that of a minority of a RedLock's servers.
func (l *Lock) eachKey(ctx context.Context, all bool, command func(key string) transport.Command, got func(key string, reply any)) (failure error) {
	if s := l.target.describe(); s.wrong != "" {
		return s.fail(s.wrong, ErrOption)
	}
	ctx, cancel := context.WithTimeout(ctx, closeTimeout+replyTolerance) // of all keys; a request that need not wait ends earlier
	defer cancel()
	members := l.target.all()
	answers := make([][]answer, len(members))
	var done sync.WaitGroup
	for i, one := range members {
		done.Add(1)
		go func() {
			defer done.Done()
			for _, key := range one.spec.keys {
				reply, err := one.client.core.request(ctx, one.spec, command(key))
				answers[i] = append(answers[i], answer{reply, err})
				if err != nil && !all {
					return
				}
			}
		}()
	}
	done.Wait()
	failures := 0
	for i, one := range members {
		for k, answer := range answers[i] {
			if answer.err == nil {
				got(one.spec.keys[k], answer.reply)
			} else {
				failures++
				failure = cmp.Or(failure, answer.err)
			}
		}
	}
	if _, redlock := l.target.(*majority); redlock && failures <= (len(members)-1)/2 {
		return nil
	}
	return failure
}

// request sends a short command until it has a reply, for two seconds at most, or until ctx ends.
func (c *core) request(ctx context.Context, s *spec, cmd transport.Command) (any, error) {
	if s.wrong != "" {
		return nil, s.fail(s.wrong, ErrOption)
	}
	if ctx.Err() != nil {
		return nil, s.unanswered(ctx)
	}
	if !c.enter(nil) {
		return nil, s.closed()
	}
	limited, cancel := c.within(ctx, closeTimeout)
	answers := make(chan answer, 1)
	go func() {
		defer c.end()
		reply, _, err := c.call(limited, cmd)
		answers <- answer{reply, err}
	}()
	defer cancel()
	select {
	case got := <-answers:
		if got.err != nil {
			return nil, s.wrap(got.err, c.backend.Address(cmd.Key()))
		}
		c.connected.Store(true)
		return got.reply, nil
	case <-ctx.Done():
		return nil, s.unanswered(ctx)
	}
}

// infoOf reads a reply of LOCK.INFO by the names of its fields.
func infoOf(key string, reply any) (info LockInfo) {
	holders, _ := field(reply, "holders").([]any)
	for _, holder := range holders {
		info.Holders = append(info.Holders, Holder{
			Key: key, Owner: text(holder, "owner"), Mode: text(holder, "mode"), Holds: int(number(holder, "holds")),
			Left: span(holder, "pttl"), Session: field(holder, "session") != nil,
		})
	}
	info.Waiting = int(max(0, number(reply, "waiting")))
	waiters, _ := field(reply, "waiters").([]any)
	for _, waiter := range waiters {
		info.Waiters = append(info.Waiters, Waiter{
			Key: key, Owner: text(waiter, "owner"), Mode: text(waiter, "mode"), Fair: number(waiter, "fair") == 1,
			Waited: span(waiter, "waited"), Left: span(waiter, "left"),
		})
	}
	return info
}

func text(reply any, name string) string {
	text, _ := field(reply, name).(string)
	return text
}

// number is an integer field, or -1 if it is null.
func number(reply any, name string) int64 {
	if number, ok := field(reply, name).(int64); ok {
		return number
	}
	return -1
}

// span is a time in milliseconds, or noLimit.
func span(reply any, name string) time.Duration {
	if ms := number(reply, name); ms >= 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return noLimit
}

// field returns a field of a map, which RESP2 sends as an array.
func field(reply any, name string) any {
	switch reply := reply.(type) {
	case map[string]any:
		return reply[name]
	case map[any]any:
		return reply[name]
	case []any:
		for i := 0; i+1 < len(reply); i += 2 {
			if reply[i] == name {
				return reply[i+1]
			}
		}
	}
	return nil
}
