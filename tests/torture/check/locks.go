// Package check judges histories.
package check

import (
	"sort"
	"time"

	"github.com/anishathalye/porcupine"

	"torture/history"
	"torture/models"
)

// matters tells whether the operation changes what others may have: the rest never restricts anybody. An acquisition
// without an answer is nobody's: its client counts on nothing; but one with SESSION may have bound what the owner had
// before to a connection that has been closed.
func matters(op *history.Op) bool {
	switch op.Kind {
	case history.Acquire:
		return op.Outcome == history.Done || (op.Outcome == history.Unknown && op.Session)
	case history.Release:
		return op.Outcome != history.Failed
	case history.Renew:
		// One that answers NOREPLICAS may stand.
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

// relevant are the operations that matter, in order. What was not answered, or refused after it was done, may happen
// at any time from then on; but after the last lease of its owner it makes no difference any more, and the fewer
// operations are open, the less there is to be tried.
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

// parts cuts a history at quiet points: moments at which nothing is under way, and all holds have ended, released or
// with their leases. What comes after one is as in the beginning.
func parts(ops []porcupine.Operation, rules models.Rules) [][]porcupine.Operation {
	var all [][]porcupine.Operation
	busy, begin := newBusyUntil(rules), 0
	for i, op := range ops {
		if i > begin && busy.isQuietAt(op.Call) {
			all = append(all, ops[begin:i])
			busy, begin = newBusyUntil(rules), i
		}
		busy.note(op.Input.(*history.Op))
	}
	return append(all, ops[begin:])
}

// busyUntil is until when something of what has been seen goes on, at the latest.
type busyUntil struct {
	rules  models.Rules
	answer int64
	holds  map[holdOf]int64
	bound  map[string]bool // owners whose holds a server renews, until it is known that their connection has closed
}

type holdOf struct {
	owner string
	mode  history.Mode
}

func newBusyUntil(rules models.Rules) *busyUntil {
	return &busyUntil{rules: rules, holds: map[holdOf]int64{}, bound: map[string]bool{}}
}

func (b *busyUntil) note(op *history.Op) {
	if op.Return != history.Never && b.answer < op.Return {
		b.answer = op.Return
	}
	takes := op.Kind == history.Acquire || op.Kind == history.Renew
	switch {
	case takes && op.Session && op.Outcome == history.Done:
		b.bound[op.Owner] = true
	case op.Kind == history.Close:
		delete(b.bound, op.Owner)
	}
	for _, mode := range op.Mode.Each() {
		hold := holdOf{op.Owner, mode}
		switch {
		case takes:
			b.holds[hold] = latest(b.holds[hold], leaseEnd(op, b.rules))
		case op.Kind == history.Release && releasesAll(op):
			delete(b.holds, hold)
		}
	}
}

func releasesAll(op *history.Op) bool {
	if len(op.Keys) > 1 {
		return op.Outcome == history.Done && op.Value == int64(len(op.Keys))
	}
	return op.Outcome == history.NotHeld || (op.Outcome == history.Done && op.Value == 0)
}

// leaseEnd is when a lease has ended, at the latest.
func leaseEnd(op *history.Op, rules models.Rules) int64 {
	switch {
	case op.Outcome == history.NotHeld:
		return op.Return
	case op.Outcome != history.Done: // the model only has it end what is longer
		return op.Call
	case op.Session && rules.Strict:
		return history.Never
	case op.Session:
		return op.Return + int64(rules.DefaultLease)
	default:
		return op.Return + int64(op.Lease)
	}
}

// lastEnds is when the last lease of each owner has ended, at the latest.
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
	if b.answer >= moment {
		return false
	}
	for hold, end := range b.holds {
		if end >= moment || b.bound[hold.owner] {
			return false
		}
	}
	return true
}

// Verdict is what Porcupine says of a family.
type Verdict struct {
	Parts, Unknown int
	Ops            int // that were looked at
	Illegal        []porcupine.Operation
	Info           porcupine.LinearizationInfo // of the illegal part
}

// Locks judges one family. Each part has so much time.
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

// shortest is the history up to the first answer that cannot be explained, so that what is shown ends with the fault.
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

// upTo is the history as it was known at a moment: what is not answered yet may happen, or not.
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
