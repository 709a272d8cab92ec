package clients

import (
	"time"

	"torture/history"
)

// looks is how often a client that stays looks whether it still has the lock.
const looks = 100 * time.Millisecond

// stay holds a lock for much longer than a lease, by SESSION alone: its client counts on the lock for as long as the
// server shows it, and does not ask who the master is. A server that has not heard of a LOCK.FORCE may show what is
// not there.
func (do *work) stay() {
	w := do.w
	if do.s.family.Force {
		return
	}
	w.deaf = true
	defer func() { w.deaf = false }()
	until := time.Now().Add(time.Duration(w.rand.Int63n(int64(w.Settings.LongestStay))))
	for do.bound && !do.over && !w.ends() && time.Now().Before(until) {
		w.pause(2 * looks)
		if w.connect() && do.bound { // not on another connection
			do.look()
		}
	}
}

// look is a guard that a server answers also where it would refuse to write.
func (do *work) look() {
	key := do.keys[do.w.rand.Intn(len(do.keys))]
	op := do.about(history.Guard, do.modes(), key)
	op.Session, op.Lease = true, do.w.Settings.DefaultLease
	if do.w.say(do.s, op, false, "LOCK.INFO", do.s.family.Keys[key], "COUNT", 0) == nil || op.Outcome != history.Done {
		do.over = true
	}
}

// shows tells whether an answer of LOCK.INFO has the owner among the holders, in each mode, bound to a connection.
func shows(info interface{}, owner string, modes history.Mode) bool {
	names := map[history.Mode]string{history.Exclusive: "exclusive", history.Read: "read", history.Write: "write",
		history.Permits: "semaphore"}
	bound := map[string]bool{}
	holders, _ := field(info, "holders").([]interface{})
	for _, holder := range holders {
		mode, _ := field(holder, "mode").(string)
		if field(holder, "owner") == owner && field(holder, "session") != nil {
			bound[mode] = true
		}
	}
	for _, mode := range modes.Each() {
		if !bound[names[mode]] {
			return false
		}
	}
	return true
}

// field is a value of a flat list of names and values, or nil.
func field(list interface{}, name string) interface{} {
	words, _ := list.([]interface{})
	for i := 0; i+1 < len(words); i += 2 {
		if words[i] == name {
			return words[i+1]
		}
	}
	return nil
}
