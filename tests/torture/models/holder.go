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
		for _, mode := range do.op.Mode.Each() {
			if own := do.s.find(key, do.op.Owner, mode); own != nil && end < own.end {
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
	do.s.drop(do.at, func(h *hold) bool { return h.owner == do.op.Owner && h.mode&do.op.Mode != 0 && do.names(h.key) })
}

func (do *step) names(key int) bool {
	for _, one := range do.op.Keys {
		if one == key {
			return true
		}
	}
	return false
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
	for _, key := range op.Keys {
		own := do.s.find(key, op.Owner, op.Mode)
		if own == nil {
			if do.rules.Strict && !do.s.isForced(op.Owner) {
				return false
			}
			continue // a failover has brought it back, and no client relied on it
		}
		if !do.releaseOf(own) {
			return false
		}
	}
	do.s.drop(do.at, func(h *hold) bool { return h.count <= 0 })
	return true
}

func (do *step) releaseOf(own *hold) bool {
	if len(do.op.Keys) > 1 {
		return do.releaseOneOf(own)
	}
	if do.rules.Strict && !own.uncertain && own.count-do.wanted() != do.op.Value {
		return false
	}
	own.count, own.uncertain = do.op.Value, !do.rules.Strict
	if own.mode == history.Permits {
		do.s.recordEnd(own, do.at)
	}
	return true
}

// releaseOneOf is for one of several keys: the reply is how many of them are free now.
func (do *step) releaseOneOf(own *hold) bool {
	freed := do.op.Value
	switch {
	case freed == int64(len(do.op.Keys)):
		own.count = 0
	case freed > 0: // it is not known which; and their owner does not rely on any
		do.s.force(own.owner)
		own.count = 0
	default:
		own.uncertain = true
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
	end := do.leaseEnd()
	for _, key := range op.Keys {
		for _, mode := range op.Mode.Each() {
			if own := do.s.find(key, op.Owner, mode); own != nil {
				own.end, own.session = end, op.Session
			}
		}
	}
	return true
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
		if h.owner == do.op.Owner && do.names(h.key) && end < h.end {
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

// confirmHolds: the server has replied that the owner has what the operation names, so no other owner has a
// conflicting hold.
func (do *step) confirmHolds() bool {
	op := do.op
	if do.s.isForced(op.Owner) {
		return true // the server may not have received FORCE; no client relies any more on what it ended
	}
	for _, key := range op.Keys {
		for _, mode := range op.Mode.Each() {
			if do.s.find(key, op.Owner, mode) != nil {
				continue
			}
			if do.rules.Strict {
				return false
			}
			count := int64(op.Permits)
			do.makeRoom(key, mode, count)
			do.s.add(hold{key, op.Owner, mode, count, true, do.at, do.at, op.Session})
		}
	}
	return true
}

func (do *step) force() {
	for _, h := range do.s.holds {
		if !do.rules.Strict && do.names(h.key) {
			do.s.force(h.owner)
		}
		if do.names(h.key) {
			do.notBefore(h.since)
		}
	}
	do.s.drop(do.at, func(h *hold) bool { return do.names(h.key) })
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
