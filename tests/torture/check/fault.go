package check

import (
	"fmt"

	"torture/history"
)

// Fault is something that the module guarantees not to happen, and that a client has seen.
type Fault struct {
	What string // holder, token, late, early, silent, idle, outlived
	At   int64
	Ops  []*history.Op // that show it
	Text string
}

// Holders looks for the simplest form of a second holder: at one moment two owners had both received the reply that
// they have the lock, and for both the lease, counted from the request, had not ended, and no release had been sent. It
// explains what Porcupine has found, and finds less: not every illegal history has such a pair.
func Holders(family *history.Family, ops []*history.Op) []Fault {
	var faults []Fault
	held := reliancesOf(ops)
	for i, a := range held {
		for _, b := range held[i+1:] {
			if a.op.Owner == b.op.Owner || !conflict(a.op, b.op) || a.to <= b.from || b.to <= a.from {
				continue
			}
			from, to := latest(a.from, b.from), earliest(a.to, b.to)
			faults = append(faults, Fault{"holder", from, []*history.Op{a.op, b.op},
				fmt.Sprintf("%s (server %d) and %s (server %d) both hold %s for %.3f ms",
					a.op.Owner, a.op.Server, b.op.Owner, b.op.Server, family.Name, float64(to-from)/1e6)})
		}
	}
	return faults
}

// reliance is the time in which a client relies on what one reply has granted it.
type reliance struct {
	op       *history.Op
	from, to int64
}

func reliancesOf(ops []*history.Op) []reliance {
	ended := map[string][]*history.Op{} // by owner: what ends a hold
	for _, op := range ops {
		if op.Kind == history.Release || op.Kind == history.Close || op.Kind == history.Renew {
			ended[op.Owner] = append(ended[op.Owner], op)
		}
	}
	var held []reliance
	for _, op := range ops {
		if op.Kind != history.Acquire || op.Outcome != history.Done || op.Permits > 0 {
			continue
		}
		to := op.Call + int64(op.Lease)
		for _, end := range ended[op.Owner] {
			if end.Call >= op.Return && end.Call < to {
				to = end.Call
			}
		}
		if to > op.Return {
			held = append(held, reliance{op, op.Return, to})
		}
	}
	return held
}

func conflict(a, b *history.Op) bool {
	for _, x := range a.Keys {
		for _, y := range b.Keys {
			if x.At == y.At && (x.Mode != history.Read || y.Mode != history.Read) {
				return true
			}
		}
	}
	return false
}

func latest(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}

func earliest(a, b int64) int64 {
	if a < b {
		return a
	}
	return b
}
