package check

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"torture/history"
)

// lockRun simulates read-write locks with one exact clock, and records what clients saw: each request was sent some time
// before it was done, and the reply received some time after.
type lockRun struct {
	rand *rand.Rand
	keys int
	now  int64
	held []simulated
	ops  []*history.Op
}

// simulated is what one request has acquired, and the time in which its client may rely on it: from the reply until it sends the release, or
// until the lease has ended, counted from the request.
type simulated struct {
	op       *history.Op
	end      int64 // of its lease, exactly
	release  int64 // when it is released, or never
	from, to int64
}

const jitter = 20 * ms

func (r *lockRun) about(moment int64) (call, reply int64) {
	return moment - r.rand.Int63n(int64(jitter)), moment + r.rand.Int63n(int64(jitter))
}

func (r *lockRun) isFreeFor(op *history.Op) bool {
	for _, h := range r.held {
		if r.now < h.end && r.now < h.release && conflict(op, h.op) {
			return false
		}
	}
	return true
}

// chooseKeys chooses one or more of the keys, each to be read or to be written.
func (r *lockRun) chooseKeys() (keys []history.Key) {
	for _, at := range r.rand.Perm(r.keys)[:1+r.rand.Intn(r.keys)] {
		mode := history.Read
		if r.rand.Intn(2) == 0 {
			mode = history.Write
		}
		keys = append(keys, history.Key{At: at, Mode: mode})
	}
	return keys
}

func (r *lockRun) grant() {
	op := &history.Op{Kind: history.Acquire, Keys: r.chooseKeys(), Owner: fmt.Sprint(len(r.ops)),
		Lease: time.Duration(20+r.rand.Intn(200)) * ms}
	op.Value = int64(len(op.Keys))
	if !r.isFreeFor(op) {
		return
	}
	op.Call, op.Return = r.about(r.now)
	h := simulated{op: op, end: r.now + int64(op.Lease), release: history.Never, from: op.Return,
		to: op.Call + int64(op.Lease)}
	r.ops = append(r.ops, op)
	if moment := op.Return + int64(jitter) + r.rand.Int63n(int64(60*ms)); r.rand.Intn(3) > 0 && moment < h.end {
		h.release = moment
		release := &history.Op{Kind: history.Release, Keys: op.Keys, Owner: op.Owner}
		if len(op.Keys) > 1 {
			release.Value = op.Value
		}
		release.Call, release.Return = r.about(moment)
		h.to = earliest(h.to, release.Call)
		r.ops = append(r.ops, release)
	}
	r.held = append(r.held, h)
}

func simulatedRun(keys int, seed int64) *lockRun {
	r := &lockRun{rand: rand.New(rand.NewSource(seed)), keys: keys, now: int64(time.Second)}
	for i := 0; i < 200; i++ {
		r.now += r.rand.Int63n(int64(15 * ms))
		r.grant()
	}
	return r
}

// What a lock can do is legal; one additional grant while a client relies on its hold is not.
func TestSimulatedRuns(t *testing.T) {
	for keys := 1; keys <= 3; keys++ {
		t.Run(fmt.Sprint(keys, " keys"), func(t *testing.T) { checkSimulated(t, keys) })
	}
}

// secondHolder returns a key that the hold excludes.
func (r *lockRun) secondHolder(h simulated) history.Key {
	key := h.op.Keys[r.rand.Intn(len(h.op.Keys))]
	switch {
	case key.Mode == history.Read:
		key.Mode = history.Write
	case r.rand.Intn(2) == 0:
		key.Mode = history.Read
	}
	return key
}

func checkSimulated(t *testing.T, keys int) {
	secondHolders := 0
	for seed := int64(0); seed < 40; seed++ {
		r := simulatedRun(keys, seed)
		family := &history.Family{Name: "simulated", Ops: r.ops}
		if verdict := Locks(family, lenient, 10*time.Second); verdict.Illegal != nil || verdict.Unknown > 0 {
			t.Fatalf("seed %d: a legal run is reported as illegal, or undecided", seed)
		}
		h := r.held[r.rand.Intn(len(r.held))]
		if h.to-h.from < 10 {
			continue
		}
		secondHolders++
		family.Ops = append(family.Ops, &history.Op{Kind: history.Acquire, Keys: []history.Key{r.secondHolder(h)},
			Owner: "x", Value: 1, Lease: 10 * ms, Call: h.from + 1, Return: h.to - 1})
		if Locks(family, lenient, 10*time.Second).Illegal == nil {
			t.Fatalf("seed %d: a second holder next to %s is not found", seed, h.op.Owner)
		}
	}
	if secondHolders < 15 {
		t.Fatalf("only %d second holders", secondHolders)
	}
}
