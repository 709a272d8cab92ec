package models

import (
	"sort"

	"torture/history"
)

// excludes returns whether a request in one mode conflicts with another owner's hold.
func excludes(request, held history.Mode) bool {
	return request != history.Read || held != history.Read
}

func (do *step) acquire() bool {
	if do.op.Outcome != history.Done {
		do.shorten(do.closedEnd())
		return true
	}
	for _, key := range do.op.Keys {
		do.makeRoom(key, do.op.Mode, do.op.Value)
	}
	for _, key := range do.op.Keys {
		if !do.takeOne(key) {
			return false
		}
	}
	return true
}

// makeRoom ends the holds that conflict, none of them before its time. own: the number of permits that the owner then
// has.
func (do *step) makeRoom(key int, mode history.Mode, own int64) {
	if mode == history.Permits {
		do.makeRoomOfPermits(key, int64(do.op.Limit)-own)
		return
	}
	do.notBefore(do.s.ended[key].exclusive)
	if mode != history.Read {
		do.notBefore(do.s.ended[key].shared)
	}
	do.s.drop(history.Never, func(h *hold) bool {
		if h.key != key || h.owner == do.op.Owner || !excludes(mode, h.mode) {
			return false
		}
		do.notBefore(h.end)
		return true
	})
}

func (do *step) makeRoomOfPermits(key int, room int64) {
	do.notBefore(do.s.ended[key].exclusive)
	var others []hold
	for _, h := range do.s.holds {
		if h.key == key && h.owner != do.op.Owner {
			others = append(others, h)
			room -= h.count
		}
	}
	// Those whose lease ends first are ended first.
	sort.Slice(others, func(i, j int) bool { return others[i].end < others[j].end })
	for i := 0; room < 0 && i < len(others); i++ {
		gone := others[i]
		room += gone.count
		do.notBefore(gone.end)
		do.s.drop(history.Never, func(h *hold) bool { return *h == gone })
	}
	if room < 0 {
		do.notBefore(history.Never + 1) // the limit is lower than what the owner would have
	}
}

// takeOne takes a hold of one key, for which there is room.
func (do *step) takeOne(key int) bool {
	op, own := do.op, do.s.find(key, do.op.Owner, do.op.Mode)
	if own == nil {
		return do.takeFirst(key)
	}
	if !do.rules.Strict {
		own.uncertain = true
	} else if !do.countIsRight(own) {
		return false
	}
	switch {
	case op.Fenced || len(op.Keys) > 1:
		own.count, own.uncertain = own.count+1, true
	default:
		own.count = op.Value
	}
	if end := do.leaseEnd(); own.end < end {
		own.end = end
	}
	do.bind(key)
	return true
}

// bind: a session concerns all holds of an owner on a key, so all are bound as soon as one is. From then on the server
// renews them, and each renewal sets lock.default-lease, even if that is shorter.
func (do *step) bind(key int) {
	bound := do.op.Session
	own := func(h *hold) bool { return h.key == key && h.owner == do.op.Owner }
	for i := range do.s.holds {
		h := &do.s.holds[i]
		bound = bound || (own(h) && h.session)
	}
	end := do.at + int64(do.rules.DefaultLease-do.rules.Tolerance)
	for i := range do.s.holds {
		h := &do.s.holds[i]
		switch {
		case !bound || !own(h):
			continue
		case do.rules.Strict && h.end-do.at < int64(do.rules.DefaultLease/2):
			// The first renewal is due after a third of the default lease: a shorter lease may expire before.
		case do.rules.Strict:
			h.end = history.Never
		case end < h.end:
			h.end = end
		}
		h.session = true
	}
}

func (do *step) wanted() int64 {
	if do.op.Mode == history.Permits {
		return int64(do.op.Permits)
	}
	return 1
}

func (do *step) takeFirst(key int) bool {
	op, count := do.op, do.wanted()
	if !op.Fenced && len(op.Keys) == 1 {
		if do.rules.Strict && op.Value != count {
			return false
		}
		count = op.Value
	}
	do.s.add(hold{key, op.Owner, op.Mode, count, !do.rules.Strict, do.at, do.leaseEnd(), op.Session})
	do.bind(key)
	return true
}

// countIsRight returns whether the reply adds to what the owner has, or what it had may have ended.
func (do *step) countIsRight(own *hold) bool {
	op := do.op
	if op.Fenced || len(op.Keys) > 1 || own.uncertain {
		return true
	}
	sum := own.count + do.wanted()
	if op.Once {
		sum = own.count
		if sum < do.wanted() {
			sum = do.wanted()
		}
	}
	if op.Value == sum {
		return true
	}
	do.notBefore(own.end)
	own.end = 0
	return op.Value == do.wanted()
}
