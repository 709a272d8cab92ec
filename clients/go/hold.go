package lockso

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
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
	entry     *entry
	ctx       context.Context
	forgotten runtime.Cleanup
}

// entry is one of the acquisitions that share a hold, of which there are several if it is reentrant.
type entry struct {
	left atomic.Bool
	end  func() // of its context
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

	renewing chan struct{} // held by a renewal

	mu       sync.Mutex
	entries  int           // how many acquisitions share it
	lease    time.Duration // from the last renewal on
	released bool
	why      string    // why it is lost, or ""
	absent   bool      // the server has replied that all of it is released or lost
	ends     time.Time // when the lease that the server confirmed last expires
	next     date      // when the lease is renewed or expires
	watches  date      // when the watch begins
	watched  bool
	pinned   []*Hold // the handles without which the program may wait for the loss
}

// newHold creates the hold for a grant, and begins its background work.
func newHold(a *acquisition, g *grant) *hold {
	h := &hold{client: a.client, spec: a.spec, owner: a.owner, lease: a.spec.lease, entries: 1,
		lost: make(chan struct{}), renewing: make(chan struct{}, 1)}
	h.ctx, h.cancel = context.WithCancelCause(h.enclose(context.WithoutCancel(a.ctx)))
	h.next.index, h.watches.index = -1, -1
	if token, ok := g.reply.(int64); ok && a.spec.fenced {
		h.token = token
	}
	if a.unsure {
		h.unsure = a
	}
	// After a wait, the time of the grant is not known. The reply is assumed to have taken at most a tenth of the
	// lease.
	granted := time.Now().Add(-a.spec.lease / 10)
	if g.sent.After(granted) {
		granted = g.sent
	}
	h.ends = granted.Add(h.spec.lease)
	if h.spec.renews() {
		h.plan(granted.Add(h.spec.lease/3), h.renew)
	} else {
		h.plan(h.ends, h.expire)
	}
	if h.spec.session {
		go h.watch(h.spec.keys[0], g.conn, g.to)
	} else {
		g.conn.Keep()
	}
	return h
}

// newHandle makes what the caller gets, with this context. When it is collected, the hold is released, unless its lease
// ends it anyway.
func newHandle(c *Client, h *hold, ctx context.Context) *Hold {
	handle := &Hold{client: c, hold: h, entry: &entry{end: func() {}}, ctx: ctx}
	if !h.spec.expires() {
		entry := handle.entry
		handle.forgotten = runtime.AddCleanup(handle, func(h *hold) {
			if h.leave(entry) {
				h.forget()
			}
		}, h)
	}
	return handle
}

// leave ends an entry, and returns whether it was the last one, so that the lock is to be released.
func (h *hold) leave(e *entry) bool {
	e.left.Store(true)
	e.end()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.entries--
	return h.entries == 0
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
	if !slices.Contains(h.pinned, handle) {
		h.pinned = append(h.pinned, handle)
	}
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
// nor the end of that context. With [Reentrant] it is the context with which the lock is entered again.
func (h *Hold) Context() context.Context {
	h.hold.watchKeys(h)
	return h.ctx
}

// Unlock releases the lock, and the server hands it to the next waiter. It does so even if ctx has ended already. If
// ctx has ended, or ends meanwhile, Unlock waits two seconds at most, and the release continues in the background.
//
// The error is an [Error]: [ErrNotHeld] if the hold was lost or released before; [ErrConnection] if no server has
// replied for as long as the lease lasts, so that the lease expires.
func (h *Hold) Unlock(ctx context.Context) error {
	err := h.hold.exit(ctx, h.entry)
	h.forgotten.Stop() // not before, because the next owner waits; h is kept until here
	runtime.KeepAlive(h)
	return err
}

// exit ends an entry, and releases the lock if it was the last one.
func (h *hold) exit(ctx context.Context, e *entry) error {
	if e.left.Load() {
		return h.spec.notHeld(releasedBefore)
	}
	if h.leave(e) {
		return h.unlock(ctx)
	}
	return h.ended()
}

// ended is the error for a hold that is released or lost, or nil.
func (h *hold) ended() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.why != "":
		return h.spec.notHeld(h.why)
	case h.released:
		return h.spec.notHeld(releasedBefore)
	}
	return nil
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
		return h.spec.notHeld(releasedBefore)
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

// Renew renews the lease now, which is otherwise done after each third of it, unless [NoRenew] was given. For a session it
// checks that the lock is held.
//
// The error is an [Error]: [ErrNotHeld] if the hold was lost or released; others within two seconds, and then the lease
// that was confirmed last counts.
func (h *Hold) Renew(ctx context.Context) error { return h.hold.renewNow(ctx, 0) }

