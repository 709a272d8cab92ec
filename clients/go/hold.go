package lockso

import (
	"context"
	"errors"
	"time"

	"lock-so.invalid/lock-so/clients/go/internal/transport"
)

// hold is what the background work of a hold refers to.
type hold struct {
	term   // its context is also that of the background work: renewals, watches
	client *core
	owner  string
	token  int64
	unsure *acquisition // if the reply to one of its requests was lost, which may still arrive at the server

	// mu is locked for these
	absent  bool // the server has replied to the release that nothing is left
	watches date // when the watch begins
	watched bool
}

// newHold creates the hold for a grant, and begins its background work.
func newHold(a *acquisition, g *grant) *hold {
	h := &hold{client: a.client, owner: a.owner}
	h.begin(a.spec, h.enclose(a.ctx, a.spec), h.rest)
	h.watches.index = -1
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
	h.start(&a.client.agenda, granted, noDrift, h.renew)
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
	forget(h.client, h)
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
		return h.spec.fail("RenewFor: a session has no lease", ErrOption)
	}
	return h.renewal(ctx, lease, func(lease time.Duration) error {
		_, err := h.client.request(ctx, h.spec, h.spec.renewCommand(h.owner, lease))
		return err
	})
}

// renew renews the lease when its time has come.
func (h *hold) renew() {
	h.renewal(h.ctx, 0, func(lease time.Duration) error {
		return h.sendRenewal(h.client.call, h.spec.renewCommand(h.owner, lease))
	})
}

// sendRenewal sends with this function, on any connection, or on the one to which a session is to be bound.
func (h *hold) sendRenewal(call func(context.Context, transport.Command) (any, bool, error), cmd transport.Command) error {
	ctx, cancel := context.WithDeadline(h.ctx, h.leaseEnd())
	defer cancel()
	_, _, err := call(ctx, cmd)
	return err
}

// rest ends the background work. h.mu is locked.
func (h *hold) rest() {
	h.stop()
	h.client.agenda.drop(&h.watches)
	h.client.remove(h)
}

func (h *hold) whose() (owner string, token int64) { return h.owner, h.token }

func (h *hold) parts() []*Hold { return nil }

func noDrift(time.Duration) time.Duration { return 0 }
