package models

import (
	"time"

	"github.com/anishathalye/porcupine"

	"torture/history"
)

// Rules are what may be assumed in a setting.
type Rules struct {
	// Strict: no server failed, so a hold exists until its end, and counts are exact.
	Strict       bool
	DefaultLease time.Duration
	Grace        time.Duration // lock.session-grace
	// Leases end at a whole ms of the time that the server read before it executed the command.
	Tolerance time.Duration
}

// Model returns the model of the locks of a family.
func Model(rules Rules) porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return &state{} },
		Step: func(before, input, _ interface{}) (bool, interface{}) {
			after := before.(*state).clone()
			do := &step{rules: rules, s: after, op: input.(*history.Op)}
			return do.take(), after
		},
		Equal:         equal,
		Hash:          hash,
		DescribeState: describeState,
		DescribeOperation: func(input, _ interface{}) string {
			op := input.(*history.Op)
			return op.String() + " -> " + op.Reply()
		},
	}
}

// step is one operation that happens, at the earliest moment at which it can. Each condition only requires that it does
// not happen before some moment, so the earliest moment of each operation is the best for all. An operation must be
// later than another only if the two cannot be swapped; otherwise any order is accepted, so that Porcupine does not have
// to try them all.
type step struct {
	rules Rules
	s     *state
	op    *history.Op
	at    int64 // the moment
}

func (do *step) take() bool {
	do.notBefore(do.op.Call)
	ok := true
	switch do.op.Kind {
	case history.Acquire:
		ok = do.acquire()
	case history.Release:
		ok = do.release()
	case history.Renew:
		ok = do.renew()
	case history.Guard:
		ok = do.guard()
	case history.Force:
		do.force()
	case history.Close:
		do.close()
	}
	return ok && do.at <= do.op.Return
}

func (do *step) notBefore(moment int64) {
	if do.at < moment {
		do.at = moment
	}
}

// leaseEnd returns when a lease that begins at that moment has ended, at the earliest.
func (do *step) leaseEnd() int64 {
	lease := do.op.Lease
	if do.op.Session {
		if do.rules.Strict {
			return history.Never
		}
		lease = do.rules.DefaultLease
	}
	return do.at + int64(lease-do.rules.Tolerance)
}
