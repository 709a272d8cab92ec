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
	if !do.isForAll() {
		return false
	}
	for _, key := range do.op.Keys {
		do.makeRoom(key, do.op.Value)
	}
	for _, key := range do.op.Keys {
		if !do.takeOne(key) {
			return false
		}
	}
	return true
}

// isForAll returns whether the reply is that of all keys: a multi-key request is for all of them, or none.
func (do *step) isForAll() bool { return len(do.op.Keys) == 1 || do.op.Value == int64(len(do.op.Keys)) }

// makeRoom ends the holds that conflict, none of them before its time. own: the number of permits that the owner then
// has.
func (do *step) makeRoom(key history.Key, own int64) {
	if key.Mode == history.Permits {
		do.makeRoomOfPermits(key.At, int64(do.op.Limit)-own)
		return
	}
	do.notBefore(do.s.ended[key.At].exclusive)
	if key.Mode != history.Read {
		do.notBefore(do.s.ended[key.At].shared)
	}
	do.s.drop(history.Never, func(h *hold) bool {
		if h.At != key.At || h.owner == do.op.Owner || !excludes(key.Mode, h.Mode) {
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
		if h.At == key && h.owner != do.op.Owner {
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
func (do *step) takeOne(key history.Key) bool {
	op, own := do.op, do.s.find(key, do.op.Owner)
	if own == nil {
		return do.takeFirst(key)
	}
	if !do.rules.Strict {
		own.uncertain = true
	} else if !do.countIsRight(own) {
		return false
	}
	switch {
	case !op.Fenced && len(op.Keys) == 1:
		own.count = op.Value
	case own.end <= op.Return: // it may have ended before
		own.uncertain = true
	case !op.Once:
		own.count++
	}
	if end := do.leaseEnd(); own.end < end {
		own.end = end
	}
	do.bind(key.At)
	return true
}

// bind: a session concerns all holds of an owner on a key, so all are bound as soon as one is. From then on the server
// renews them, and each renewal sets lock.default-lease, even if that is shorter.
func (do *step) bind(key int) {
	bound := do.op.Session
	own := func(h *hold) bool { return h.At == key && h.owner == do.op.Owner }
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
	if do.op.Permits > 0 {
		return int64(do.op.Permits)
	}
	return 1
}

func (do *step) takeFirst(key history.Key) bool {
	op, count := do.op, do.wanted()
	if !op.Fenced && len(op.Keys) == 1 {
		if do.rules.Strict && op.Value != count {
			return false
		}
		count = op.Value
	}
	do.s.add(hold{key, op.Owner, count, !do.rules.Strict, do.at, do.leaseEnd(), op.Session})
	do.bind(key.At)
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