// RenewFor is Renew with another lease, which the hold has from now on. A shorter one counts from the call on, even if its
// error is not nil. A session has no lease: [ErrOption].
func (h *Hold) RenewFor(ctx context.Context, lease time.Duration) error {
	switch {
	case lease <= 0:
		return h.hold.spec.fail(fmt.Sprintf("the lease of RenewFor must be greater than 0, not %v", lease), ErrOption)
	case h.hold.spec.session:
		return h.hold.spec.fail("the lease of RenewFor: a session has none", ErrOption)
	}
	return h.hold.renewNow(ctx, lease)
}

// Guard is LOCK.GUARD: it runs a command, its name and its arguments, if the lock is held at that moment, for several keys
// the first of them. In a cluster the keys of the command must be in the slot of the lock. The reply is what the client
// library makes of it: nil, an int64, a string, an array, or a map of RESP3.
//
// The error is an [Error]: [ErrNotHeld], [ErrRefused], or [ErrConnection], after which the command may have been executed:
// it is not sent again.
func (h *Hold) Guard(ctx context.Context, command ...string) (any, error) {
	if len(command) == 0 {
		return nil, h.hold.spec.fail("the command of Guard must not be empty", ErrOption)
	}
	return h.hold.guard(ctx, command)
}

func (h *hold) guard(ctx context.Context, command []string) (any, error) {
	if err := h.ended(); err != nil {
		return nil, err
	}
	cmd := onKey("LOCK.GUARD", h.spec.keys[0], append([]string{h.owner}, command...)...)
	cmd.Once = true
	reply, err := h.client.request(ctx, h.spec, cmd)
	if codeOf(err) == "NOTHELD" {
		h.lose(reported)
	}
	return reply, err
}

func (h *hold) renewNow(ctx context.Context, lease time.Duration) error {
	if err := h.ended(); err != nil {
		return err
	}
	err := h.renewal(ctx, lease, func(cmd transport.Command) error {
		_, err := h.client.request(ctx, h.spec, cmd)
		return err
	})
	if err == nil {
		err = h.ended()
	}
	return err
}

// renew renews the lease when its time has come.
func (h *hold) renew() {
	h.renewal(h.ctx, 0, func(cmd transport.Command) error { return h.sendRenewal(h.client.call, cmd) })
}

// renewal renews the leases of all keys, from now on with this one if it is not 0, and schedules the next renewal. There
// is one at a time, so that the lease of the last one counts.
func (h *hold) renewal(ctx context.Context, lease time.Duration, send func(transport.Command) error) error {
	select {
	case h.renewing <- struct{}{}:
		defer func() { <-h.renewing }()
	case <-ctx.Done():
		return h.spec.unanswered(ctx)
	case <-h.ctx.Done():
		return h.ended()
	}
	sent := time.Now()
	lease = h.request(sent, lease)
	h.plan(h.leaseEnd(), h.expire) // if there is no reply
	if h.spec.session {
		lease = 0
	}
	err := send(h.spec.renewCommand(h.owner, lease))
	next := time.Now().Add(lease / 10) // not acknowledged by the replicas, or refused: the lease that was confirmed last counts
	switch {
	case err == nil:
		h.confirm(sent, lease)
		next = sent.Add(lease / 3)
	case codeOf(err) == "NOTHELD":
		h.lose(reported)
	}
	if ends := h.leaseEnd(); h.spec.renews() && next.Before(ends) {
		h.plan(next, h.renew)
	} else {
		h.plan(ends, h.expire)
	}
	return err
}

// request records that a renewal with this lease is sent, or with the present one if it is 0, and returns the lease. A
// shorter one counts already, because the reply may be lost.
func (h *hold) request(at time.Time, lease time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if lease == 0 {
		return h.lease
	}
	if lease < h.lease {
		h.lease = lease
		if ends := at.Add(lease); ends.Before(h.ends) {
			h.ends = ends
		}
	}
	return lease
}

// sendRenewal sends with this function, on any connection, or on the one to which a session is to be bound.
func (h *hold) sendRenewal(call func(context.Context, transport.Command) (any, bool, error), cmd transport.Command) error {
	ctx, cancel := context.WithDeadline(h.ctx, h.leaseEnd())
	defer cancel()
	_, _, err := call(ctx, cmd)
	return err
}

// confirm records that the server confirmed the hold at this time, with this lease, or 0 if it is the one that it has.
func (h *hold) confirm(at time.Time, lease time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if lease > 0 {
		h.lease = lease
	}
	if ends := at.Add(h.lease); ends.After(h.ends) {
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
