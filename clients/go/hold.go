package lockso

import (
	"context"
	"errors"
	"time"

	"lockso/internal/transport"
)

// hold is what the background work of a hold refers to.
type hold struct {
	fate     // its context is also that of the background work: renewals, watches
	client   *core
	owner    string
	token    int64
	unsure   *acquisition  // if the reply to one of its requests was lost, which may still arrive at the server
	renewing chan struct{} // held by a renewal

	// mu is locked for these too
	lease   time.Duration // from the last renewal on
	absent  bool          // the server has replied that all of it is released or lost
	ends    time.Time     // when the lease that the server confirmed last expires
	next    date          // when the lease is renewed or expires
	watches date          // when the watch begins
	watched bool
}

// newHold creates the hold for a grant, and begins its background work.
func newHold(a *acquisition, g *grant) *hold {
	h := &hold{client: a.client, owner: a.owner, lease: a.spec.lease, renewing: make(chan struct{}, 1)}
	h.begin(a.spec, h.enclose(a.ctx, a.spec), h.rest)
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

// forget releases a hold that the program cannot release any more.
func (h *hold) forget() {
	if h.spec.expires() {
		return
	}
	forgotten := h.lose(neverReleased)
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
	if !h.pin(handle) || h.watched || len(keys) == 0 {
		return
	}
	h.watched = true
	h.client.agenda.set(&h.watches, time.Now().Add(unwatched), func() {
		for _, key := range keys {
			go h.watch(key, nil, route{})
		}
	})
}

func (h *hold) unlock(ctx context.Context) error {
	if h.client.begin() {
		defer h.client.end()
	}
	why, err := h.release()
	if err != nil {
		return err
	}
	defer h.released()
	ends := h.leaseEnd()
	// The first attempt is made here, because to start a goroutine takes as long as the server takes to reply.
	err = h.releaseWithin(closeTimeout, false, why)
	if err == nil || errors.Is(err, ErrNotHeld) || !passing(err) {
		return err
	}
	result := make(chan error, 1)
	h.client.background(func() { result <- h.releaseWithin(max(time.Until(ends), transport.ShortWithin), true, why) })
	select {
	case err = <-result:
	case <-ctx.Done():
	}
	return err
}

// releaseWithin sends the command until it has a reply, for within at most. If it is sent again, NOTHELD means that the first
// one was executed, unless the hold was known to be lost before: why.
func (h *hold) releaseWithin(within time.Duration, resent bool, why string) error {
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
	if h.holding() {
		h.client.agenda.set(&h.next, at, what)
	}
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
	if lease > 0 && h.spec.session {
		return h.spec.fail("the lease of RenewFor: a session has none", ErrOption)
	}
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
	h.absent = h.absent || why == reported && !h.spec.multi
	h.mu.Unlock()
	return h.fate.lose(why)
}

// rest ends the background work. h.mu is locked.
func (h *hold) rest() {
	h.client.agenda.drop(&h.next)
	h.client.agenda.drop(&h.watches)
	h.client.remove(h)
}

func (h *hold) whose() (owner string, token int64) { return h.owner, h.token }

func (h *hold) parts() []*Hold { return nil }
