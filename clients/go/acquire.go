package lockso

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lock-so.invalid/lock-so/clients/go/internal/transport"
)

// acquisition is one request for a lock, with an owner of its own, until it is granted, refused or given up; or a wait for
// something else, without an owner.
type acquisition struct {
	client *core
	spec   *spec
	owner  string
	ctx    context.Context // the caller's; also ends when the client is closed
	cancel context.CancelCauseFunc
	before func() error                       // of each blocking call, while the server can be reached; or nil
	who    func(ctx context.Context) []string // requests who holds the lock

	began   time.Time // also for other locks, with which it is acquired
	started time.Time
	wait    time.Duration // how long it waits at most; negative: for ever, 0: it only tries
	limited bool
	ends    time.Time // when the wait times out, if it is limited
	replyBy time.Time // the end of the time for the last reply, if it is limited

	tries  int
	unsure bool  // the reply to a request was lost: it may have been granted, or may still arrive at the server
	cause  error // why the last attempt failed, if it did not get a reply
	warned bool  // of the outage that this attempt is in
}

// answer is the reply to a blocking call, or its error.
type answer struct {
	reply any
	err   error
}

// grant is the reply to a blocking call, on this connection.
type grant struct {
	conn  transport.Conn
	to    route
	reply any
	sent  time.Time // when it was requested
}

// newAcquisition checks the options, and counts the acquisition, until leave.
func newAcquisition(ctx context.Context, client *core, s *spec) (*acquisition, error) {
	if s.wrong != "" {
		return nil, s.fail(s.wrong, ErrOption)
	}
	if ctx.Err() != nil {
		return nil, s.cancelled(0, ctx)
	}
	a := &acquisition{client: client, spec: s}
	a.who = func(ctx context.Context) []string { return client.holders(ctx, s.keys) }
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	if !client.enter(a) {
		a.cancel(nil)
		return nil, s.closed()
	}
	return a, nil
}

// limit ends the wait this time after it has begun, if the time is not negative, and at the deadline of the context. For a try, which has no
// time to wait, the deadline limits how long its reply may take.
func (a *acquisition) limit(began time.Time, wait time.Duration) {
	a.began, a.started = began, time.Now()
	a.wait = untilDeadline(a.ctx, began, wait)
	if a.wait < 0 || a.wait > 10000*day {
		a.wait = noLimit
		return
	}
	a.limited, a.ends = true, a.began.Add(a.wait)
	a.replyBy = a.ends.Add(replyTolerance)
	if deadline, ok := a.ctx.Deadline(); ok && wait == 0 && deadline.Before(a.replyBy) {
		a.replyBy = deadline
	}
}

// run makes one blocking call after the other, until the acquisition ends.
func (a *acquisition) run() (*grant, error) {
	var to route
	for p := (pause{}); ; {
		sent := time.Now()
		conn, err := a.client.backend.Conn(a.ctx, a.connectWithin(), a.spec.keys[0], to.address)
		got, block := answer{err: err}, noLimit
		if err == nil {
			a.client.connected.Store(true)
			if a.before != nil {
				if err := a.before(); err != nil {
					conn.Keep()
					return nil, err
				}
			}
			var timeout time.Duration
			block, timeout = a.nextBlock()
			sent = time.Now()
			if got, err = a.send(conn, to, block, timeout); err != nil {
				return nil, err
			}
			if got.err == nil && got.reply != nil {
				return &grant{conn, to, got.reply, sent}, nil
			}
			finish(conn, got.err)
			a.unsure = a.unsure || lost(got.err)
			a.warned = a.warned && time.Since(sent) < time.Second // a connection that lasts ends an outage
			if a.spec.fair && timeout == a.spec.maxBlock && lost(got.err) && time.Since(sent) >= timeout {
				continue // see nextBlock; at once, because everybody behind it waits
			}
		}
		a.tries++
		if err := a.verdict(got, conn != nil, block, time.Since(sent)); err != nil {
			return nil, a.settle(err)
		}
		to = redirection(got.err)
		if got.err == nil {
			p = pause{}
		} else if p.idle(got.err); !a.timedOut() && !a.sleep(&p) {
			return nil, a.settle(a.failure())
		}
	}
}

// untilDeadline returns a wait that began at this time, or what of it is before the deadline of the context. A try is not a
// wait.
func untilDeadline(ctx context.Context, began time.Time, wait time.Duration) time.Duration {
	deadline, ok := ctx.Deadline()
	if left := deadline.Sub(began); ok && wait != 0 && (wait < 0 || left < wait) {
		return max(left, 1)
	}
	return wait
}

func (a *acquisition) timedOut() bool { return a.limited && !time.Now().Before(a.ends) }

// cancelled returns whether the caller cancelled the context, or the client was closed. The deadline of the context is
// not waited for in this way, because the server ends the wait then.
func (a *acquisition) cancelled() bool {
	err := a.ctx.Err()
	return err != nil && !(a.limited && err == context.DeadlineExceeded)
}

