package lockso

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"sync"
	"time"

	"lock-so.invalid/lock-so/clients/go/internal/transport"
)

// RedLock makes locks that are held on a majority of independent servers, so that they are available while any minority of
// the servers is not. See docs/redlock.md for what it promises, and for the settings that the servers need.
type RedLock struct {
	clients []*Client
	options spec // of all locks: whether one is invalid

	mu    sync.Mutex
	met   bool        // whether all servers had time to be identified
	known []*identity // of each server, as far as it is known
}

// mostSeen limits identity.seen.
const mostSeen = 100

// identity is what distinguishes servers.
type identity struct {
	address string
	run     string   // its run id, or "" if the user may not know it
	nodes   []string // of its cluster
	seen    []int64  // the numbers of the connections on which it was identified, the last ones
}

// NewRedLock makes locks on the servers of at least three clients, each of a server or of Sentinel; otherwise each
// acquisition returns [ErrOption]. All programs must name the same servers. That they are independent is checked when they
// are connected: see [RedLock.Lock].
func NewRedLock(clients ...*Client) *RedLock {
	r := &RedLock{clients: slices.Clone(clients), known: make([]*identity, len(clients))}
	r.options.require(len(clients) >= 3, "a RedLock needs at least 3 servers, not %d", len(clients))
	for i, client := range clients {
		r.options.require(!client.core.cluster, "a RedLock needs independent servers, and %s is a cluster", client.core.name)
		r.options.require(!slices.Contains(clients[:i], client), "a RedLock needs different servers, and %s is there twice", client.core.name)
	}
	return r
}

// Lock is LOCK.ACQUIRE on a majority of the servers, with a lease of 10 seconds by default, and a fencing token,
// [Hold.Token], which is the largest one that they granted. Its other options are [Wait] and [NoRenew].
//
// A waiter tries again at random intervals. Errors are those of any lock: [ErrConnection] if no majority replied for
// [ConnectTimeout], also after it did before; [ErrRefused] if a majority refuses; and [ErrOption] if two clients lead to the
// same server or to one cluster, or one to a replica. A loss is noticed by the next renewal, at the latest when the lease
// ends by the client's clock, which stops while the machine is suspended.
func (r *RedLock) Lock(key string, options ...Option) *Lock {
	s := &spec{kind: "RedLock", command: "LOCK.ACQUIRE", wrong: r.options.wrong}
	s.configure([]string{key}, append([]Option{Lease(10 * time.Second), Fenced()}, options...))
	s.require(!s.session && s.replicas == 0 && !s.again, "a RedLock has only the options Lease, Wait and NoRenew")
	m := &majority{red: r, spec: s}
	for _, client := range r.clients {
		m.members = append(m.members, &single{client, s})
	}
	return &Lock{m}
}

