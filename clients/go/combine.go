package lockso

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
)

// combined is several locks, of one or several clients.
type combined struct {
	spec    *spec
	members []*single
}

func (c *combined) all() []*single { return c.members }

func (c *combined) describe() *spec { return c.spec }

func (c *combined) acquire(ctx context.Context, began time.Time, wait time.Duration) (*Hold, error) {
	return acquireAll(ctx, c.spec, c.members, began, wait)
}

// Combine makes one lock of several, of any kind and of any number of clients and servers: all are held, or none. They are
// acquired one after the other, each with its own options, and its Wait is the shortest of theirs. [Hold.Holds] are their
// holds, with their owners and fencing tokens. If one is lost, or its client is closed, the combined lock is lost.
//
// The order is the same for all programs that use it, so that they do not wait for each other: by the name of the server,
// see [ServerName], in a cluster by the slot, by the smallest key, and by the kind. A deadlock with those
// that acquire their locks in another order is not detected.
func Combine(locks ...*Lock) *Lock {
	s := &spec{kind: "combined lock", wait: noLimit}
	s.require(len(locks) > 0, "Combine: there must be at least one lock")
	c := &combined{spec: s}
	for _, lock := range locks {
		_, redlock := lock.target.(*majority)
		s.require(!redlock, "Combine: a RedLock cannot be combined")
		wrong := lock.target.describe().wrong
		s.require(wrong == "", "%s", wrong)
		c.members = append(c.members, lock.target.all()...)
	}
	for i, member := range c.members {
		one := member.spec
		for _, other := range c.members[:i] {
			same := member.client == other.client && slices.ContainsFunc(one.keys, func(key string) bool { return slices.Contains(other.spec.keys, key) })
			s.require(!same, "Combine: the %s is there twice", one)
		}
		if one.wait >= 0 && (s.wait < 0 || one.wait < s.wait) {
			s.wait = one.wait
		}
		s.keys = append(s.keys, one.keys...)
		s.renew = s.renew || !one.expires()
	}
	return &Lock{c}
}

// all returns one lock for each slot of the keys, if they are in a cluster.
func (l *single) all() []*single {
	if !l.client.core.cluster || !l.spec.multi {
		return []*single{l}
	}
	var all []*single
	bySlot := map[uint16]*spec{}
	for i, key := range l.spec.keys {
		slot := slotOf(key)
		s := bySlot[slot]
		if s == nil {
			one := *l.spec
			one.keys, one.modes = nil, nil
			s = &one
			bySlot[slot] = s
			all = append(all, &single{l.client, s})
		}
		s.keys = append(s.keys, key)
		if l.spec.modes != nil {
			s.modes = append(s.modes, l.spec.modes[i])
		}
	}
	return all
}

// before orders the locks of several servers: the same in all languages.
func before(a, b *single) int {
	slot := func(l *single) uint16 {
		if l.client.core.cluster {
			return slotOf(slices.Min(l.spec.keys))
		}
		return 0
	}
	return cmp.Or(strings.Compare(a.client.core.name, b.client.core.name), cmp.Compare(slot(a), slot(b)),
		strings.Compare(slices.Min(a.spec.keys), slices.Min(b.spec.keys)), strings.Compare(a.spec.kind, b.spec.kind))
}

// errMemberLost ends the wait for a lock when one that is held already is lost.
var errMemberLost = errors.New("a lock was lost while another one was waited for")

// acquireAll acquires all members in their order, or none. If one is lost meanwhile, it begins again, as long as there is
// time left.
func acquireAll(ctx context.Context, s *spec, members []*single, began time.Time, wait time.Duration) (*Hold, error) {
	if s.wrong != "" {
		return nil, s.fail(s.wrong, ErrOption)
	}
	wait = untilDeadline(ctx, began, wait)
	for p := (pause{}); ; {
		g, err := acquireOnce(ctx, s, members, began, wait)
		if err == nil {
			return newHandle(nil, g, g.ctx), nil
		}
		if !errors.Is(err, errMemberLost) {
			return nil, err
		}
		if wait >= 0 && time.Since(began) >= wait {
			return nil, s.notAcquired(wait, errMemberLost, context.DeadlineExceeded)
		}
		delay := p.next()
		if wait >= 0 {
			delay = min(delay, time.Until(began.Add(wait)))
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return nil, s.cancelled(time.Since(began), ctx)
		}
	}
}

