package clients

import (
	"fmt"
	"time"

	"torture/history"
)

// work is what a client does under one owner name, from the first acquisition to the last release.
type work struct {
	w     *Worker
	s     *slot
	owner string
	keys  []int
	held  map[history.Mode]int64 // as far as this client knows
	bound bool                   // by SESSION
	over  bool                   // it counts on nothing any more
}

func (w *Worker) oneWork() {
	s, end := w.Families.use(w.rand)
	defer end()
	w.works++
	do := &work{w: w, s: s, owner: fmt.Sprintf("c%d.%d", w.ID, w.works), held: map[history.Mode]int64{}}
	if w.chance(3) {
		do.meddle()
		return
	}
	do.keys = do.drawKeys()
	first := do.draw()
	if !do.acquire(first) {
		w.pause(4 * time.Millisecond)
		return
	}
	for n := w.rand.Intn(3); n > 0 && !do.over; n-- {
		do.something(first)
	}
	do.end()
}

// meddle cancels a wait of somebody else, or takes a lock away from whoever holds it.
func (do *work) meddle() {
	w, f := do.w, do.s.family
	if f.Force && w.chance(30) {
		key := w.rand.Intn(len(f.Keys))
		op := &history.Op{Kind: history.Force, Owner: do.owner, Keys: []int{key}}
		w.say(do.s, op, false, "LOCK.FORCE", f.Keys[key])
		return
	}
	if owner := w.Families.someWaiter(do.s); owner != "" {
		op := &history.Op{Kind: history.Cancel, Owner: owner, Keys: []int{0}}
		w.say(do.s, op, false, "LOCK.CANCEL", f.Keys[0], owner)
	}
}

func (do *work) drawKeys() []int {
	n := len(do.s.family.Keys)
	if n == 1 {
		return []int{0}
	}
	keys := do.w.rand.Perm(n)
	return keys[:1+do.w.rand.Intn(n)]
}

// draw draws a first acquisition.
func (do *work) draw() *history.Op {
	w, f := do.w, do.s.family
	op := &history.Op{Kind: history.Acquire, Owner: do.owner, Keys: do.keys, Mode: history.Exclusive}
	switch f.Kind {
	case "exclusive":
		op.Fair, op.Fenced = w.chance(40), w.chance(50)
	case "readwrite":
		op.Mode = []history.Mode{history.Read, history.Read, history.Read, history.Write, history.Write,
			history.Exclusive}[w.rand.Intn(6)]
		op.Fenced = op.Mode == history.Write && w.chance(30)
	case "semaphore":
		op.Mode, op.Limit = history.Permits, f.Limit
		op.Permits = 1 + w.rand.Intn(f.Limit)
	}
	do.drawLease(op)
	op.Once = w.chance(30)
	if w.chance(70) {
		op.Block = time.Duration(1+w.rand.Int63n(w.Settings.LongestBlock.Milliseconds())) * time.Millisecond
	}
	return op
}

func (do *work) drawLease(op *history.Op) {
	w := do.w
	op.Session = w.chance(w.Settings.Sessions)
	op.Lease = w.Settings.DefaultLease
	if !op.Session {
		op.Lease = w.Settings.Shortest +
			time.Duration(w.rand.Int63n(int64(w.Settings.Longest-w.Settings.Shortest)+1)).Truncate(time.Millisecond)
	}
}

// acquire says the request, and with ONCE again where it was not answered.
func (do *work) acquire(op *history.Op) bool {
	w := do.w
	for tries := 0; tries < 3; tries++ {
		again := *op
		impatient := op.Block > 0 && w.chance(3)
		w.Families.waits(do.s, do.owner, op.Block > 0)
		said := w.say(do.s, &again, impatient, do.words(op)...)
		w.Families.waits(do.s, do.owner, false)
		switch {
		case said == nil:
			return false
		case said.Outcome == history.Done:
			do.took(said)
			return true
		case said.Outcome != history.Unknown || !op.Once:
			do.over = said.Outcome == history.Unknown
			return false
		}
		do.over = true // unless it is answered now
	}
	return false
}

func (do *work) took(op *history.Op) {
	do.over = false
	switch {
	case !op.Fenced && len(op.Keys) == 1:
		do.held[op.Mode] = op.Value
	case !op.Once || do.held[op.Mode] == 0:
		do.held[op.Mode]++
	}
	do.bind(op)
}

// bind notes to which connection, if any, the last answer has bound the holds.
func (do *work) bind(op *history.Op) {
	if op.Session {
		do.bound = true
		do.w.sessions[do.owner] = do
	} else if op.Kind == history.Renew && len(do.keys) == 1 { // of several, another may be bound still
		do.unbind()
	}
}

func (do *work) unbind() {
	do.bound = false
	delete(do.w.sessions, do.owner)
}

// closed is called before the connection of a SESSION is closed, or when it has been.
func (do *work) closed(since int64) {
	do.bound = false
	do.s.family.Add(&history.Op{Client: do.w.ID, Server: do.w.master.Server, Kind: history.Close, Owner: do.owner,
		Keys: do.keys, Mode: do.modes(), Call: since, Return: since})
}

func (do *work) modes() history.Mode {
	var all history.Mode
	for mode, count := range do.held {
		if count > 0 {
			all |= mode
		}
	}
	return all
}