// identify checks, on a new connection to one of the servers, that it is a master, and none of the others.
func (r *RedLock) identify(ctx context.Context, i int, conn transport.Conn, s *spec) error {
	r.mu.Lock()
	known, number := r.known[i], conn.Number()
	r.mu.Unlock()
	if known != nil && slices.Contains(known.seen, number) {
		return nil
	}
	one := &identity{address: r.clients[i].core.backend.Address(s.keys[0])}
	hello, err := inquire(ctx, conn, "HELLO")
	if err != nil {
		return err
	}
	if role := text(hello, "role"); role != "" && role != "master" {
		return s.fail(fmt.Sprintf("%s: %s is a replica", s, one.address), ErrOption)
	}
	info, err := inquire(ctx, conn, "INFO", "server")
	if err != nil {
		return err
	}
	one.run = runID.FindString(fmt.Sprint(info))
	if text(hello, "mode") == "cluster" {
		nodes, err := inquire(ctx, conn, "CLUSTER", "NODES")
		if err != nil {
			return err
		}
		one.nodes = nodeID.FindAllString(fmt.Sprint(nodes), -1)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, other := range r.known {
		switch {
		case k == i || other == nil:
		case one.run != "" && one.run == other.run:
			return s.fail(fmt.Sprintf("%s: %s and %s are the same server", s, other.address, one.address), ErrOption)
		case slices.ContainsFunc(one.nodes, func(node string) bool { return slices.Contains(other.nodes, node) }):
			return s.fail(fmt.Sprintf("%s: %s and %s are nodes of one cluster", s, other.address, one.address), ErrOption)
		}
	}
	if known := r.known[i]; known != nil && known.run == one.run {
		one.seen = known.seen[max(0, len(known.seen)-mostSeen):]
	}
	one.seen = append(slices.Clone(one.seen), number)
	r.known[i] = one
	return nil
}

var (
	runID  = regexp.MustCompile(`run_id:[0-9a-f]+`)
	nodeID = regexp.MustCompile(`[0-9a-f]{40}`)
)

// inquire returns nil if the user may not know the reply.
func inquire(ctx context.Context, conn transport.Conn, words ...string) (any, error) {
	reply, err := conn.Do(ctx, transport.Command{Args: words})
	if codeOf(err) == "NOPERM" {
		return nil, nil
	}
	return reply, err
}

// meet identifies all servers before they are used for the first time. It returns false if they are not independent. A
// server that does not reply in time is identified when it is connected.
func (r *RedLock) meet(c *campaign, q *quorum) bool {
	r.mu.Lock()
	met := r.met
	r.mu.Unlock()
	if met {
		return true
	}
	by := c.roundEnd()
	if c.limits.limited { // what is left is for the request
		by = by.Add(-time.Until(by) / 2)
	}
	q.ask(c.ctx, by, (*vote).meet, func() bool { return false })
	if _, refused, _ := q.count(); errors.Is(refused, ErrOption) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.met = true
	return true
}

// forget makes the next connection to this server identify it again.
func (r *RedLock) forget(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[i] = nil
}

// majority is what a RedLock acquires.
type majority struct {
	red     *RedLock
	spec    *spec
	members []*single
}

func (m *majority) all() []*single { return m.members }

func (m *majority) describe() *spec { return m.spec }

// replyWithin is how long a server has to reply, so that one that does not respond does not use up the lease.
func replyWithin(lease time.Duration) time.Duration {
	return max(20*time.Millisecond, min(lease/20, time.Second))
}

func (m *majority) acquire(ctx context.Context, began time.Time, wait time.Duration) (*Hold, error) {
	if m.spec.wrong != "" {
		return nil, m.spec.fail(m.spec.wrong, ErrOption)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var entered []*acquisition // one for each client, so that its Close ends this one
	leave := func(h anyHold) bool {
		open := true
		for _, a := range entered {
			open = a.client.leave(a, h) && open
		}
		return open
	}
	for _, member := range m.members {
		a, err := newAcquisition(ctx, member.client.core, m.spec)
		if err != nil {
			leave(nil)
			return nil, err
		}
		defer a.cancel(nil)
		one := a.ctx
		context.AfterFunc(one, func() { cancel(context.Cause(one)) })
		a.ctx = ctx
		a.limit(began, wait)
		entered = append(entered, a)
	}
	c := &campaign{majority: m, limits: entered[0], ctx: ctx, replied: time.Now()}
	c.connecting, c.hangUp = context.WithCancel(context.Background())
	for range m.members {
		c.turns = append(c.turns, make(chan struct{}, 1))
	}
	q, err := c.run()
	if err != nil {
		c.hangUp()
		leave(nil)
		return nil, err
	}
	if !leave(q) {
		return nil, m.spec.closed()
	}
	return newHandle(nil, q, q.ctx), nil
}

// campaign is one attempt after the other to acquire a RedLock.
type campaign struct {
	*majority
	limits  *acquisition // for its limits: it sends nothing
	ctx     context.Context
	replied time.Time       // when a majority replied last, or when it began
	turns   []chan struct{} // of the servers, so that one that does not respond has one connection, and not one of each round

	// Of what connects: it ends with the campaign, or when the release of its lock begins, because nobody needs it any more.
	connecting context.Context
	hangUp     context.CancelFunc
}

func (c *campaign) run() (*quorum, error) {
	for {
		q := newQuorum(c)
		if c.red.meet(c, q) && q.elect(c.ctx, c.roundEnd()) {
			return q, nil
		}
		q.giveUp()
		if err := c.verdict(q); err != nil {
			return nil, err
		}
		pause := 20*time.Millisecond + rand.N(180*time.Millisecond)
		if c.limits.limited {
			pause = min(pause, time.Until(c.limits.ends))
		}
		select {
		case <-time.After(pause):
		case <-c.ctx.Done():
		}
		if c.ctx.Err() != nil || c.limits.timedOut() {
			return nil, c.limits.failure()
		}
	}
}

// roundEnd is until when the replies of a round are waited for.
func (c *campaign) roundEnd() time.Time {
	end := time.Now().Add(replyWithin(c.spec.lease))
	if c.limits.limited && c.limits.replyBy.Before(end) {
		end = c.limits.replyBy
	}
	return end
}

// verdict returns the error with which the campaign ends after a round that was not won, or nil if it continues.
func (c *campaign) verdict(q *quorum) error {
	replies, refused, err := q.count()
	c.limits.cause, c.limits.who = nil, q.holders
	if replies >= q.most() {
		c.replied = time.Now()
	} else {
		c.limits.cause = cmp.Or(err, error(context.DeadlineExceeded))
	}
	switch {
	case refused != nil:
		return refused
	case c.ctx.Err() != nil, c.limits.timedOut(), time.Since(c.replied) >= c.limits.client.connectTimeout:
		return c.limits.failure()
	}
	return nil
}
