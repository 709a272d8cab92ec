package models

import "torture/history"

func (do *step) isNotHeld() bool { return do.op.Outcome == history.NotHeld }

// applyNotHeld: the owner does not have what the operation names. Without failures this is not before its lease has
// ended. With several keys one missing hold is enough, and the existing ones are not changed.
func (do *step) applyNotHeld() bool {
	if !do.rules.Strict {
		do.dropNamed()
		return true
	}
	first := int64(history.Never)
	for _, key := range do.op.Keys {
		end := int64(0)
		for _, own := range do.s.findAll(key, do.op.Owner) {
			if end < own.end {
				end = own.end
			}
		}
		if end < first {
			first = end
		}
	}
	do.notBefore(first)
	do.s.drop(do.at, func(h *hold) bool { return h.owner == do.op.Owner && h.end <= do.at })
	return true
}

func (do *step) dropNamed() {
	do.s.drop(do.at, func(h *hold) bool { return h.owner == do.op.Owner && do.named(h.At)&h.Mode != 0 })
}

// named returns in which modes the operation names a key.
func (do *step) named(at int) (modes history.Mode) {
	for _, key := range do.op.Keys {
		if key.At == at {
			modes |= key.Mode
		}
	}
	return modes
}

func (do *step) release() bool {
	op := do.op
	if op.Outcome == history.Unknown {
		do.dropNamed() // its owner relies on nothing from here on
		return true
	}
	if do.isNotHeld() {
		return do.applyNotHeld()
	}
	var held []*hold
	for _, key := range op.Keys {
		if own := do.s.find(key, op.Owner); own != nil {
			held = append(held, own)
		} else if do.rules.Strict && !do.s.isForced(op.Owner) {
			return false
		} // else a failover has brought it back, and no client relied on it
	}
	switch {
	case len(op.Keys) > 1:
		if !do.releaseOfEach(held) {
			return false
		}
	case len(held) == 1:
		if !do.releaseOf(held[0]) {
			return false
		}
	}
	do.s.drop(do.at, func(h *hold) bool { return h.count <= 0 })
	return true
}

func (do *step) releaseOf(own *hold) bool {
	if do.rules.Strict && !own.uncertain && own.count-do.wanted() != do.op.Value {
		return false
	}
	own.count, own.uncertain = do.op.Value, !do.rules.Strict
	if own.Mode == history.Permits {
		do.s.recordEnd(own, do.at)
	}
	return true
}

// releaseOfEach is for several keys: the reply is how many of them the owner has fully released.
func (do *step) releaseOfEach(held []*hold) bool {
	freed, all := do.op.Value, int64(len(do.op.Keys))
	last, certain := int64(0), do.rules.Strict && !do.s.isForced(do.op.Owner)
	for _, own := range held {
		certain = certain && !own.uncertain
		if own.count == 1 {
			last++
		}
	}
	if certain && freed != last {
		return false
	}
	if !certain && 0 < freed && freed < all { // it is not known which; and their owner does not rely on any
		do.s.force(do.op.Owner)
	}
	for _, own := range held {
		switch {
		case certain:
			own.count--
		case freed > 0:
			own.count = 0
		default:
			own.uncertain = true
		}
	}
	return true
}

func (do *step) renew() bool {
	op := do.op
	if do.isNotHeld() {
		return do.applyNotHeld()
	}
	if op.Outcome != history.Done {
		do.maybeRenewed()
		return true
	}
	if !do.confirmHolds() {
		return false
	}
	if !do.isForAll() {
		return false
	}
	for _, key := range op.Keys {
		do.renewOne(do.s.findAll(key, op.Owner))
	}
	return true
}

// renewOne gives an owner's holds of one key a new lease. If there are several, those that may have ended before are not
// relied on any more: one that exists is enough for this reply.
func (do *step) renewOne(own []*hold) {
	end := do.leaseEnd()
	for _, h := range own {
		if len(own) == 1 || h.end > do.op.Return {
			h.end = end
		}
		h.session = do.op.Session
	}
}

// maybeRenewed: there was no reply, so its owner relies on the shorter of the two leases. With SESSION the connection
// has been closed since.
func (do *step) maybeRenewed() {
	if do.op.Session {
		do.shorten(do.closedEnd())
	} else {
		do.shorten(do.leaseEnd())
	}
}

// shorten makes all holds that the operation names end at that moment, unless they end before.
func (do *step) shorten(end int64) {
	for i := range do.s.holds {
		h := &do.s.holds[i]
		if h.owner == do.op.Owner && do.named(h.At) != 0 && end < h.end {
			h.end = end
		}
	}
}

// closedEnd returns when holds end that are bound to a connection which is closed now.
func (do *step) closedEnd() int64 { return do.at + int64(do.rules.Grace-do.rules.Tolerance) }

func (do *step) guard() bool {
	if do.isNotHeld() {
		return do.applyNotHeld()
	}
	return do.op.Outcome != history.Done || do.confirmHolds()
}

// confirmHolds: the server has replied that the owner has a hold of each key that the operation names, so no other owner
// has one that conflicts with it.
func (do *step) confirmHolds() bool {
	op := do.op
	if do.s.isForced(op.Owner) {
		return true // the server may not have received FORCE; no client relies any more on what it ended
	}
	for _, key := range op.Keys {
		if do.s.findAll(key, op.Owner) != nil {
			continue
		}
		if do.rules.Strict {
			return false
		}
		if key.Mode&history.Read != 0 {
			key.Mode = history.Read // it is not known which, and this one excludes the fewest
		}
		count := int64(op.Permits)
		do.makeRoom(key, count)
		do.s.add(hold{key, op.Owner, count, true, do.at, do.at, op.Session})
	}
	return true
}

func (do *step) force() {
	key := do.op.Keys[0].At
	for _, h := range do.s.holds {
		if !do.rules.Strict && h.At == key {
			do.s.force(h.owner)
		}
		if h.At == key {
			do.notBefore(h.since)
		}
	}
	do.s.drop(do.at, func(h *hold) bool { return h.At == key })
}

// close: holds of a session whose connection has closed end lock.session-grace later, unless they are bound again.
func (do *step) close() {
	end := do.closedEnd()
	for i := range do.s.holds {
		h := &do.s.holds[i]
		if h.owner == do.op.Owner && h.session && end < h.end {
			h.end = end
		}
	}
}
