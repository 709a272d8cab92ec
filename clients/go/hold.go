package lockso

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Hold is a granted lock, until it is released or lost. Many goroutines may use it at once.
type Hold struct {
	client *Client
	spec   *spec
	owner  string
	token  int64

	ctx    context.Context // of the work under the lock, and of the background work: renewals, watches
	cancel context.CancelCauseFunc
	lost   chan struct{}

	mu       sync.Mutex
	released bool
	isLost   bool
	ends     time.Time // when the lease that the server confirmed last expires
	next     date      // when the lease is renewed or expires
}

// newHold creates the hold for a grant, and begins its background work. The request was sent at asked.
func newHold(a *acquisition, conn Conn, to route, reply any, asked time.Time) *Hold {
	h := &Hold{client: a.client, spec: a.spec, owner: a.owner, lost: make(chan struct{})}
	h.next.index = -1
	if token, ok := reply.(int64); ok && a.spec.fenced {
		h.token = token
	}
	h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(a.ctx))
	// After a wait, the time of the grant is not known. The reply is assumed to have taken at most a tenth of the
	// lease.
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

// watchAll watches the keys if [Watch] was given, and the connection of a session. Without a session it gives the
// connection back.
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

// Owner is the random name of the owner: LOCK.INFO shows it, and it is an argument of LOCK.GUARD.
func (h *Hold) Owner() string { return h.owner }

// Keys are the keys of the lock. The slice must not be changed.
func (h *Hold) Keys() []string { return h.spec.keys }

// Token is the fencing token, or 0 without [Fenced].
func (h *Hold) Token() int64 { return h.token }

// Lost is closed when the hold is known to be lost, or when its lease has expired and the server could not be reached.
// Unlock does not close it.
func (h *Hold) Lost() <-chan struct{} { return h.lost }

// Context ends when the hold is lost, with [ErrNotHeld] as its cause, and when it is released. It has the values of the
// context that was given to Lock, but neither the deadline nor the end of that context.
func (h *Hold) Context() context.Context { return h.ctx }

// Unlock releases the lock, and the server hands it to the next waiter. It does so even if ctx has ended already. If
// ctx has ended, or ends meanwhile, Unlock waits two seconds at most, and the release continues in the background.
//
// The error is an [Error]: [ErrNotHeld] if the hold was lost or released before; [ErrConnection] if no server has
// replied for as long as the lease lasts, so that the lease expires.
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
	// The first attempt is made here, because to start a goroutine takes as long as the server takes to reply.
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

// release sends the command until it has a reply, for within at most. If it is sent again, NOTHELD means that the first
// one was executed, unless the hold was known to be lost before.
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
	if h.spec.multi { // one of the keys was lost: the others are released one by one
		for _, key := range h.spec.keys {
			h.client.call(ctx, onKey("LOCK.RELEASE", key, h.owner))
		}
	}
	return h.spec.wrap(err)
}

// plan schedules a function for this time, in place of the one before, unless the hold has ended.
func (h *Hold) plan(at time.Time, what func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.released && !h.isLost {
		h.client.agenda.set(&h.next, at, what)
	}
}

// renew renews the lease of each key, and schedules the next renewal.
func (h *Hold) renew() {
	sent := time.Now()
	ends := h.leaseEnd()
	h.plan(ends, h.expire) // if there is no reply
	err := h.renewOn(h.client.call)
	again := time.Now().Add(h.spec.lease / 10)
	switch {
	case err == nil:
		h.confirm(sent)
		h.plan(sent.Add(h.spec.lease/3), h.renew)
	case codeOf(err) == "NOTHELD":
		h.lose()
	case again.Before(ends): // not acknowledged by the replicas, or refused: the lease that was confirmed last counts
		h.plan(again, h.renew)
	}
}

// renewOn renews with this function, which sends on any connection, or on the one to which a session is to be bound.
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

// confirm records that the server confirmed the hold at this time, with a full lease.
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

// expire is called when the lease expires. If the lease was renewed meanwhile, it is scheduled again.
func (h *Hold) expire() {
	if ends := h.leaseEnd(); time.Now().Before(ends) {
		h.plan(ends, h.expire)
	} else {
		h.lose()
	}
}

// lose reports the loss of the hold, once, and never after Unlock was called.
func (h *Hold) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released || h.isLost {
		return
	}
	h.isLost = true
	h.finish(h.spec.fail(ErrNotHeld, "", nil))
	close(h.lost) // last: when a caller receives from it, the rest is done
}

// finish ends the background work of the hold.
func (h *Hold) finish(cause error) {
	h.client.agenda.drop(&h.next)
	h.cancel(cause)
}
