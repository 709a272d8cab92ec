package check

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"torture/history"
)

// lockRun plays a read-write lock by one exact clock, and writes down what clients saw: each question was asked some
// time before it was done, and answered some time after.
type lockRun struct {
	rand *rand.Rand
	now  int64
	held []played
	ops  []*history.Op
}

// played is a hold, and what its client may count on: from the answer until it asks for the release, or until the
// lease is over, counted from the question.
type played struct {
	op       *history.Op
	end      int64 // of its lease, exactly
	release  int64 // when it is released, or never
	from, to int64
}

const jitter = 20 * ms

func (r *lockRun) about(moment int64) (call, answer int64) {
	return moment - r.rand.Int63n(int64(jitter)), moment + r.rand.Int63n(int64(jitter))
}

func (r *lockRun) isFreeFor(mode history.Mode) bool {
	for _, h := range r.held {
		over := h.end <= r.now || h.release <= r.now
		if !over && (mode != history.Read || h.op.Mode != history.Read) {
			return false
		}
	}
	return true
}

func (r *lockRun) grant() {
	mode := history.Read
	if r.rand.Intn(2) == 0 {
		mode = history.Write
	}
	if !r.isFreeFor(mode) {
		return
	}
	op := &history.Op{Kind: history.Acquire, Keys: []int{0}, Owner: fmt.Sprint(len(r.ops)), Mode: mode, Value: 1,
		Lease: time.Duration(20+r.rand.Intn(200)) * ms}
	op.Call, op.Return = r.about(r.now)
	h := played{op: op, end: r.now + int64(op.Lease), release: history.Never, from: op.Return,
		to: op.Call + int64(op.Lease)}
	r.ops = append(r.ops, op)
	if moment := op.Return + int64(jitter) + r.rand.Int63n(int64(60*ms)); r.rand.Intn(3) > 0 && moment < h.end {
		h.release = moment
		release := &history.Op{Kind: history.Release, Keys: op.Keys, Owner: op.Owner, Mode: mode}
		release.Call, release.Return = r.about(moment)
		h.to = earliest(h.to, release.Call)
		r.ops = append(r.ops, release)
	}
	r.held = append(r.held, h)
}

func playedRun(seed int64) *lockRun {
	r := &lockRun{rand: rand.New(rand.NewSource(seed)), now: int64(time.Second)}
	for i := 0; i < 200; i++ {
		r.now += r.rand.Int63n(int64(15 * ms))
		r.grant()
	}
	return r
}

// What a lock can do is legal, and one grant more within what somebody counts on is not.
func TestPlayedRuns(t *testing.T) {
	intruders := 0
	for seed := int64(0); seed < 40; seed++ {
		r := playedRun(seed)
		family := &history.Family{Name: "played", Ops: r.ops}
		if verdict := Locks(family, lenient, 10*time.Second); verdict.Illegal != nil || verdict.Unknown > 0 {
			t.Fatalf("seed %d: a legal run is found illegal, or undecided", seed)
		}
		h := r.held[r.rand.Intn(len(r.held))]
		if h.to-h.from < 10 {
			continue
		}
		intruders++
		family.Ops = append(family.Ops, &history.Op{Kind: history.Acquire, Keys: []int{0}, Owner: "x", Value: 1,
			Mode: history.Write, Lease: 10 * ms, Call: h.from + 1, Return: h.to - 1})
		if Locks(family, lenient, 10*time.Second).Illegal == nil {
			t.Fatalf("seed %d: a second holder beside %s goes unseen", seed, h.op.Owner)
		}
	}
	if intruders < 15 {
		t.Fatalf("only %d intruders", intruders)
	}
}
