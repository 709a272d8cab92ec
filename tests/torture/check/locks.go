// Package check checks histories.
package check

import (
	"sort"
	"time"

	"github.com/anishathalye/porcupine"

	"torture/history"
	"torture/models"
)

// matters returns whether the operation changes what others may have: any other one never restricts an owner. On an
// acquisition without a reply no client relies; but one with SESSION may have bound the owner's earlier holds to a
// connection that has been closed.
func matters(op *history.Op) bool {
	switch op.Kind {
	case history.Acquire:
		return op.Outcome == history.Done || (op.Outcome == history.Unknown && op.Session)
	case history.Release:
		return op.Outcome != history.Failed
	case history.Renew:
		// One with the reply NOREPLICAS may be in effect.
		return true
	case history.Guard:
		return op.Outcome == history.Done || op.Outcome == history.NotHeld
	case history.Force:
		return op.Outcome == history.Done || op.Outcome == history.Unknown
	case history.Close:
		return true
	}
	return false
}

// relevant returns the operations that matter, in order. An operation without a reply, or one that was refused after it
// was done, may happen at any time from then on. After the last lease of its owner it makes no difference any more; and
// the fewer operations are open, the less has to be tried.
func relevant(ops []*history.Op, rules models.Rules) []porcupine.Operation {
	var found []porcupine.Operation
	last := lastEnds(ops, rules)
	for _, op := range ops {
		if !matters(op) {
			continue
		}
		if op.Outcome == history.Unknown || op.Outcome == history.Failed || op.Kind == history.Close {
			open := *op
			open.Return = history.Never
			if op.Kind != history.Force {
				open.Return = earliest(latest(op.Call, last[op.Owner])+1, history.Never)
			}
			op = &open
		}
		found = append(found, porcupine.Operation{
			ClientId: op.Client, Input: op, Output: op.Value, Call: op.Call, Return: op.Return,
		})
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].Call < found[j].Call })
	return found
}

// parts cuts a history at quiet points: moments at which no operation is under way, and all holds were released or
// their leases have ended. After a quiet point the state is that of the beginning.
func parts(ops []porcupine.Operation, rules models.Rules) [][]porcupine.Operation {
	var all [][]porcupine.Operation
	busy, begin := newBusyUntil(rules), 0
	for i, op := range ops {
		if i > begin && busy.isQuietAt(op.Call) {
			all = append(all, ops[begin:i])
			busy, begin = newBusyUntil(rules), i
		}
		busy.record(op.Input.(*history.Op))
	}
	return append(all, ops[begin:])
}

// busyUntil is until when the operations and holds that were recorded last, at the latest.
type busyUntil struct {
	rules models.Rules
	reply int64
	holds map[holdOf]int64
	bound map[string]bool // owners whose holds a server renews, until their connection is known to be closed
}

type holdOf struct {
	owner string
	history.Key
}

func newBusyUntil(rules models.Rules) *busyUntil {
	return &busyUntil{rules: rules, holds: map[holdOf]int64{}, bound: map[string]bool{}}
}

func (b *busyUntil) record(op *history.Op) {
	if op.Return != history.Never && b.reply < op.Return {
		b.reply = op.Return
	}
	takes := op.Kind == history.Acquire || op.Kind == history.Renew
	switch {
	case takes && op.Session && op.Outcome == history.Done:
		b.bound[op.Owner] = true
	case op.Kind == history.Close:
		delete(b.bound, op.Owner)
	}
	for _, key := range op.Keys {
		for _, mode := range key.Mode.Each() {
			hold := holdOf{op.Owner, history.Key{At: key.At, Mode: mode}}
			switch {
			case takes:
				b.holds[hold] = latest(b.holds[hold], leaseEnd(op, b.rules))
			case op.Kind == history.Release && releasesAll(op):
				delete(b.holds, hold)
			}
		}
	}
}

func releasesAll(op *history.Op) bool {
	if len(op.Keys) > 1 {
		return op.Outcome == history.Done && op.Value == int64(len(op.Keys))
	}
	return op.Outcome == history.NotHeld || (op.Outcome == history.Done && op.Value == 0)
}

// leaseEnd returns when a lease has ended, at the latest.
func leaseEnd(op *history.Op, rules models.Rules) int64 {
	switch {
	case op.Outcome == history.NotHeld:
		return op.Return
	case op.Outcome != history.Done: // in the model it can only shorten a lease
		return op.Call
	case op.Session && rules.Strict:
		return history.Never
	case op.Session:
		return op.Return + int64(rules.DefaultLease)
	default:
		return op.Return + int64(op.Lease)
	}
}

// lastEnds returns when the last lease of each owner has ended, at the latest.
func lastEnds(ops []*history.Op, rules models.Rules) map[string]int64 {
	last := map[string]int64{}
	for _, op := range ops {
		if op.Kind == history.Acquire || op.Kind == history.Renew {
			last[op.Owner] = latest(last[op.Owner], leaseEnd(op, rules))
		}
	}
	return last
}

func (b *busyUntil) isQuietAt(moment int64) bool {
	if b.reply >= moment {
		return false
	}
	for hold, end := range b.holds {
		if end >= moment || b.bound[hold.owner] {
			return false
		}
	}
	return true
}

// Verdict is the result of Porcupine for a family.
type Verdict struct {
	Parts, Unknown int
	Ops            int // that were checked
	Illegal        []porcupine.Operation
	Info           porcupine.LinearizationInfo // of the illegal part
}

// Locks checks one family. `limit` is the time for each part.
func Locks(family *history.Family, rules models.Rules, limit time.Duration) Verdict {
	var verdict Verdict
	model := models.Model(rules)
	for _, part := range parts(relevant(family.Ops, rules), rules) {
		if len(part) == 0 {
			continue
		}
		verdict.Parts++
		verdict.Ops += len(part)
		switch porcupine.CheckOperationsTimeout(model, part, limit) {
		case porcupine.Unknown:
			verdict.Unknown++
		case porcupine.Illegal:
			verdict.Illegal = shortest(model, part, limit)
			_, verdict.Info = porcupine.CheckOperationsVerbose(model, verdict.Illegal, limit)
			return verdict
		}
	}
	return verdict
}

// shortest returns the history up to the first reply that no order explains, so that what is shown ends with the fault.
func shortest(model porcupine.Model, ops []porcupine.Operation, limit time.Duration) []porcupine.Operation {
	var returns []int64
	for _, op := range ops {
		if op.Return != history.Never {
			returns = append(returns, op.Return)
		}
	}
	sort.Slice(returns, func(i, j int) bool { return returns[i] < returns[j] })
	n := sort.Search(len(returns), func(n int) bool {
		return porcupine.CheckOperationsTimeout(model, upTo(ops, returns[n]), limit) == porcupine.Illegal
	})
	if n == len(returns) {
		return ops
	}
	return upTo(ops, returns[n])
}

// upTo returns the history as it was known at a moment: an operation without a reply yet may happen, or not.
func upTo(ops []porcupine.Operation, moment int64) []porcupine.Operation {
	var known []porcupine.Operation
	for _, op := range ops {
		if op.Call > moment {
			continue
		}
		if op.Return > moment {
			open := *op.Input.(*history.Op)
			if (open.Kind == history.Acquire && !open.Session) || open.Kind == history.Guard {
				continue
			}
			open.Outcome, open.Return = history.Unknown, history.Never
			op.Input, op.Return = &open, history.Never
		}
		known = append(known, op)
	}
	return known
}
