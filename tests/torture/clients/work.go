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
	ended bool                   // it relies on nothing any more
}

func (w *Worker) oneWork() {
	s, end := w.Families.use(w.rand)
	defer end()
	w.works++
	do := &work{w: w, s: s, owner: fmt.Sprintf("c%d.%d", w.ID, w.works), held: map[history.Mode]int64{}}
	if w.chance(3) {
		do.interfere()
		return
	}
	do.keys = do.chooseKeys()
	first := do.chooseRequest()
	if !do.acquire(first) {
		w.pause(4 * time.Millisecond)
		return
	}
	for n := w.rand.Intn(3); n > 0 && !do.ended; n-- {
		do.useLock(first)
	}
	do.end()
}

// interfere cancels the wait of another owner, or takes a lock away from its holder.
func (do *work) interfere() {
	w, f := do.w, do.s.family
	if f.Force && w.chance(30) {
		key := w.rand.Intn(len(f.Keys))
		op := &history.Op{Kind: history.Force, Owner: do.owner, Keys: []int{key}}
		w.send(do.s, op, false, "LOCK.FORCE", f.Keys[key])
		return
	}
	if owner := w.Families.someWaiter(do.s); owner != "" {
		op := &history.Op{Kind: history.Cancel, Owner: owner, Keys: []int{0}}
		w.send(do.s, op, false, "LOCK.CANCEL", f.Keys[0], owner)
	}
}

func (do *work) chooseKeys() []int {
	n := len(do.s.family.Keys)
	if n == 1 {
		return []int{0}
	}
	keys := do.w.rand.Perm(n)
	return keys[:1+do.w.rand.Intn(n)]
}

// chooseRequest chooses a first acquisition.
func (do *work) chooseRequest() *history.Op {
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
	do.chooseLease(op)
	op.Once = w.chance(30)
	if w.chance(70) {
		op.Block = time.Duration(1+w.rand.Int63n(w.Settings.LongestBlock.Milliseconds())) * time.Millisecond
	}
	return op
}

func (do *work) chooseLease(op *history.Op) {
	w := do.w
	op.Session = w.chance(w.Settings.Sessions)
	op.Lease = w.Settings.DefaultLease
	if !op.Session {
		op.Lease = w.Settings.Shortest +
			time.Duration(w.rand.Int63n(int64(w.Settings.Longest-w.Settings.Shortest)+1)).Truncate(time.Millisecond)
	}
}

// acquire sends the request; with ONCE again if there was no reply.
func (do *work) acquire(op *history.Op) bool {
	w := do.w
	for tries := 0; tries < 3; tries++ {
		again := *op
		impatient := op.Block > 0 && w.chance(3)
		w.Families.setWaiting(do.s, do.owner, op.Block > 0)
		sent := w.send(do.s, &again, impatient, do.command(op)...)
		w.Families.setWaiting(do.s, do.owner, false)
		switch {
		case sent == nil:
			return false
		case sent.Outcome == history.Done:
			do.recordAcquired(sent)
			return true
		case sent.Outcome != history.Unknown || !op.Once:
			do.ended = sent.Outcome == history.Unknown
			return false
		}
		do.ended = true // unless there is a reply now
	}
	return false
}

func (do *work) recordAcquired(op *history.Op) {
	do.ended = false
	switch {
	case !op.Fenced && len(op.Keys) == 1:
		do.held[op.Mode] = op.Value
	case !op.Once || do.held[op.Mode] == 0:
		do.held[op.Mode]++
	}
	do.bind(op)
}