// retryUntil returns how long attempts are made, and whether there is a limit. Until a connection has succeeded once, the
// address is probably wrong.
func (a *acquisition) retryUntil() (until time.Time, limited bool) {
	if first := a.started.Add(a.client.connectTimeout); !a.client.connected.Load() && (!a.limited || first.Before(a.ends)) {
		return first, true
	}
	return a.ends, a.limited
}

// connectWithin returns how long it may take to connect.
func (a *acquisition) connectWithin() time.Duration {
	left := a.client.connectTimeout
	if until, limited := a.retryUntil(); a.wait == 0 {
		left = time.Until(a.replyBy)
	} else if limited {
		left = time.Until(until.Add(replyTolerance))
	}
	return max(time.Millisecond, min(left, a.client.connectTimeout))
}

// sleep waits before the next attempt. It returns false if there is to be none.
func (a *acquisition) sleep(p *pause) bool {
	until, limited := a.retryUntil()
	delay := p.next()
	if limited {
		delay = min(delay, max(0, time.Until(until)))
	}
	select {
	case <-time.After(delay):
	case <-a.ctx.Done():
	}
	return !a.cancelled() && (!limited || time.Now().Before(until))
}

// nextBlock returns how long the server is to block the next request, and after what time its connection is closed.
// The server must not end a fair wait early, because the waiter would lose its place in the queue. So the package ends
// the blocking call by closing the connection, and the next call finds the place again.
func (a *acquisition) nextBlock() (block, timeout time.Duration) {
	left := noLimit
	if a.limited {
		left = max(0, time.Until(a.ends))
	}
	if left != noLimit && left <= a.spec.maxBlock {
		// Also a request that is late has some time, but what was acquired before it may have used that up.
		late := min(replyTolerance/2, time.Until(a.replyBy.Add(replyTolerance/2)))
		return left, max(time.Until(a.replyBy), late, time.Millisecond) + a.spec.within
	}
	if a.spec.fair {
		return left, a.spec.maxBlock
	}
	timeout = a.spec.maxBlock + slack
	if a.limited {
		timeout = min(timeout, time.Until(a.replyBy))
	}
	return a.spec.maxBlock, timeout + a.spec.within
}

// send sends the request and waits for the reply until the timeout.
//
// The caller's context does not end the request itself: the server decides whether the grant or the end of the context
// came first. When the context is cancelled, the wait is cancelled on another connection, and the server replies to the
// request. An error means that the acquisition was given up in this way, and that nothing is left to do.
func (a *acquisition) send(conn transport.Conn, to route, block, timeout time.Duration) (answer, error) {
	ctx, cancel := a.client.within(a.ctx, timeout)
	defer cancel()
	answers, done := make(chan answer, 1), make(chan struct{})
	stop := context.AfterFunc(a.ctx, func() {
		defer close(done)
		switch {
		case !a.cancelled():
		case a.spec.blocking != nil:
			conn.Close()
		default:
			a.giveUp(answers, conn)
		}
	})
	reply, err := perform(ctx, conn, to, a.spec.acquire(a.owner, block))
	if stop() || !a.cancelled() || a.spec.blocking != nil && reply != nil {
		return answer{reply, err}, nil
	}
	answers <- answer{reply, err}
	select {
	case <-done:
	case <-time.After(holdersTolerance - replyTolerance):
		a.client.background(func() { <-done })
	}
	return answer{}, a.failure()
}

// failure is the error for the end of the acquisition: the client was closed, the caller's context was cancelled, the
// wait has timed out, or there never was a connection.
func (a *acquisition) failure() error {
	waited := time.Since(a.began)
	switch {
	case context.Cause(a.ctx) == ErrClosed:
		return a.spec.closed()
	case a.cancelled():
		return a.spec.cancelled(waited, a.ctx)
	case a.cause == nil:
		return a.spec.notAcquired(a.wait, nil, a.deadline()...).heldBy(a.holders())
	case a.wait > 0 && a.timedOut():
		return a.spec.notAcquired(a.wait, a.cause, a.deadline()...)
	}
	return a.spec.wrap(a.cause, "")
}

// deadline returns what the error for a wait that has timed out wraps, apart from a.cause: also the cause of the context's
// deadline, if that was the limit.
func (a *acquisition) deadline() (is []error) {
	if a.wait > 0 {
		is = append(is, context.DeadlineExceeded)
	}
	if end, ok := a.ctx.Deadline(); ok && !end.After(a.ends) {
		select {
		case <-a.ctx.Done():
			is = append(is, context.Cause(a.ctx))
		case <-time.After(holdersTolerance - replyTolerance): // the server's clock was faster
		}
	}
	if a.cause != nil && codeOf(a.cause) == "" {
		is = append(is, ErrConnection)
	}
	return is
}

