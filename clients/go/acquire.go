package lockso

import (
	"context"
	"time"
)

// acquisition is one request for a lock, under an owner of its own, until it is granted, refused or given up.
type acquisition struct {
	client *Client
	spec   *spec
	owner  string
	ctx    context.Context // of the caller; ends with the client too

	limited bool
	ends    time.Time // when the time to wait is over, if it is limited
	tries   int
	unsure  bool // a request was sent of which nobody knows what became: it may be granted, or still on its way
}

// answer is what a waiting connection brought.
type answer struct {
	reply any
	err   error
}

// limit has the wait end after this time, if it is not negative, and with the context.
func (a *acquisition) limit(wait time.Duration) {
	if wait >= 0 {
		a.limited, a.ends = true, time.Now().Add(wait)
	}
	if deadline, ok := a.ctx.Deadline(); ok && (!a.limited || deadline.Before(a.ends)) {
		a.limited, a.ends = true, deadline
	}
}

// run asks, in turns, until there is an answer that counts.
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

// ask sends the request and waits for its answer, for so long at most.
//
// The request knows nothing of the caller's context: whether the grant or the end of the context was faster is for the
// server to say. When the context ends, the wait is cancelled on another connection, which makes the server answer here.
// The error says that the acquisition was given up so, and nothing is left to do.
func (a *acquisition) ask(conn Conn, to route, block, patience time.Duration) (answer, error) {
	ctx, cancel := a.client.within(a.ctx, patience)
	defer cancel()
	answers, done, enough := make(chan answer, 1), make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(a.ctx, func() {
		defer close(done)
		defer time.AfterFunc(politeness, func() { close(enough) }).Stop()
		defer time.AfterFunc(deadAfter, cancel).Stop() // of a connection that is only being made
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

// ended is why the context of the acquisition has ended: the client was closed, or the caller's context is over.
func (a *acquisition) ended() error {
	if context.Cause(a.ctx) == ErrClosed {
		return a.spec.fail(ErrClosed, "", nil)
	}
	return a.spec.fail(ErrNotAcquired, "", a.ctx.Err())
}

// verdict says how the acquisition ends after an answer that was no grant, or nil if it goes on.
func (a *acquisition) verdict(got answer, block, waited time.Duration) error {
	over := a.limited && !time.Now().Before(a.ends)
	switch {
	case got.err != nil && !passing(got.err):
		return a.spec.wrap(got.err)
	case got.err != nil && over && (a.tries > 1 || waited > lastSlack/4): // one that failed at once was an old connection
		return a.spec.wrap(got.err)
	case got.err != nil:
		return nil
	case over || block == 0 || block == forEver:
		return a.spec.fail(ErrNotAcquired, "", nil)
	case waited < block-10*time.Millisecond: // somebody has ended the wait, by LOCK.CANCEL
		return a.spec.fail(ErrNotAcquired, "", nil)
	}
	return nil
}

// settle makes sure that nothing is left of requests that were not answered, and returns the error. It waits for that
// for two seconds, which count from the end of the time to wait if that is what ended it.
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

// takeBack cancels until the server says that there is nothing left and nothing can come any more: the request that is
// pending, if there is one, has been answered, and those that were lost on their way have had some time to arrive.
func (a *acquisition) takeBack(conn Conn, pending <-chan answer) {
	if a.client.begin() {
		defer a.client.end()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), max(a.spec.lease, politeness))
	defer cancel()
	if conn != nil {
		// A connection that says nothing although its wait was cancelled is dead.
		defer time.AfterFunc(deadAfter, conn.Close).Stop()
	}
	for p, empty := (pause{}), 0; ; {
		complete := pending == nil // before it is asked whether anything is left
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

// part gives the connection back when its answer has come, of which it is known that it is no hold any more.
func part(conn Conn, pending <-chan answer) {
	select {
	case got := <-pending:
		finish(conn, got.err)
	case <-time.After(politeness):
		conn.Close()
	}
}

// cancel ends the wait of an owner, or gives back its hold, and says whether there was one of them.
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