// something is what a holder does: it works, and at times wants more of the lock.
func (do *work) something(first *history.Op) {
	w := do.w
	switch chance := w.rand.Intn(100); {
	case do.bound && chance < 1:
		do.stay()
	case chance < 45:
		w.pause(w.Settings.Hold)
	case chance < 46:
		w.pause(w.Settings.Longest * 3 / 2) // its lease may end meanwhile
	case chance < 65:
		do.renew()
	case chance < 80:
		do.guard()
	default:
		again := *first
		if first.Mode == history.Write && w.chance(60) {
			again.Mode, again.Fenced = history.Read, false // a downgrade
		}
		do.drawLease(&again)
		do.acquire(&again)
	}
}

func (do *work) renew() {
	w := do.w
	if !w.mayRenew() {
		return
	}
	key := do.keys[w.rand.Intn(len(do.keys))]
	op := do.about(history.Renew, do.modes(), key)
	op.Lease, op.Session = 0, false
	do.drawLease(op)
	words := []interface{}{"LOCK.RENEW", do.s.family.Keys[key], do.owner}
	if w.say(do.s, op, false, append(words, do.leaseWords(op)...)...) == nil {
		return
	}
	do.heard(op)
	if op.Outcome == history.Done {
		do.bind(op)
	}
}

func (do *work) guard() {
	if !do.w.mayRenew() {
		return
	}
	key := do.keys[do.w.rand.Intn(len(do.keys))]
	op := do.about(history.Guard, do.modes(), key)
	do.w.say(do.s, op, false, "LOCK.GUARD", do.s.family.Keys[key], do.owner, "GET", do.s.family.Keys[key]+":x")
	// What was not answered has changed nothing.
	if op.Outcome == history.NotHeld {
		do.heard(op)
	}
}

func (do *work) about(kind history.Kind, mode history.Mode, keys ...int) *history.Op {
	return &history.Op{Kind: kind, Owner: do.owner, Keys: keys, Mode: mode, Limit: do.s.family.Limit,
		Permits: int(do.held[history.Permits])}
}

// heard ends the work when the answer says that nothing is left, or when there is none.
func (do *work) heard(op *history.Op) {
	if op.Outcome == history.NotHeld || op.Outcome == history.Unknown {
		do.over = true
	}
}

// end releases all, as a rule.
func (do *work) end() {
	w := do.w
	defer do.unbind()
	switch chance := w.rand.Intn(100); {
	case do.over:
		if do.bound {
			w.disconnect()
		}
		return
	case chance < 2: // its lease has to end
		if do.bound {
			w.disconnect()
		}
		return
	case chance < 4:
		w.disconnect()
		return
	}
	for _, mode := range do.modes().Each() {
		for do.held[mode] > 0 && !do.over {
			do.release(mode)
		}
	}
	if do.over && do.bound {
		w.disconnect()
	}
}

func (do *work) release(mode history.Mode) {
	op := do.about(history.Release, mode, do.keys...)
	op.Permits = 0
	words := []interface{}{"LOCK.RELEASE", do.s.family.Keys[do.keys[0]], do.owner}
	switch {
	case len(do.keys) > 1:
		words = append([]interface{}{"LOCK.MRELEASE", len(do.keys)}, append(do.names(), do.owner)...)
	case mode == history.Permits:
		op.Permits = 1 + do.w.rand.Intn(int(do.held[mode]))
		words = append(words, "PERMITS", op.Permits)
	case mode == history.Read:
		words = append(words, "READ")
	case mode == history.Write:
		words = append(words, "WRITE")
	}
	if do.w.say(do.s, op, false, words...) == nil || op.Outcome == history.Failed {
		do.w.pause(2 * time.Millisecond)
		do.over = do.over || do.w.chance(20) // it gives up
		return
	}
	do.heard(op)
	do.held[mode] -= do.released(op)
}

func (do *work) released(op *history.Op) int64 {
	switch {
	case op.Outcome != history.Done:
		return 0
	case op.Mode == history.Permits:
		return do.held[op.Mode] - op.Value
	case len(op.Keys) > 1:
		return 1
	default:
		return do.held[op.Mode] - op.Value
	}
}

func (do *work) names() []interface{} {
	var names []interface{}
	for _, key := range do.keys {
		names = append(names, do.s.family.Keys[key])
	}
	return names
}

// words are an acquisition as it is sent.
func (do *work) words(op *history.Op) []interface{} {
	name := do.s.family.Keys[op.Keys[0]]
	var words []interface{}
	switch {
	case len(op.Keys) > 1:
		words = append([]interface{}{"LOCK.MACQUIRE", len(op.Keys)}, append(do.names(), do.owner)...)
	case op.Mode == history.Read:
		words = []interface{}{"LOCK.RWREAD", name, do.owner}
	case op.Mode == history.Write:
		words = []interface{}{"LOCK.RWWRITE", name, do.owner}
	case op.Mode == history.Permits:
		words = []interface{}{"LOCK.SEMAPHORE", name, do.owner, op.Limit, "PERMITS", op.Permits}
	case op.Fair:
		words = []interface{}{"LOCK.FAIR", name, do.owner}
	default:
		words = []interface{}{"LOCK.ACQUIRE", name, do.owner}
	}
	if op.Fenced {
		words = append(words, "FENCED")
	}
	if op.Once {
		words = append(words, "ONCE")
	}
	if op.Block > 0 {
		words = append(words, "BLOCK", op.Block.Milliseconds())
	}
	return append(words, do.leaseWords(op)...)
}

func (do *work) leaseWords(op *history.Op) []interface{} {
	words := []interface{}{"PX", op.Lease.Milliseconds()}
	if op.Session {
		words = []interface{}{"SESSION"}
	}
	if n := do.w.Settings.Replicas; n > 0 {
		words = append(words, "REPLICAS", n, do.w.Settings.ReplicasLimit.Milliseconds())
	}
	return words
}
