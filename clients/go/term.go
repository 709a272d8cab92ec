package lockso

import (
	"context"
	"time"
)

// term is a hold with a lease: its renewals, and its end by the client's own clock.
type term struct {
	fate
	agenda   *agenda
	drift    func(lease time.Duration) time.Duration // how much earlier the lease is assumed to end
	renew    func()                                  // when the time has come
	renewing chan struct{}                           // held by a renewal

	// mu is locked for these
	lease time.Duration // from the last renewal on
	ends  time.Time     // when the lease that was confirmed last expires
	next  date          // when it is renewed or expires
}

// start begins the lease, which was granted at this time.
func (t *term) start(agenda *agenda, granted time.Time, drift func(time.Duration) time.Duration, renew func()) {
	t.agenda, t.drift, t.renew, t.renewing = agenda, drift, renew, make(chan struct{}, 1)
	t.lease, t.next.index = t.spec.lease, -1
	t.ends = granted.Add(t.lease - t.drift(t.lease))
	if t.spec.renews() {
		t.plan(granted.Add(t.lease/3), t.renew)
	} else {
		t.plan(t.ends, t.expire)
	}
}

// stop drops what is planned. t.mu is locked.
func (t *term) stop() { t.agenda.drop(&t.next) }

// plan schedules a function for this time, in place of the one before, unless the hold has ended.
func (t *term) plan(at time.Time, what func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holding() {
		t.agenda.set(&t.next, at, what)
	}
}

// renewal renews the leases of all keys, from now on with this one if it is not 0, and schedules the next renewal. There
// is one at a time, so that the lease of the last one counts.
func (t *term) renewal(ctx context.Context, lease time.Duration, send func(lease time.Duration) error) error {
	if err := t.ended(); err != nil {
		return err
	}
	select {
	case t.renewing <- struct{}{}:
		defer func() { <-t.renewing }()
	case <-ctx.Done():
		return t.spec.unanswered(ctx)
	case <-t.ctx.Done():
		return t.ended()
	}
	sent := time.Now()
	lease = t.request(sent, lease)
	t.plan(t.leaseEnd(), t.expire) // if there is no reply
	if t.spec.session {
		lease = 0
	}
	err := send(lease)
	next := time.Now().Add(lease / 10) // not acknowledged by the replicas, or refused: the lease that was confirmed last counts
	switch {
	case err == nil:
		t.confirm(sent, lease)
		next = sent.Add(lease / 3)
	case codeOf(err) == "NOTHELD":
		t.lose(reported)
	}
	if ends := t.leaseEnd(); t.spec.renews() && next.Before(ends) {
		t.plan(next, t.renew)
	} else {
		t.plan(ends, t.expire)
	}
	if err == nil {
		err = t.ended()
	}
	return err
}

// request records that a renewal with this lease is sent, or with the present one if it is 0, and returns the lease. A
// shorter one counts already, because the reply may be lost.
func (t *term) request(at time.Time, lease time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if lease == 0 {
		return t.lease
	}
	if lease < t.lease {
		t.lease = lease
		if ends := at.Add(lease - t.drift(lease)); ends.Before(t.ends) {
			t.ends = ends
		}
	}
	return lease
}

// confirm records that the server confirmed the hold at this time, with this lease, or 0 if it is the one that it has.
func (t *term) confirm(at time.Time, lease time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if lease > 0 {
		t.lease = lease
	}
	if ends := at.Add(t.lease - t.drift(t.lease)); ends.After(t.ends) {
		t.ends = ends
	}
}

func (t *term) leaseEnd() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ends
}

// expire is called when the lease expires. If the lease was renewed meanwhile, it is scheduled again.
func (t *term) expire() {
	if ends := t.leaseEnd(); time.Now().Before(ends) {
		t.plan(ends, t.expire)
	} else {
		t.lose(expired)
	}
}