// bind records whether the last reply has bound the holds to the connection.
func (do *work) bind(op *history.Op) {
	if op.Session {
		do.bound = true
		do.w.sessions[do.owner] = do
	} else if op.Kind == history.Renew && len(do.keys) == 1 { // with several keys, another one may still be bound
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

// useLock is what a holder does: it works, and sometimes requests more of the lock.
func (do *work) useLock(first *history.Op) {
	w := do.w
	switch chance := w.rand.Intn(100); {
	case do.bound && chance < 1:
		do.holdBySession()
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
		do.chooseLease(&again)
		do.acquire(&again)
	}
}

func (do *work) renew() {
	w := do.w
	if !w.mayRenew() {
		return
	}
	key := do.keys[w.rand.Intn(len(do.keys))]
	op := do.newOp(history.Renew, do.modes(), key)
	op.Lease, op.Session = 0, false
	do.chooseLease(op)
	command := []interface{}{"LOCK.RENEW", do.s.family.Keys[key], do.owner}
	if w.send(do.s, op, false, append(command, do.leaseOptions(op)...)...) == nil {
		return
	}
	do.endIfLost(op)
	if op.Outcome == history.Done {
		do.bind(op)
	}
}

func (do *work) guard() {
	if !do.w.mayRenew() {
		return
	}
	key := do.keys[do.w.rand.Intn(len(do.keys))]
	op := do.newOp(history.Guard, do.modes(), key)
	do.w.send(do.s, op, false, "LOCK.GUARD", do.s.family.Keys[key], do.owner, "GET", do.s.family.Keys[key]+":x")
	// A guard without a reply has changed nothing.
	if op.Outcome == history.NotHeld {
		do.endIfLost(op)
	}
}

func (do *work) newOp(kind history.Kind, mode history.Mode, keys ...int) *history.Op {
	return &history.Op{Kind: kind, Owner: do.owner, Keys: keys, Mode: mode, Limit: do.s.family.Limit,
		Permits: int(do.held[history.Permits])}
}

// endIfLost ends the work if the reply is that no hold is left, or if there is no reply.
func (do *work) endIfLost(op *history.Op) {
	if op.Outcome == history.NotHeld || op.Outcome == history.Unknown {
		do.ended = true
	}
}

// end releases all holds, in most cases.
func (do *work) end() {
	w := do.w
	defer do.unbind()
	switch chance := w.rand.Intn(100); {
	case do.ended:
		if do.bound {
			w.disconnect()
		}
		return
	case chance < 2: // it leaves the hold to expire
		if do.bound {
			w.disconnect()
		}
		return
	case chance < 4:
		w.disconnect()
		return
	}
	for _, mode := range do.modes().Each() {
		for do.held[mode] > 0 && !do.ended {
			do.release(mode)
		}
	}
	if do.ended && do.bound {
		w.disconnect()
	}
}

func (do *work) release(mode history.Mode) {
	op := do.newOp(history.Release, mode, do.keys...)
	op.Permits = 0
	command := []interface{}{"LOCK.RELEASE", do.s.family.Keys[do.keys[0]], do.owner}
	switch {
	case len(do.keys) > 1:
		command = append([]interface{}{"LOCK.MRELEASE", len(do.keys)}, append(do.names(), do.owner)...)
	case mode == history.Permits:
		op.Permits = 1 + do.w.rand.Intn(int(do.held[mode]))
		command = append(command, "PERMITS", op.Permits)
	case mode == history.Read:
		command = append(command, "READ")
	case mode == history.Write:
		command = append(command, "WRITE")
	}
	if do.w.send(do.s, op, false, command...) == nil || op.Outcome == history.Failed {
		do.w.pause(2 * time.Millisecond)
		do.ended = do.ended || do.w.chance(20) // it gives up
		return
	}
	do.endIfLost(op)
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

// command returns an acquisition as it is sent.
func (do *work) command(op *history.Op) []interface{} {
	name := do.s.family.Keys[op.Keys[0]]
	var command []interface{}
	switch {
	case len(op.Keys) > 1:
		command = append([]interface{}{"LOCK.MACQUIRE", len(op.Keys)}, append(do.names(), do.owner)...)
	case op.Mode == history.Read:
		command = []interface{}{"LOCK.RWREAD", name, do.owner}
	case op.Mode == history.Write:
		command = []interface{}{"LOCK.RWWRITE", name, do.owner}
	case op.Mode == history.Permits:
		command = []interface{}{"LOCK.SEMAPHORE", name, do.owner, op.Limit, "PERMITS", op.Permits}
	case op.Fair:
		command = []interface{}{"LOCK.FAIR", name, do.owner}
	default:
		command = []interface{}{"LOCK.ACQUIRE", name, do.owner}
	}
	if op.Fenced {
		command = append(command, "FENCED")
	}
	if op.Once {
		command = append(command, "ONCE")
	}
	if op.Block > 0 {
		command = append(command, "BLOCK", op.Block.Milliseconds())
	}
	return append(command, do.leaseOptions(op)...)
}

func (do *work) leaseOptions(op *history.Op) []interface{} {
	command := []interface{}{"PX", op.Lease.Milliseconds()}
	if op.Session {
		command = []interface{}{"SESSION"}
	}
	if n := do.w.Settings.Replicas; n > 0 {
		command = append(command, "REPLICAS", n, do.w.Settings.ReplicasLimit.Milliseconds())
	}
	return command
}
