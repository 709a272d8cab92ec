package clients

import (
	"time"

	"torture/history"
)

// checkPeriod is how often such a client checks whether it still has the lock, on average.
const checkPeriod = 100 * time.Millisecond

// holdBySession holds a lock for much longer than a lease, only by SESSION: the client relies on the lock for as long
// as the server shows it, and ignores changes of the master. Not with LOCK.FORCE: a server that has not received it may
// show a hold that has ended.
func (do *work) holdBySession() {
	w := do.w
	if do.s.family.Force {
		return
	}
	w.ignoresChanges = true
	defer func() { w.ignoresChanges = false }()
	until := time.Now().Add(time.Duration(w.rand.Int63n(int64(w.Settings.LongestSession))))
	for do.bound && !do.ended && !w.hasEnded() && time.Now().Before(until) {
		w.pause(2 * checkPeriod)
		if w.connect() && do.bound { // not on another connection
			do.checkHold()
		}
	}
}

// checkHold is a guard of one hold, to which a server replies even if it would refuse a write.
func (do *work) checkHold() {
	op := do.newOp(history.Guard, do.oneHoldOfEach(do.someHolds(1))...)
	op.Session, op.Lease = true, do.w.Settings.DefaultLease
	if do.w.send(do.s, op, false, "LOCK.INFO", do.names(op)[0], "COUNT", 0) == nil || op.Outcome != history.Done {
		do.ended = true
	}
}

// shows returns whether a reply of LOCK.INFO has the owner among the holders, in this mode, bound to a connection.
func shows(info interface{}, owner string, mode history.Mode) bool {
	names := map[history.Mode]string{history.Exclusive: "exclusive", history.Read: "read", history.Write: "write",
		history.Permits: "semaphore"}
	holders, _ := field(info, "holders").([]interface{})
	for _, holder := range holders {
		if field(holder, "owner") == owner && field(holder, "mode") == names[mode] && field(holder, "session") != nil {
			return true
		}
	}
	return false
}

// field returns a value of a flat list of names and values, or nil.
func field(list interface{}, name string) interface{} {
	words, _ := list.([]interface{})
	for i := 0; i+1 < len(words); i += 2 {
		if words[i] == name {
			return words[i+1]
		}
	}
	return nil
}
