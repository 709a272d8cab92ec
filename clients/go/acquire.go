package lockso

import (
	"context"
	"time"
)

// acquisition is one request for a lock, with an owner of its own, until it is granted, refused or given up.
type acquisition struct {
	client *Client
	spec   *spec
	owner  string
	ctx    context.Context // the caller's; also ends when the client is closed

	limited bool
	ends    time.Time // when the wait times out, if it is limited
	tries   int
	unsure  bool // the reply to a request was lost: it may have been granted, or may still arrive at the server
}

// answer is the reply to a blocking call, or its error.
type answer struct {
	reply any
	err   error
}

// limit ends the wait after this time, if it is not negative, and at the deadline of the context.
func (a *acquisition) limit(wait time.Duration) {
	if wait >= 0 {
		a.limited, a.ends = true, time.Now().Add(wait)
	}
	if deadline, ok := a.ctx.Deadline(); ok && (!a.limited || deadline.Before(a.ends)) {
		a.limited, a.ends = true, deadline
	}
}

// run makes one blocking call after the other, until the acquisition ends.
func (a *acquisition) run() (*Hold, error) {
	var to route
	for p := (pause{}); ; {
		block, patience := a.nextBlock()
		asked := time.Now()
		conn := a.client.backend.Conn(a.spec.keys[0], to.address)
		got, err := a.ask(conn, to, block, patience)
		if err != nil {
			return nil, err
		}
		if got.err == nil && got.reply != nil {
			return newHold(a, conn, to, got.reply, asked), nil
		}
		finish(conn, got.err)
		a.unsure = a.unsure || lost(got.err)
		if err := a.verdict(got, block, time.Since(asked)); err != nil {
			return nil, a.settle(err)
		}
		to = redirection(got.err)
		if got.err == nil {
			p = pause{}
		} else if !p.sleep(a.ctx) {
			return nil, a.settle(a.ended())
		}
	}
}

// nextBlock returns how long the server is to block the next request, and after what time its connection is given up.
// The server must not end a fair wait early, because the waiter would lose its place in the queue. So the package ends
// the blocking call by closing the connection, and the next call finds the place again.
func (a *acquisition) nextBlock() (block, patience time.Duration) {
	a.tries++
	left := forEver
	if a.limited {
		left = max(0, time.Until(a.ends))
	}
	if left != forEver && left <= a.spec.maxBlock {
		return left, left + lastSlack + a.spec.within
	}
	if a.spec.fair {
		return left, a.spec.maxBlock
	}
	return a.spec.maxBlock, a.spec.maxBlock + slack + a.spec.within
}

// ask sends the request and waits for the reply, for patience at most.
//
// The caller's context does not end the request itself: the server decides whether the grant or the end of the context
// came first. When the context ends, the wait is cancelled on another connection, and the server replies to the
// request. An error means that the acquisition was given up in this way, and that nothing is left to do.
func (a *acquisition) ask(conn Conn, to route, block, patience time.Duration) (answer, error) {
	ctx, cancel := a.client.within(a.ctx, patience)
	defer cancel()
	answers, done, enough := make(chan answer, 1), make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(a.ctx, func() {
		defer close(done)
		defer time.AfterFunc(politeness, func() { close(enough) }).Stop()
		defer time.AfterFunc(deadAfter, cancel).Stop() // if the connection is still being made
		a.takeBack(conn, answers)
	})
	reply, err := perform(ctx, conn, to, a.spec.acquire(a.owner, block))
	if stop() {
		return answer{reply, err}, nil
	}
	answers <- answer{reply, err}
	select {
	case <-done:
	case <-enough:
	}
	return answer{}, a.ended()
}

// ended is the error for the end of the acquisition's context: the client was closed, or the caller's context ended.
func (a *acquisition) ended() error {
	if context.Cause(a.ctx) == ErrClosed {
		return a.spec.fail(ErrClosed, "", nil)
	}
	return a.spec.fail(ErrNotAcquired, "", a.ctx.Err())
}

// verdict returns the error with which the acquisition ends after an answer that was no grant, or nil if it continues.
func (a *acquisition) verdict(got answer, block, waited time.Duration) error {
	timedOut := a.limited && !time.Now().Before(a.ends)
	switch {
	case got.err != nil && !passing(got.err):
		return a.spec.wrap(got.err)
	case got.err != nil && timedOut && (a.tries > 1 || waited > lastSlack/4): // a call that failed at once had an old connection
		return a.spec.wrap(got.err)
	case got.err != nil:
		return nil
	case timedOut || block == 0 || block == forEver:
		return a.spec.fail(ErrNotAcquired, "", nil)
	case waited < block-10*time.Millisecond: // another client ended the wait by LOCK.CANCEL
		return a.spec.fail(ErrNotAcquired, "", nil)
	}
	return nil
}

// settle cancels requests whose reply was lost, and returns the error. It waits at most two seconds for that, counted
// from the time-out of the wait if the wait has timed out.
func (a *acquisition) settle(err error) error {
	if !a.unsure {
		return err
	}
	enough := politeness
	if late := time.Since(a.ends); a.limited && late > 0 {
		enough = max(politeness-late-politeness/10, politeness/10)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.takeBack(nil, nil)
	}()
	select {
	case <-done:
	case <-time.After(enough):
	}
	return err
}

// takeBack sends LOCK.CANCEL until the server has replied that nothing is left, and no request can arrive any more: the
// pending request, if there is one, has been answered, and requests whose connection was lost have had time to arrive.
func (a *acquisition) takeBack(conn Conn, pending <-chan answer) {
	if a.client.begin() {
		defer a.client.end()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), max(a.spec.lease, politeness))
	defer cancel()
	if conn != nil {
		// A connection that receives no reply although its wait was cancelled is dead.
		defer time.AfterFunc(deadAfter, conn.Close).Stop()
	}
	for p, empty := (pause{}), 0; ; {
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
		select {
		case got := <-pending:
			a.unsure = a.unsure || lost(got.err)
			finish(conn, got.err)
			pending = nil
		case <-p.next():
		}
	}
	if pending != nil {
		go part(conn, pending)
	}
}

// part gives the connection back when its reply has arrived. The hold, if it was one, has been released already.
func part(conn Conn, pending <-chan answer) {
	select {
	case got := <-pending:
		finish(conn, got.err)
	case <-time.After(politeness):
		conn.Close()
	}
}

// cancel ends the wait of an owner, or releases its hold. It returns whether there was one or the other.
func (c *Client) cancel(ctx context.Context, s *spec, owner string) (bool, error) {
	reply, resent, err := c.call(ctx, s.cancelCommand(owner))
	if err != nil || reply != int64(0) || !s.multi {
		return resent || reply != int64(0), err
	}
	_, _, err = c.call(ctx, s.releaseCommand(owner))
	if codeOf(err) == "NOTHELD" {
		return false, nil
	}
	return true, err
}
