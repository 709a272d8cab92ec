package lockso

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"lockso/internal/transport"
)

// Hold is a granted lock, until it is released or lost. Many goroutines may use it at once.
//
// Keep it until you call Unlock: a hold that is no longer reachable is released, with a warning in the log. This does not
// concern a hold whose Lost or Context was called, and one with [NoRenew].
type Hold struct {
	client    *Client // so that it is not collected
	hold      *hold
	forgotten runtime.Cleanup
}

// hold is what the background work of a hold refers to.
type hold struct {
	client *core
	spec   *spec
	owner  string
	token  int64
	ctx    context.Context // of the work under the lock, and of the background work: renewals, watches
	cancel context.CancelCauseFunc
	unsure *acquisition // if the reply to one of its requests was lost, which may still arrive at the server
	lost   chan struct{}

	mu       sync.Mutex
	released bool
	why      string    // why it is lost, or ""
	absent   bool      // the server has replied that all of it is released or lost
	ends     time.Time // when the lease that the server confirmed last expires
	next     date      // when the lease is renewed or expires
	watches  date      // when the watch begins
	watched  bool
	pinned   *Hold // the handle, if the program may wait for the loss without it
}

// newHold creates the hold for a grant, and begins its background work. The request was sent at this time.
func newHold(a *acquisition, conn transport.Conn, to route, reply any, sent time.Time) *hold {
	h := &hold{client: a.client, spec: a.spec, owner: a.owner, lost: make(chan struct{})}
	h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(a.ctx))
	h.next.index, h.watches.index = -1, -1
	if token, ok := reply.(int64); ok && a.spec.fenced {
		h.token = token
	}
	if a.unsure {
		h.unsure = a
	}
	// After a wait, the time of the grant is not known. The reply is assumed to have taken at most a tenth of the
	// lease.
	granted := time.Now().Add(-a.spec.lease / 10)
	if sent.After(granted) {
		granted = sent
	}
	h.ends = granted.Add(h.spec.lease)
	if h.spec.renew && !h.spec.session {
		h.plan(granted.Add(h.spec.lease/3), h.renew)
	} else {
		h.plan(h.ends, h.expire)
	}
	if h.spec.session {
		go h.watch(h.spec.keys[0], conn, to)
	} else {
		conn.Keep()
	}
	return h
}

// newHandle makes what the caller gets. When it is collected, the hold is released, unless its lease ends it anyway.
func newHandle(c *Client, h *hold) *Hold {
	handle := &Hold{client: c, hold: h}
	if !h.spec.expires() {
		handle.forgotten = runtime.AddCleanup(handle, (*hold).forget, h)
	}
	return handle
}

// forget releases a hold that the program cannot release any more.
func (h *hold) forget() {
	if h.spec.expires() {
		return
	}
	forgotten := h.lose("it was never released")
	h.client.background(func() {
		if forgotten {
			h.client.warn(h.spec.String() + " was never released; it is released now")
		}
		h.unlock(context.Background())
	})
}

// watchKeys makes the server report a loss, from now on until the hold ends. It uses a connection for each key; that of
// a session is watched anyway. A hold that is released after a short time needs no watch. The handle is not collected
// until then.
func (h *hold) watchKeys(handle *Hold) {
	keys := h.spec.keys
	if h.spec.session {
		keys = keys[1:]
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released || h.why != "" {
		return
	}
	h.pinned = handle
	if h.watched || len(keys) == 0 {
		return
	}
	h.watched = true
	h.client.agenda.set(&h.watches, time.Now().Add(unwatched), func() {
		for _, key := range keys {
			go h.watch(key, nil, route{})
		}
	})
}

// Owner is the name of the owner, host:pid:random: LOCK.INFO shows it, and it is an argument of LOCK.GUARD.
func (h *Hold) Owner() string { return h.hold.owner }

// Keys are the keys of the lock. The slice must not be changed.
func (h *Hold) Keys() []string { return h.hold.spec.keys }

// Token is the fencing token, or 0 without [Fenced].
func (h *Hold) Token() int64 { return h.hold.token }

// Lost makes the server report a loss within milliseconds, for which the hold uses a connection for each key from then
// on, as [Hold.Context] and [Lock.Do] do; otherwise a loss is noticed by the next renewal. The channel is closed when the
// hold is known to be lost, or when its lease has expired and the server could not be reached. Unlock does not close it.
func (h *Hold) Lost() <-chan struct{} {
	h.hold.watchKeys(h)
	return h.hold.lost
}

// Context makes the server report a loss, as [Hold.Lost] does. The context ends when the hold is lost, with [ErrNotHeld] as
// its cause, and when it is released. It has the values of the context that was given to Lock, but neither the deadline
// nor the end of that context.
func (h *Hold) Context() context.Context {
	h.hold.watchKeys(h)
	return h.hold.ctx
}

// Unlock releases the lock, and the server hands it to the next waiter. It does so even if ctx has ended already. If
// ctx has ended, or ends meanwhile, Unlock waits two seconds at most, and the release continues in the background.
//
// The error is an [Error]: [ErrNotHeld] if the hold was lost or released before; [ErrConnection] if no server has
// replied for as long as the lease lasts, so that the lease expires.
func (h *Hold) Unlock(ctx context.Context) error {
	err := h.hold.unlock(ctx)
	h.forgotten.Stop() // not before, because the next owner waits; h is kept until here
	runtime.KeepAlive(h)
	return err
}

func (h *hold) unlock(ctx context.Context) error {
	if h.client.begin() {
		defer h.client.end()
	}
	h.mu.Lock()
	again, why := h.released, h.why
	h.released = true
	ends := h.ends
	h.mu.Unlock()
	if again {
		return h.spec.notHeld("it was released before")
	}
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.finish(context.Canceled)
	}()
	// The first attempt is made here, because to start a goroutine takes as long as the server takes to reply.
	err := h.release(closeTimeout, false, why)
	if err == nil || errors.Is(err, ErrNotHeld) || !passing(err) {
		return err
	}
	result := make(chan error, 1)
	h.client.background(func() { result <- h.release(max(time.Until(ends), transport.ShortWithin), true, why) })
	select {
	case err = <-result:
	case <-ctx.Done():
	}
	return err
}