// acquireOnce returns errMemberLost if it is to be tried again.
func acquireOnce(ctx context.Context, s *spec, members []*single, began time.Time, wait time.Duration) (*group, error) {
	g := &group{client: members[0].client.core}
	inside, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	for _, member := range slices.SortedFunc(slices.Values(members), before) {
		h, err := member.acquire(inside, began, wait)
		if err != nil {
			if context.Cause(inside) == errMemberLost && ctx.Err() == nil { // before the others are released
				err = errMemberLost
			}
			g.giveUp(began, wait)
			return nil, err
		}
		defer context.AfterFunc(h.held.state().ctx, func() { stop(errMemberLost) })()
		g.holds = append(g.holds, h)
		inside = context.WithValue(inside, enclosing{}, h.ctx.Value(enclosing{}))
	}
	g.begin(s, inside, g.rest)
	for _, h := range g.holds {
		if h.held.state().ended() != nil {
			g.giveUp(began, wait)
			return nil, errMemberLost
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range g.holds {
		f := h.held.state()
		g.unwatch = append(g.unwatch, context.AfterFunc(f.ctx, func() { g.lose(f.ended().Error()) }))
	}
	return g, nil
}

// group is the holds of several locks, which are released together, and lost when one of them is.
type group struct {
	fate
	client  *core
	holds   []*Hold       // in the order of their acquisition
	unwatch []func() bool // a reentrant one may be held for longer; mu is locked for it
}

// rest ends what waits for the ends of the holds. g.mu is locked.
func (g *group) rest() {
	for _, stop := range g.unwatch {
		stop()
	}
}

// giveUp releases what was acquired. What takes longer than an acquisition may be late continues in the background.
func (g *group) giveUp(began time.Time, wait time.Duration) {
	enough := replyTolerance
	if wait >= 0 {
		enough = min(enough, time.Until(began.Add(wait+holdersTolerance)))
	}
	select {
	case <-g.client.background(func() { g.each(context.Background(), unlockOne) }):
	case <-time.After(enough):
	}
}

func unlockOne(ctx context.Context, h *Hold) error { return h.Unlock(ctx) }

// each does something with all holds, the last that was acquired first; one whose server does not reply delays the others
// only for a short time. Its error is that of a hold that was lost, if there is one, otherwise the first.
func (g *group) each(ctx context.Context, do func(context.Context, *Hold) error) (failure error) {
	var all sync.WaitGroup
	errs := make([]error, len(g.holds))
	for i, h := range slices.Backward(g.holds) {
		done := make(chan struct{})
		all.Add(1)
		go func() {
			defer all.Done()
			defer close(done)
			errs[i] = do(ctx, h)
		}()
		select {
		case <-done:
		case <-time.After(tolerance):
		}
	}
	all.Wait()
	for _, err := range slices.Backward(errs) {
		if err != nil && (failure == nil || errors.Is(err, ErrNotHeld) && !errors.Is(failure, ErrNotHeld)) {
			failure = err
		}
	}
	return failure
}

func (g *group) whose() (owner string, token int64) { return g.holds[0].Owner(), 0 }

func (g *group) parts() []*Hold { return slices.Clone(g.holds) }

func (g *group) watchKeys(handle *Hold) {
	g.mu.Lock()
	pinned := g.pin(handle)
	g.mu.Unlock()
	if pinned {
		for _, h := range g.holds {
			h.held.watchKeys(h)
		}
	}
}

func (g *group) guard(context.Context, []string) (any, error) {
	return nil, g.spec.fail("Guard: there are several holds, call it for one of Holds", ErrOption)
}

func (g *group) renewNow(ctx context.Context, lease time.Duration) error {
	for _, h := range g.holds {
		if lease > 0 && h.held.state().spec.session {
			return g.spec.fail("RenewFor: a session has no lease", ErrOption)
		}
	}
	if err := g.ended(); err != nil {
		return err
	}
	return g.each(ctx, func(ctx context.Context, h *Hold) error { return h.held.renewNow(ctx, lease) })
}

func (g *group) unlock(ctx context.Context) error {
	why, err := g.release()
	if err != nil {
		return err
	}
	defer g.released()
	err = g.each(ctx, unlockOne)
	if why != "" {
		return g.spec.notHeld(why)
	}
	return err
}

func (g *group) forget() { forget(g.client, g) }
