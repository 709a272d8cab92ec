package lockso

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"lock-so.invalid/lock-so/clients/go/internal/transport"
)

// quorum is the hold of a RedLock, and each round to get one, with an owner of its own.
type quorum struct {
	term
	red    *RedLock
	client *core // whose agenda and log it uses
	owner  string
	token  int64
	votes  []*vote

	connecting context.Context // see campaign
	hangUp     context.CancelFunc

	// mu is locked for these
	rounds  int           // of renewals
	longest time.Duration // of the leases that were requested
}

// vote is what one server has replied to the owner. Its requests are sent on one connection, one at a time, so that the
// server reads a release after the request for the lock, however late.
type vote struct {
	quorum *quorum
	index  int
	client *core

	turn   chan struct{} // held while a request is in progress, also of the rounds before, and for these
	conn   transport.Conn
	asked  bool // the request for the lock may have arrived at the server
	unsure bool // a connection was lost with a request on it

	// quorum.mu is locked for these
	granted bool
	steady  bool // it has held the lock all the time, as far as is known
	token   int64
	renewed int  // the last round in which it was renewed
	replied bool // to the request for the lock
	err     error
}

func newQuorum(c *campaign) *quorum {
	q := &quorum{red: c.red, client: c.members[0].client.core, owner: newOwner(), longest: c.spec.lease,
		connecting: c.connecting, hangUp: c.hangUp}
	q.begin(c.spec, c.ctx, q.rest)
	q.start(&q.client.agenda, time.Now(), clockDrift, func() { q.renewal(q.ctx, 0, q.round) })
	for i, member := range c.members {
		q.votes = append(q.votes, &vote{quorum: q, index: i, client: member.client.core, turn: c.turns[i]})
	}
	return q
}

// clockDrift is by how much a lease may end earlier than by this clock: the servers' clocks may be faster, and leases end at
// a whole millisecond.
func clockDrift(lease time.Duration) time.Duration { return lease/100 + 2*time.Millisecond }

func (q *quorum) most() int { return len(q.votes)/2 + 1 }

// number counts votes. q.mu is locked.
func (q *quorum) number(counts func(*vote) bool) (n int) {
	for _, v := range q.votes {
		if counts(v) {
			n++
		}
	}
	return n
}

// elect requests the lock from all servers, and returns whether a majority has granted it until this time. A grant that is
// later counts from the next renewal on.
func (q *quorum) elect(ctx context.Context, by time.Time) bool {
	elected := func() bool { return q.number(func(v *vote) bool { return v.granted }) >= q.most() }
	failed := func(v *vote) bool { return v.err != nil || v.replied && !v.granted }
	q.ask(ctx, by, func(v *vote) { v.request(q.spec.lease, true) }, func() bool {
		// A minority that is away is no cause: it is waited for whether a majority replies.
		return elected() || len(q.votes)-q.number(failed) < q.most() && q.number((*vote).answered) >= q.most()
	})
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, v := range q.votes {
		q.token = max(q.token, v.token)
	}
	return elected() && q.holding() && time.Now().Before(q.ends)
}

