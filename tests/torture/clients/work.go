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
	held  map[history.Key]int64 // as far as this client knows
	bound bool                  // by SESSION
	ended bool                  // it relies on nothing any more
}

func (w *Worker) oneWork() {
	s, end := w.Families.use(w.rand)
	defer end()
	w.works++
	do := &work{w: w, s: s, owner: fmt.Sprintf("c%d.%d", w.ID, w.works), held: map[history.Key]int64{}}
	if w.chance(3) {
		do.interfere()
		return
	}
	first := do.chooseRequest()
	if !do.acquire(first) {
		w.pause(4 * time.Millisecond)
		return
	}
	for n := w.rand.Intn(3); n > 0 && !do.ended && len(do.holds()) > 0; n-- {
		do.useLock(first)
	}
	do.end()
}

// interfere cancels the wait of another owner, or takes a lock away from its holder.
func (do *work) interfere() {
	w, f := do.w, do.s.family
	if f.Force && w.chance(30) {
		key := w.rand.Intn(len(f.Keys))
		op := &history.Op{Kind: history.Force, Owner: do.owner, Keys: []history.Key{{At: key}}}
		w.send(do.s, op, false, "LOCK.FORCE", f.Keys[key])
		return
	}
	if owner := w.Families.someWaiter(do.s); owner != "" {
		op := &history.Op{Kind: history.Cancel, Owner: owner, Keys: []history.Key{{}}}
		w.send(do.s, op, false, "LOCK.CANCEL", f.Keys[0], owner)
	}
}

// chooseKeys chooses one or more keys, and a mode for each.
func (do *work) chooseKeys() (keys []history.Key) {
	n := len(do.s.family.Keys)
	for _, at := range do.w.rand.Perm(n)[:1+do.w.rand.Intn(n)] {
		keys = append(keys, history.Key{At: at, Mode: do.chooseMode()})
	}
	return keys
}

func (do *work) chooseMode() history.Mode {
	switch n := do.w.rand.Intn(6); do.s.family.Kind {
	case "semaphore":
		return history.Permits
	case "readwrite":
		return []history.Mode{history.Read, history.Read, history.Read, history.Write, history.Write,
			history.Exclusive}[n]
	case "modes":
		return []history.Mode{history.Read, history.Write}[n%2]
	}
	return history.Exclusive
}

// chooseRequest chooses a first acquisition.
func (do *work) chooseRequest() *history.Op {
	w, f := do.w, do.s.family
	op := &history.Op{Kind: history.Acquire, Owner: do.owner, Keys: do.chooseKeys()}
	switch f.Kind {
	case "exclusive":
		op.Fair, op.Fenced = w.chance(40), w.chance(50)
	case "readwrite":
		op.Fenced = op.Keys[0].Mode == history.Write && w.chance(30)
	case "semaphore":
		op.Limit, op.Permits = f.Limit, 1+w.rand.Intn(f.Limit)
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
	for _, key := range op.Keys {
		switch {
		case !op.Fenced && len(op.Keys) == 1:
			do.held[key] = op.Value
		case !op.Once || do.held[key] == 0:
			do.held[key]++
		}
	}
	do.bind(op)
}

// bind records whether the last reply has bound the holds to the connection.
func (do *work) bind(op *history.Op) {
	if op.Session {
		do.bound = true
		do.w.sessions[do.owner] = do
	} else if op.Kind == history.Renew && len(op.Keys) == len(do.holds()) { // otherwise another one may still be bound
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
		Keys: do.holds(), Call: since, Return: since})
}

// holds returns the keys of which the owner has holds, each with all modes of these.
func (do *work) holds() (keys []history.Key) {
	for at := range do.s.family.Keys {
		key := history.Key{At: at}
		for hold, count := range do.held {
			if hold.At == at && count > 0 {
				key.Mode |= hold.Mode
			}
		}
		if key.Mode != 0 {
			keys = append(keys, key)
		}
	}
	return keys
}

// someHolds returns at most n of them.
func (do *work) someHolds(n int) []history.Key {
	keys := do.holds()
	do.w.rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	if n < len(keys) {
		keys = keys[:n]
	}
	return keys
}

