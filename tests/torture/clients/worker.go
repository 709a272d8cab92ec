// Package clients has the clients: each takes locks, works under them and releases them, as real ones do, and at
// times does not.
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

// Settings are what clients know of a setting.
type Settings struct {
	Shortest, Longest time.Duration // leases
	DefaultLease      time.Duration // that of SESSION
	Replicas          int           // REPLICAS n of each acquisition and renewal; 0: not said
	ReplicasLimit     time.Duration
	// RenewsAtOnce: on a new master too. Otherwise not before what is left of its quarantine is at most Longest.
	RenewsAtOnce bool
	LongestBlock time.Duration
	Patience     time.Duration // how long beyond BLOCK an answer is waited for
	SlowestNews  time.Duration // until a client hears of a new master by itself
	Hold         time.Duration // the longest work under a lock, as a rule
	Sessions     int           // of a hundred leases
	LongestStay  time.Duration // for which a SESSION is held, now and then
}

// Worker is one client.
type Worker struct {
	ID       int
	Settings Settings
	Clock    *history.Clock
	View     *View
	Families *Families
	Count    func(op *history.Op)

	rand      *rand.Rand
	conn      *Conn
	master    Master
	news      <-chan struct{} // there is another master
	hears     time.Time       // when this client hears of it; zero: nothing to hear
	renewFrom time.Time       // no renewal before that on this connection
	works     int
	deaf      bool             // it hears of no other master
	ends      func() bool      // the run is over
	sessions  map[string]*work // owners bound to the connection
	aliveAt   int64            // the connection was whole then: the last question on it that was answered
}

// Run works until the context ends.
func (w *Worker) Run(ctx context.Context, seed int64) {
	w.rand = rand.New(rand.NewSource(seed))
	w.sessions = map[string]*work{}
	w.ends = func() bool { return ctx.Err() != nil }
	for !w.ends() {
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

// connect has a connection to whatever this client believes to be the master.
func (w *Worker) connect() bool {
	w.listen()
	if w.conn != nil {
		return true
	}
	w.master, w.news = w.View.Master()
	w.hears = time.Time{}
	asked := w.Clock.Now()
	conn, err := Dial(w.master.Address, 300*time.Millisecond)
	if err == nil {
		w.conn, w.aliveAt = conn, asked
		w.renewFrom, err = w.whenToRenew()
	}
	if err != nil {
		w.disconnect()
		w.pause(20 * time.Millisecond)
		return false
	}
	return true
}

// listen hears of another master, some time after there is one.
func (w *Worker) listen() {
	if w.deaf {
		return
	}
	select {
	case <-w.news:
		w.news = nil
		w.hears = time.Now().Add(time.Duration(w.rand.Int63n(int64(w.Settings.SlowestNews))))
	default:
	}
	if !w.hears.IsZero() && time.Now().After(w.hears) {
		w.disconnect()
	}
}

func (w *Worker) whenToRenew() (time.Time, error) {
	if w.Settings.RenewsAtOnce {
		return time.Time{}, nil
	}
	asked := time.Now()
	info, err := w.conn.Do(500*time.Millisecond, "INFO", "lock")
	if err != nil {
		return time.Time{}, err
	}
	left := time.Duration(Field(info, "lock_quarantine_ms")) * time.Millisecond
	return asked.Add(left - w.Settings.Longest), nil
}

// mayRenew tells whether what this server says of an old hold may be counted on.
func (w *Worker) mayRenew() bool { return w.connect() && !time.Now().Before(w.renewFrom) }

// ---- one operation ----

// say does an operation and notes it. An impatient client closes its connection before it can be answered.
func (w *Worker) say(s *slot, op *history.Op, impatient bool, words ...interface{}) *history.Op {
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
	w.note(op, reply, err, impatient)
	s.family.Add(op)
	w.Count(op)
	return op
}

func (w *Worker) note(op *history.Op, reply interface{}, err error, impatient bool) {
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
	// Not when the answer was read: the connection may have been cut after it was sent.
	w.aliveAt = op.Call
	switch value := reply.(type) {
	case nil:
		op.Outcome = history.Null
		if op.Kind == history.Guard && !op.Session { // what it reads is not there
			op.Outcome, op.Value = history.Done, 1
		}
	case []interface{}: // of LOCK.INFO
		op.Outcome = history.Null
		if shows(value, op.Owner, op.Mode) {
			op.Outcome, op.Value = history.Done, 1
		}
	case int64:
		op.Value = value
	case Error:
		w.noteError(op, value)
	default:
		panic(fmt.Sprintf("%v: %v", op, reply))
	}
}

func (w *Worker) noteError(op *history.Op, reply Error) {
	op.Outcome, op.Text = history.Failed, reply.Error()
	switch reply.Code() {
	case "NOTHELD":
		op.Outcome = history.NotHeld
	case "DEADLOCK":
	case "NOREPLICAS":
		// It may be the master still.
		if w.chance(30) {
			w.disconnect()
		}
		w.pause(10 * time.Millisecond)
	default: // READONLY, UNBLOCKED, LOADING, MASTERDOWN: not the master any more, or not yet
		w.disconnect()
		w.pause(10 * time.Millisecond)
	}
}