// verdict returns the error with which the acquisition ends after an attempt that got no grant, or nil if it continues.
func (a *acquisition) verdict(got answer, connected bool, block, waited time.Duration) error {
	switch {
	case a.cancelled():
		return a.failure()
	case got.err != nil && !passing(got.err):
		return a.spec.wrap(got.err, a.client.backend.Address(a.spec.keys[0]))
	case got.err != nil:
		a.cause = got.err
		// A call that failed at once had an old connection.
		if a.timedOut() && (a.tries > 1 || !connected || waited > replyTolerance/2) {
			return a.failure()
		}
		a.warn()
		return nil
	}
	a.cause, a.warned = nil, false
	switch {
	case a.timedOut() || block == 0:
		return a.failure()
	case a.spec.blocking == nil && (block == noLimit || waited < block-10*time.Millisecond): // another client ended the wait by LOCK.CANCEL
		return a.spec.notAcquired(time.Since(a.began), nil).heldBy(a.holders())
	}
	return nil
}

// warn logs an outage, once, if the wait continues.
func (a *acquisition) warn() {
	if a.warned || codeOf(a.cause) != "" || a.timedOut() {
		return
	}
	a.warned = true
	address := addressOf(a.cause, a.client.backend.Address(a.spec.keys[0]))
	a.client.warn(fmt.Sprintf("%s: no connection to %s (%v); the wait goes on", a.spec, address, a.cause))
}

// holders requests who holds the lock, in what is left of the time by which an acquisition may be late.
func (a *acquisition) holders() []string {
	if a.spec.blocking != nil {
		return nil
	}
	by := time.Now().Add(holdersTolerance)
	if a.timedOut() {
		by = a.ends.Add(holdersTolerance)
	}
	left := time.Until(by)
	if left <= 0 {
		return nil
	}
	ctx, cancel := a.client.within(a.ctx, left)
	defer cancel()
	return a.who(ctx)
}

// holders requests the owners that hold the first of the keys that is held, until ctx ends.
func (c *core) holders(ctx context.Context, keys []string) (owners []string) {
	for _, key := range keys {
		if len(owners) > 0 || ctx.Err() != nil {
			break
		}
		reply, _ := c.backend.Do(ctx, onKey("LOCK.INFO", key, "COUNT", "0"))
		for _, holder := range infoOf(key, reply).Holders {
			if !slices.Contains(owners, holder.Owner) {
				owners = append(owners, holder.Owner)
			}
		}
	}
	return owners
}

// settle cancels requests whose reply was lost, and returns the error. That continues in the background if it takes
// longer than an acquisition may be late.
func (a *acquisition) settle(err error) error {
	if !a.unsure || a.spec.blocking != nil {
		return err
	}
	enough := replyTolerance
	if a.timedOut() {
		enough = time.Until(a.ends.Add(holdersTolerance))
	}
	select {
	case <-a.client.background(func() { a.giveUp(nil, nil) }):
	case <-time.After(enough):
	}
	return err
}

// giveUp sends LOCK.CANCEL until the server has replied that nothing is left, and no request can arrive any more: the
// pending request, if there is one, has been answered, and requests whose connection was lost have had time to arrive.
func (a *acquisition) giveUp(pending <-chan answer, conn transport.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), max(a.spec.lease, closeTimeout))
	defer cancel()
	var patience *time.Timer
	if pending != nil {
		// A connection that receives no reply although its wait was cancelled is considered dead.
		patience = time.AfterFunc(replyTolerance, conn.Close)
	}
	answered := func(got answer) {
		patience.Stop()
		a.unsure = a.unsure || lost(got.err)
		finish(conn, got.err)
	}
	for p, empty := (pause{}), 0; ctx.Err() == nil; {
		complete := pending == nil // before the cancel is sent
		found, err := a.client.cancel(ctx, a.spec, a.owner)
		if err != nil || found && !a.unsure {
			break
		}
		if complete && !found {
			empty++
		}
		if empty > 1 || empty == 1 && !a.unsure {
			break
		}
		delay := p.next()
		if a.unsure {
			delay = max(delay, tolerance)
		}
		select {
		case got := <-pending:
			answered(got)
			pending = nil
		case <-time.After(delay):
		}
	}
	if pending != nil { // its hold or wait has ended: only the connection is left
		go func() { answered(<-pending) }()
	}
}

// cancel ends the wait of an owner, or releases its hold. It returns whether there was one or the other. If the command
// was sent again, its first execution may have found the wait instead, so the next reply counts.
func (c *core) cancel(ctx context.Context, s *spec, owner string) (bool, error) {
	reply, _, err := c.call(ctx, s.cancelCommand(owner))
	if err != nil || reply != int64(0) || !s.multi {
		return reply != int64(0), err
	}
	_, _, err = c.call(ctx, s.releaseCommand(owner))
	if codeOf(err) == "NOTHELD" {
		return false, nil
	}
	return true, err
}
