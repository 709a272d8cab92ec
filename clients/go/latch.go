package lockso

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"time"

	"lock-so.invalid/lock-so/clients/go/internal/transport"
)

// Latch lets any number of clients wait until something has been done a number of times. It is open when nothing is left
// to be counted down, and before it was first set. Many goroutines may use it at once.
type Latch struct {
	client *Client
	spec   *spec
}

// Latch creates a latch. Of the options it has [Lease], after which it opens in any case, and [Wait]; by default it stays
// closed until it has been counted down.
func (c *Client) Latch(key string, options ...Option) *Latch {
	s := &spec{kind: "latch", tokenless: true, outcome: "was not opened"}
	s.blocking = func(block time.Duration) transport.Command {
		cmd := onKey("LATCH.WAIT", key)
		if block > 0 {
			cmd.Args, cmd.Waits = append(cmd.Args, "BLOCK", millis(block)), true
		}
		return cmd
	}
	c.lock(s, []string{key}, options)
	s.require(!s.session && s.renew && s.replicas == 0 && !s.again, "a latch has only the options Lease and Wait")
	return &Latch{client: c, spec: s}
}

// Set closes the latch until it has been counted down this often, whatever it was before; 0 opens it. The error is an
// [Error]: [ErrOption], [ErrRefused], [ErrConnection] if no server replied within two seconds, or [ErrClosed]. After
// [ErrConnection] it may have been set: the command is not sent again, because it may have been counted down since.
func (l *Latch) Set(ctx context.Context, count int64) error {
	if count < 0 {
		return l.spec.fail("count must not be negative, not "+strconv.FormatInt(count, 10), ErrOption)
	}
	cmd := onKey("LATCH.SET", l.spec.keys[0], strconv.FormatInt(count, 10))
	cmd.Once = true
	if l.spec.lease > 0 {
		cmd.Args = append(cmd.Args, "PX", millis(l.spec.lease))
	}
	_, err := l.client.core.request(ctx, l.spec, cmd)
	return err
}

// CountDown counts the latch down by this number, and returns what is left; at 0 it is open. Errors are those of Set. After
// [ErrConnection] it may have been counted down: the command is not sent again.
func (l *Latch) CountDown(ctx context.Context, by int64) (left int64, err error) {
	if by < 1 {
		return 0, l.spec.fail("by must be at least 1, not "+strconv.FormatInt(by, 10), ErrOption)
	}
	cmd := onKey("LATCH.DOWN", l.spec.keys[0], strconv.FormatInt(by, 10))
	cmd.Once = true
	reply, err := l.client.core.request(ctx, l.spec, cmd)
	left, _ = reply.(int64)
	return left, err
}

// Count returns what is left; 0 means that the latch is open. Errors are those of Set.
func (l *Latch) Count(ctx context.Context) (left int64, err error) {
	reply, err := l.client.core.request(ctx, l.spec, onKey("GET", l.spec.keys[0]))
	if text, ok := reply.(string); ok {
		if left, err = strconv.ParseInt(text, 10, 64); err != nil {
			return 0, l.spec.fail(l.spec.String()+": the value of the key is not an integer", ErrRefused, err)
		}
	}
	return max(0, left), err
}

// Wait waits until the latch is open, and returns true, or false if the time of [Wait] has passed; with Wait(0) it does not
// wait. Like the wait for a lock it survives outages, and is not late by more than a tenth of a second.
//
// If ctx ends first, the error wraps that of ctx. Other errors are [ErrRefused], [ErrConnection] if no connection ever
// succeeded, [ErrClosed], [ErrOption].
func (l *Latch) Wait(ctx context.Context) (open bool, err error) {
	a, err := newAcquisition(ctx, l.client.core, l.spec)
	if err != nil {
		return false, err
	}
	defer a.client.leave(a, nil)
	defer a.cancel(nil)
	defer runtime.KeepAlive(l) // a client that is collected is closed
	a.limit(time.Now(), l.spec.wait)
	g, err := a.run()
	if err == nil {
		g.conn.Keep()
		return true, nil
	}
	if errors.Is(err, ErrNotAcquired) && ctx.Err() == nil && a.client.connected.Load() {
		return false, nil
	}
	return false, err
}