// ask calls send for each server, as soon as it has replied to what was sent before, and waits until all of them have
// replied, or enough, which is called with q.mu locked, or until this time.
func (q *quorum) ask(ctx context.Context, by time.Time, send func(*vote), enough func() bool) {
	replies := make(chan struct{}, len(q.votes))
	for _, v := range q.votes {
		v.client.background(func() {
			v.turn <- struct{}{}
			send(v)
			<-v.turn
			replies <- struct{}{}
		})
	}
	timer := time.NewTimer(time.Until(by))
	defer timer.Stop()
	for range q.votes {
		select {
		case <-replies:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
		q.mu.Lock()
		done := enough()
		q.mu.Unlock()
		if done {
			return
		}
	}
}

// answered returns whether the server has replied to the request for the lock, be it with an error. q.mu is locked.
func (v *vote) answered() bool {
	return v.err == nil && v.replied || v.err != nil && !passing(v.err)
}

// count returns how many servers have replied to the request for the lock, the error of those that refuse it if the others
// are no majority, or if the servers are not independent, and any other error.
func (q *quorum) count() (replies int, refused, other error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	refusals := 0
	for _, v := range q.votes {
		switch {
		case errors.Is(v.err, ErrOption):
			return 0, v.err, nil
		case v.err != nil && passing(v.err):
			other = v.err
		case v.err != nil:
			refusals++
			refused = q.spec.wrap(v.err, v.client.backend.Address(q.spec.keys[0]))
		}
	}
	if len(q.votes)-refusals >= q.most() {
		refused = nil
	}
	return q.number((*vote).answered), refused, other
}

// holders requests who holds the lock from the servers that have not granted it.
func (q *quorum) holders(ctx context.Context) (owners []string) {
	replies, requests := make(chan []string, len(q.votes)), 0
	q.mu.Lock()
	for _, v := range q.votes {
		if v.replied && !v.granted {
			requests++
			go func() { replies <- v.client.holders(ctx, q.spec.keys) }()
		}
	}
	q.mu.Unlock()
	for range requests {
		owners = append(owners, <-replies...)
	}
	slices.Sort(owners)
	return slices.Compact(owners)
}

// round renews the lease on all servers, and requests the lock again from those that have lost it.
func (q *quorum) round(lease time.Duration) error {
	q.mu.Lock()
	q.rounds++
	round := q.rounds
	q.longest = max(q.longest, lease)
	q.mu.Unlock()
	q.ask(q.ctx, time.Now().Add(replyWithin(lease)), func(v *vote) { v.renew(round, lease) }, func() bool { return false })
	if err := q.ended(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.number(func(v *vote) bool { return v.steady && v.renewed == round }) >= q.most() {
		for _, v := range q.votes { // a majority without the new ones had the lock, so no other client can have it
			v.steady = v.granted
		}
		return nil
	}
	failure := context.DeadlineExceeded
	for _, v := range q.votes {
		failure = cmp.Or(v.err, failure)
	}
	return q.spec.wrap(failure, q.client.backend.Address(q.spec.keys[0]))
}

// connect makes a connection if there is none.
func (v *vote) connect(ctx context.Context) error {
	if v.conn != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(v.quorum.connecting, cancel)()
	s := v.quorum.spec
	conn, err := v.client.backend.Conn(ctx, v.client.connectTimeout, s.keys[0], "")
	if err != nil {
		return err
	}
	v.client.connected.Store(true)
	if err := v.quorum.red.identify(ctx, v.index, conn, s); err != nil {
		finish(conn, err)
		return err
	}
	v.conn = conn
	return nil
}

// meet only connects. If the quorum has ended it does nothing, because the release, which gives the connection back, may have
// been executed already; nor does request.
func (v *vote) meet() {
	if v.quorum.ended() != nil {
		return
	}
	ctx, cancel := v.client.within(v.quorum.ctx, v.client.connectTimeout)
	defer cancel()
	err := v.connect(ctx)
	if v.quorum.ended() != nil {
		return
	}
	v.quorum.mu.Lock()
	defer v.quorum.mu.Unlock()
	v.err = err
}

// do sends a command. A server that does not reply gets no other one on this connection; after connectTimeout the connection
// is considered lost.
func (v *vote) do(cmd transport.Command) (any, error) {
	ctx, cancel := v.client.within(v.quorum.ctx, v.client.connectTimeout)
	defer cancel()
	if err := v.connect(ctx); err != nil {
		return nil, err
	}
	reply, err := v.conn.Do(ctx, cmd)
	if err != nil && passing(err) {
		finish(v.conn, err)
		v.conn, v.unsure = nil, v.unsure || lost(err)
		v.quorum.red.forget(v.index)
	}
	return reply, err
}

// request requests the lock. Only the first request of a quorum can show that the server has held it all the time.
func (v *vote) request(lease time.Duration, first bool) {
	q := v.quorum
	if q.ended() != nil {
		return
	}
	ctx, cancel := v.client.within(q.ctx, v.client.connectTimeout)
	defer cancel()
	err := v.connect(ctx)
	if q.ended() != nil {
		return // too late, and nothing was sent
	}
	var reply any
	if err == nil {
		s := *q.spec
		s.lease = lease
		v.asked = true
		reply, err = v.do(s.acquire(q.owner, 0))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	v.err, v.replied = err, err == nil
	if err == nil && reply != nil {
		v.granted, v.steady = true, first
		v.token, _ = reply.(int64)
	}
}

// renew renews the lease on one server. If that was busy until the next round, it does nothing.
func (v *vote) renew(round int, lease time.Duration) {
	q := v.quorum
	q.mu.Lock()
	granted, late := v.granted, round < q.rounds || !q.holding()
	q.mu.Unlock()
	switch {
	case late:
		return
	case !granted:
		v.request(lease, false)
		return
	}
	_, err := v.do(q.spec.renewCommand(q.owner, lease))
	gone := codeOf(err) == "NOTHELD" || errors.Is(err, ErrOption)
	q.mu.Lock()
	switch v.err = err; {
	case err == nil:
		v.renewed = round
	case codeOf(err) == "NOTHELD":
		v.err = nil // its loss is counted: the next request may fail
	}
	minority := gone && v.lost()
	q.mu.Unlock()
	if minority {
		q.lose("a majority of the servers has lost it")
	} else if gone {
		v.request(lease, false)
	}
}

// lost records that the server has lost the lock, and returns whether too few are left. q.mu is locked.
func (v *vote) lost() bool {
	v.granted, v.steady = false, false
	return v.quorum.number(func(v *vote) bool { return v.steady }) < v.quorum.most()
}

// giveUp ends a round that was not won. The servers are released in the background.
func (q *quorum) giveUp() {
	q.release()
	q.releaseAll()
	q.released()
}

// releaseAll releases all servers that may have granted the lock, each as soon as it has replied to what was requested from
// it before. The channel is closed when each was tried once.
func (q *quorum) releaseAll() <-chan struct{} {
	done := make(chan struct{})
	var all sync.WaitGroup
	for _, v := range q.votes {
		all.Add(1)
		v.client.background(func() { v.release(all.Done) })
	}
	go func() {
		all.Wait()
		close(done)
	}()
	return done
}

// release releases one server, and calls tried after the first try, also if that could not connect.
func (v *vote) release(tried func()) {
	q := v.quorum
	release := q.spec.releaseCommand(q.owner)
	v.turn <- struct{}{}
	q.mu.Lock()
	within := max(q.longest, transport.ShortWithin)
	q.mu.Unlock()
	ctx, cancel := v.client.within(q.ctx, within)
	defer cancel()
	released := !v.asked
	if v.conn != nil && v.asked {
		_, err := v.do(release)
		released = err == nil || !passing(err)
		if codeOf(err) == "NOTHELD" {
			q.mu.Lock()
			v.lost()
			q.mu.Unlock()
		}
	}
	if v.conn != nil {
		v.conn.Keep()
		v.conn = nil
	}
	unsure := v.unsure
	// What follows may take long, and uses another connection than the next round.
	<-v.turn
	if !released { // the connection is gone
		_, err := v.client.once(ctx, release, route{})
		released = err == nil || !passing(err)
	}
	tried()
	if !released {
		v.client.call(ctx, release)
	}
	if unsure { // what was sent on a lost connection may arrive a little later
		time.Sleep(tolerance)
		v.client.call(ctx, release)
	}
}

func (q *quorum) unlock(context.Context) error {
	why, err := q.release()
	if err != nil {
		return err
	}
	defer q.released()
	q.hangUp()
	select {
	case <-q.releaseAll():
	case <-time.After(replyWithin(q.spec.lease)):
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case why != "":
		return q.spec.notHeld(why)
	case q.number(func(v *vote) bool { return v.steady }) < q.most():
		return q.spec.notHeld(reported)
	}
	return nil
}

// rest ends the renewals. q.mu is locked.
func (q *quorum) rest() {
	q.stop()
	for _, v := range q.votes {
		v.client.remove(q)
	}
}

func (q *quorum) whose() (owner string, token int64) { return q.owner, q.token }

func (q *quorum) parts() []*Hold { return nil }

func (q *quorum) watchKeys(handle *Hold) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pin(handle)
}

func (q *quorum) renewNow(ctx context.Context, lease time.Duration) error {
	return q.renewal(ctx, lease, q.round)
}

func (q *quorum) guard(context.Context, []string) (any, error) {
	return nil, q.spec.fail("Guard: a RedLock is on several servers", ErrOption)
}

func (q *quorum) forget() {
	if !q.spec.expires() {
		forget(q.client, q)
	}
}
