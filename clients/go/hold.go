package lockso

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Hold is a lock that was granted, until it is released or lost. Many goroutines may use it at once.
type Hold struct {
	client *Client
	spec   *spec
	owner  string
	token  int64

	ctx    context.Context // of the work under the lock, and of what goes on behind it: renewing, watching
	cancel context.CancelCauseFunc
	lost   chan struct{}

	mu       sync.Mutex
	released bool
	isLost   bool
	ends     time.Time // the lease, as far as the server has confirmed it
	next     date      // when the lease is renewed, or over
}

// newHold begins to look after what was granted by the reply to a request that was sent at this time.
func newHold(a *acquisition, conn Conn, to route, reply any, asked time.Time) *Hold {
	h := &Hold{client: a.client, spec: a.spec, owner: a.owner, lost: make(chan struct{})}
	h.next.index = -1
	if token, ok := reply.(int64); ok && a.spec.fenced {
		h.token = token
	}
	h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(a.ctx))
	// When it was granted after a wait is not known; that its reply took longer than a tenth of the lease is not assumed.
	granted := time.Now().Add(-a.spec.lease / 10)
	if asked.After(granted) {
		granted = asked
	}
	h.ends = granted.Add(h.spec.lease)
	if h.spec.renew && !h.spec.session {
		h.plan(granted.Add(h.spec.lease/3), h.renew)
	} else {
		h.plan(h.ends, h.expire)
	}
	h.watchAll(conn, to)
	return h
}

// watchAll watches the keys if that was asked for, and a session's connection, which goes back otherwise.
func (h *Hold) watchAll(conn Conn, to route) {
	watched := h.spec.keys
	if h.spec.session {
		go h.watch(h.spec.keys[0], conn, to)
		watched = watched[1:]
	} else {
		conn.Keep()
	}
	if h.spec.watch {
		for _, key := range watched {
			go h.watch(key, nil, route{})
		}
	}
}

// Owner is the name under which the lock is held, a random one: what LOCK.INFO shows, and LOCK.GUARD takes.
func (h *Hold) Owner() string { return h.owner }

// Keys are the keys of the lock. They are not to be changed.
func (h *Hold) Keys() []string { return h.spec.keys }

// Token is the fencing token, or 0 without [Fenced].
func (h *Hold) Token() int64 { return h.token }

// Lost is closed when it is known that the hold was lost, or that it may be as its lease is over and the server could not
// be asked. It is not closed by Unlock.
func (h *Hold) Lost() <-chan struct{} { return h.lost }

// Context ends when the hold is lost, with [ErrNotHeld] as its cause, and when it is released. It has the values of the
// context that the lock was asked for with, but neither its deadline nor its end.
func (h *Hold) Context() context.Context { return h.ctx }

// Unlock releases the lock, and hands it to who waits for it. It does so also if ctx is over already: then, and when it
// ends meanwhile, Unlock waits two seconds at most, and the release goes on in the background.
//
// The error is an [Error]: [ErrNotHeld] if the hold had been lost before, or released; [ErrConnection] if no server has
// answered for as long as the lease lasts, so that it ends by itself.
func (h *Hold) Unlock(ctx context.Context) error {
	h.mu.Lock()
	again, wasLost := h.released, h.isLost
	h.released = true
	ends := h.ends
	h.mu.Unlock()
	if again {
		return h.spec.fail(ErrNotHeld, "", nil)
	}
	defer h.finish(context.Canceled)
	// The first try is made here, as handing over to a goroutine costs as much time as the server takes to answer.
	err := h.release(politeness, false, wasLost)
	if !errors.Is(err, ErrConnection) {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- h.release(max(time.Until(ends), patience), true, wasLost) }()
	select {
	case err = <-done:
	case <-ctx.Done():
	}
	return err
}

// release sends the command until it is answered, for so long at most. One that is sent again is answered NOTHELD if the
// first one was carried out, but it was a loss if that was known before.
func (h *Hold) release(within time.Duration, resent, wasLost bool) error {
	if h.client.begin() {
		defer h.client.end()
	}
	ctx, cancel := h.client.within(h.ctx, within)
	defer cancel()
	_, again, err := h.client.call(ctx, h.spec.releaseCommand(h.owner))
	switch {
	case err == nil && wasLost:
		return h.spec.fail(ErrNotHeld, "", nil)
	case err == nil:
		return nil
	case codeOf(err) != "NOTHELD":
		return h.spec.wrap(err)
	case (resent || again) && !wasLost:
		return nil
	}
	if h.spec.multi { // one of them is gone: the others are released each by itself
		for _, key := range h.spec.keys {
			h.client.call(ctx, onKey("LOCK.RELEASE", key, h.owner))
		}
	}
	return h.spec.wrap(err)
}

// plan has something done at this time, instead of what was planned before, unless the hold is over.
func (h *Hold) plan(at time.Time, what func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.released && !h.isLost {
		h.client.agenda.set(&h.next, at, what)
	}
}

// renew asks for a new lease of each key, and sees to the next time.
func (h *Hold) renew() {
	sent := time.Now()
	ends := h.leaseEnd()
	h.plan(ends, h.expire) // should there be no answer
	err := h.renewOn(h.client.call)
	again := time.Now().Add(h.spec.lease / 10)
	switch {
	case err == nil:
		h.confirm(sent)
		h.plan(sent.Add(h.spec.lease/3), h.renew)
	case codeOf(err) == "NOTHELD":
		h.lose()
	case again.Before(ends): // not acknowledged by the replicas, or refused: the last lease counts
		h.plan(again, h.renew)
	}
}

// renewOn renews by this way of sending commands: any connection, or that to which a session is to be bound.
func (h *Hold) renewOn(call func(context.Context, Command) (any, bool, error)) error {
	ctx, cancel := context.WithDeadline(h.ctx, h.leaseEnd())
	defer cancel()
	for _, key := range h.spec.keys {
		if _, _, err := call(ctx, h.spec.renewCommand(key, h.owner)); err != nil {
			return err
		}
	}
	return nil
}

// confirm notes that the server had the hold at this time, with a lease that was new.
func (h *Hold) confirm(at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ends := at.Add(h.spec.lease); ends.After(h.ends) {
		h.ends = ends
	}
}

func (h *Hold) leaseEnd() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ends
}

// expire is called at the end of the lease, unless that was moved meanwhile.
func (h *Hold) expire() {
	if ends := h.leaseEnd(); time.Now().Before(ends) {
		h.plan(ends, h.expire)
	} else {
		h.lose()
	}
}

// lose tells everybody that the hold is lost, once, and never after Unlock was called.
func (h *Hold) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released || h.isLost {
		return
	}
	h.isLost = true
	h.finish(h.spec.fail(ErrNotHeld, "", nil))
	close(h.lost) // last: who sees it finds the rest done
}

// finish ends what goes on behind the hold.
func (h *Hold) finish(cause error) {
	h.client.agenda.drop(&h.next)
	h.cancel(cause)
}