// oneHoldOfEach chooses one mode of each key.
func (do *work) oneHoldOfEach(keys []history.Key) []history.Key {
	for i := range keys {
		modes := keys[i].Mode.Each()
		keys[i].Mode = modes[do.w.rand.Intn(len(modes))]
	}
	return keys
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
	case do.s.family.Kind == "modes" && chance < 85:
		do.release() // of a writer's holds to write: a downgrade, if it also reads
	default:
		again := *first
		switch {
		case do.s.family.Kind == "modes":
			again.Keys = do.chooseKeys()
		case first.Keys[0].Mode == history.Write && w.chance(60):
			again.Keys, again.Fenced = []history.Key{{Mode: history.Read}}, false // a downgrade
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
	op := do.newOp(history.Renew, do.someHolds(1+w.rand.Intn(len(do.s.family.Keys)))...)
	do.chooseLease(op)
	command := do.commandOf("LOCK.RENEW", "LOCK.MRENEW", op)
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
	op := do.newOp(history.Guard, do.someHolds(1)...)
	name := do.names(op)[0]
	do.w.send(do.s, op, false, "LOCK.GUARD", name, do.owner, "GET", fmt.Sprint(name, ":x"))
	// A guard without a reply has changed nothing.
	if op.Outcome == history.NotHeld {
		do.endIfLost(op)
	}
}

func (do *work) newOp(kind history.Kind, keys ...history.Key) *history.Op {
	return &history.Op{Kind: kind, Owner: do.owner, Keys: keys, Limit: do.s.family.Limit,
		Permits: int(do.held[history.Key{Mode: history.Permits}])}
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
	for len(do.holds()) > 0 && !do.ended {
		do.release()
	}
	if do.ended && do.bound {
		w.disconnect()
	}
}

// release releases a hold of each key; in a family of modes, of some of them.
func (do *work) release() {
	keys := do.holds()
	if do.s.family.Kind == "modes" && do.w.chance(50) {
		keys = do.someHolds(1 + do.w.rand.Intn(len(keys)))
	}
	op := do.newOp(history.Release, do.oneHoldOfEach(keys)...)
	op.Permits = 0
	command := do.commandOf("LOCK.RELEASE", "LOCK.MRELEASE", op)
	switch key := op.Keys[0]; {
	case len(op.Keys) > 1:
		command = append(command, modesOf(op)...)
	case key.Mode == history.Permits:
		op.Permits = 1 + do.w.rand.Intn(int(do.held[key]))
		command = append(command, "PERMITS", op.Permits)
	case key.Mode != history.Exclusive:
		command = append(command, words[key.Mode])
	}
	if do.w.send(do.s, op, false, command...) == nil || op.Outcome == history.Failed {
		do.w.pause(2 * time.Millisecond)
		do.ended = do.ended || do.w.chance(20) // it gives up
		return
	}
	do.endIfLost(op)
	for _, key := range op.Keys {
		switch {
		case op.Outcome != history.Done:
		case len(op.Keys) > 1:
			do.held[key]--
		default:
			do.held[key] = op.Value
		}
	}
}

func (do *work) names(op *history.Op) (names []interface{}) {
	for _, key := range op.Keys {
		names = append(names, do.s.family.Keys[key.At])
	}
	return names
}

// commandOf begins a command for one key, or for several.
func (do *work) commandOf(one, several string, op *history.Op) []interface{} {
	command := []interface{}{one}
	if len(op.Keys) > 1 {
		command = []interface{}{several, len(op.Keys)}
	}
	return append(append(command, do.names(op)...), do.owner)
}

var words = map[history.Mode]string{history.Read: "READ", history.Write: "WRITE"}

// modesOf returns the option MODES of a multi-key request for read-write locks.
func modesOf(op *history.Op) (option []interface{}) {
	if op.Keys[0].Mode == history.Exclusive {
		return nil
	}
	option = append(option, "MODES")
	for _, key := range op.Keys {
		option = append(option, words[key.Mode])
	}
	return option
}

// command returns an acquisition as it is sent.
func (do *work) command(op *history.Op) []interface{} {
	one := "LOCK.ACQUIRE"
	switch mode := op.Keys[0].Mode; {
	case mode == history.Read:
		one = "LOCK.RWREAD"
	case mode == history.Write:
		one = "LOCK.RWWRITE"
	case mode == history.Permits:
		one = "LOCK.SEMAPHORE"
	case op.Fair:
		one = "LOCK.FAIR"
	}
	command := do.commandOf(one, "LOCK.MACQUIRE", op)
	if op.Permits > 0 {
		command = append(command, op.Limit, "PERMITS", op.Permits)
	}
	if len(op.Keys) > 1 {
		command = append(command, modesOf(op)...)
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
