// Package clients has the clients: each acquires locks, works under them and releases them, as real ones do, and
// sometimes does not.
package clients

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"net"
	"time"

	"torture/history"
)

// Settings is the clients' part of a setting.
type Settings struct {
	Shortest, Longest time.Duration // leases
	DefaultLease      time.Duration // that of SESSION
	Replicas          int           // REPLICAS n of each acquisition and renewal; 0: without it
	ReplicasLimit     time.Duration
	// RenewsAtOnce: also on a new master. Otherwise not before the rest of its quarantine is at most Longest.
	RenewsAtOnce     bool
	LongestBlock     time.Duration
	Patience         time.Duration // how long after BLOCK to wait for a reply
	SlowestDiscovery time.Duration // at most until a client notices a new master by itself
	Hold             time.Duration // the longest work under a lock, in most cases
	Sessions         int           // of a hundred leases
	LongestSession   time.Duration // for which a SESSION is held, sometimes
}

// Worker is one client.
type Worker struct {
	ID       int
	Settings Settings
	Clock    *history.Clock
	View     *View
	Families *Families
	Count    func(op *history.Op)

	rand           *rand.Rand
	conn           *Conn
	master         Master
	changed        <-chan struct{} // there is another master
	noticesAt      time.Time       // when this client notices it; zero: there is no other
	renewFrom      time.Time       // no renewal before that on this connection
	works          int
	ignoresChanges bool             // it does not notice another master
	hasEnded       func() bool      // the run has ended
	sessions       map[string]*work // owners bound to the connection
	aliveAt        int64            // the connection worked then: the last request on it that had a reply
}

// Run works until the context ends.
func (w *Worker) Run(ctx context.Context, seed int64) {
	w.rand = rand.New(rand.NewSource(seed))
	w.sessions = map[string]*work{}
	w.hasEnded = func() bool { return ctx.Err() != nil }
	for !w.hasEnded() {
		w.oneWork()
	}
	w.disconnect()
}

func (w *Worker) chance(percent int) bool { return w.rand.Intn(100) < percent }

func (w *Worker) pause(longest time.Duration) {
	time.Sleep(time.Duration(w.rand.Int63n(int64(longest) + 1)))
}

// ---- the connection ----

func (w *Worker) disconnect() { w.closed(w.Clock.Now()) }

// closed closes the connection, which may have been cut as long ago as `since`.
func (w *Worker) closed(since int64) {
	if w.conn == nil {
		return
	}
	for _, work := range w.sessions {
		work.closed(since)
	}
	w.sessions = map[string]*work{}
	w.conn.Close()
	w.conn = nil
}

// connect makes sure that there is a connection to the server that this client takes for the master.
func (w *Worker) connect() bool {
	w.checkMaster()
	if w.conn != nil {
		return true
	}
	w.master, w.changed = w.View.Master()
	w.noticesAt = time.Time{}
	sent := w.Clock.Now()
	conn, err := Dial(w.master.Address, 300*time.Millisecond)
	if err == nil {
		w.conn, w.aliveAt = conn, sent
		w.renewFrom, err = w.renewableFrom()
	}
	if err != nil {
		w.disconnect()
		w.pause(20 * time.Millisecond)
		return false
	}
	return true
}

// checkMaster notices another master, some time after there is one.
func (w *Worker) checkMaster() {
	if w.ignoresChanges {
		return
	}
	select {
	case <-w.changed:
		w.changed = nil
		w.noticesAt = time.Now().Add(time.Duration(w.rand.Int63n(int64(w.Settings.SlowestDiscovery))))
	default:
	}
	if !w.noticesAt.IsZero() && time.Now().After(w.noticesAt) {
		w.disconnect()
	}
}

func (w *Worker) renewableFrom() (time.Time, error) {
	if w.Settings.RenewsAtOnce {
		return time.Time{}, nil
	}
	sent := time.Now()
	info, err := w.conn.Do(500*time.Millisecond, "INFO", "lock")
	if err != nil {
		return time.Time{}, err
	}
	left := time.Duration(Field(info, "lock_quarantine_ms")) * time.Millisecond
	return sent.Add(left - w.Settings.Longest), nil
}

// mayRenew returns whether this server's replies about an old hold may be relied on.
func (w *Worker) mayRenew() bool { return w.connect() && !time.Now().Before(w.renewFrom) }

// ---- one operation ----

// send sends an operation and records it. An impatient client closes its connection before there can be a reply.
func (w *Worker) send(s *slot, op *history.Op, impatient bool, words ...interface{}) *history.Op {
	if !w.connect() {
		return nil
	}
	limit := op.Block + w.Settings.Patience
	if w.Settings.Replicas > 0 {
		limit += w.Settings.ReplicasLimit
	}
	if impatient {
		limit = time.Duration(w.rand.Int63n(int64(op.Block) + int64(time.Millisecond)))
	}
	op.Client, op.Server, op.Call = w.ID, w.master.Server, w.Clock.Now()
	reply, err := w.conn.Do(limit, words...)
	op.Return = w.Clock.Now()
	w.record(op, reply, err, impatient)
	s.family.Add(op)
	w.Count(op)
	return op
}

func (w *Worker) record(op *history.Op, reply interface{}, err error, impatient bool) {
	if err != nil {
		op.Outcome, op.Text = history.Unknown, "cut"
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() && !impatient {
			op.Text = "silence"
			w.disconnect()
		}
		w.closed(w.aliveAt)
		w.pause(50 * time.Millisecond)
		return
	}
	// Not when the reply was read: the connection may have been cut after it was sent.
	w.aliveAt = op.Call
	switch value := reply.(type) {
	case nil:
		op.Outcome = history.Null
		if op.Kind == history.Guard && !op.Session { // the key that it reads does not exist
			op.Outcome, op.Value = history.Done, 1
		}
	case []interface{}: // of LOCK.INFO
		op.Outcome = history.Null
		if shows(value, op.Owner, op.Keys[0].Mode) {
			op.Outcome, op.Value = history.Done, 1
		}
	case int64:
		op.Value = value
	case Error:
		w.recordError(op, value)
	default:
		panic(fmt.Sprintf("%v: %v", op, reply))
	}
}

func (w *Worker) recordError(op *history.Op, reply Error) {
	op.Outcome, op.Text = history.Failed, reply.Error()
	switch reply.Code() {
	case "NOTHELD":
		op.Outcome = history.NotHeld
	case "DEADLOCK":
	case "NOREPLICAS":
		// It may still be the master.
		if w.chance(30) {
			w.disconnect()
		}
		w.pause(10 * time.Millisecond)
	default: // READONLY, UNBLOCKED, LOADING, MASTERDOWN: not the master any more, or not yet
		w.disconnect()
		w.pause(10 * time.Millisecond)
	}
}