// release sends the command until it has a reply, for within at most. If it is sent again, NOTHELD means that the first
// one was executed, unless the hold was known to be lost before: why.
func (h *hold) release(within time.Duration, resent bool, why string) error {
	ctx, cancel := h.client.within(h.ctx, within)
	defer cancel()
	_, again, err := h.client.call(ctx, h.spec.releaseCommand(h.owner))
	if err != nil && codeOf(err) != "NOTHELD" {
		return h.spec.wrap(err, h.client.backend.Address(h.spec.keys[0]))
	}
	h.mu.Lock()
	h.absent = err == nil || !h.spec.multi
	h.mu.Unlock()
	if h.unsure != nil {
		h.client.background(func() { h.unsure.giveUp(nil, nil) })
	}
	if why == "" && (err == nil || resent || again) {
		return nil
	}
	if err == nil {
		return h.spec.notHeld(why)
	}
	if h.spec.multi { // one of the keys was lost: the others are released one by one
		for i := range h.spec.keys {
			h.client.call(ctx, h.spec.releaseOne(i, h.owner))
		}
	}
	if why == "" {
		why = reported
	}
	e := h.spec.notHeld(why, err)
	e.Code = "NOTHELD"
	return e
}

// plan schedules a function for this time, in place of the one before, unless the hold has ended.
func (h *hold) plan(at time.Time, what func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.released && h.why == "" {
		h.client.agenda.set(&h.next, at, what)
	}
}

// renew renews the leases of all keys, and schedules the next renewal.
func (h *hold) renew() {
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
		h.lose(reported)
	case again.Before(ends): // not acknowledged by the replicas, or refused: the lease that was confirmed last counts
		h.plan(again, h.renew)
	}
}

// renewOn renews with this function, which sends on any connection, or on the one to which a session is to be bound.
func (h *hold) renewOn(call func(context.Context, transport.Command) (any, bool, error)) error {
	ctx, cancel := context.WithDeadline(h.ctx, h.leaseEnd())
	defer cancel()
	_, _, err := call(ctx, h.spec.renewCommand(h.owner))
	return err
}

// confirm records that the server confirmed the hold at this time, with a full lease.
func (h *hold) confirm(at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ends := at.Add(h.spec.lease); ends.After(h.ends) {
		h.ends = ends
	}
}

func (h *hold) leaseEnd() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ends
}

// expire is called when the lease expires. If the lease was renewed meanwhile, it is scheduled again.
func (h *hold) expire() {
	if ends := h.leaseEnd(); time.Now().Before(ends) {
		h.plan(ends, h.expire)
	} else {
		h.lose("its lease expired")
	}
}

// lose reports the loss of the hold, once, and never after Unlock was called. It returns whether it did.
func (h *hold) lose(why string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.absent = h.absent || why == reported && !h.spec.multi
	if h.released || h.why != "" {
		return false
	}
	h.why = why
	h.finish(h.spec.notHeld(why))
	close(h.lost) // last: when a caller receives from it, the rest is done
	return true
}

// finish ends the background work of the hold. h.mu is locked.
func (h *hold) finish(cause error) {
	h.client.agenda.drop(&h.next)
	h.client.agenda.drop(&h.watches)
	h.client.remove(h)
	h.pinned = nil
	h.cancel(cause) // the first cause counts
}
