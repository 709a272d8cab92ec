package check

import (
	"fmt"
	"sort"
	"time"

	"torture/history"
)

// Outlived finds holds that a server still knew after the lease must have been over: counted from the answer, where
// Porcupine's model counts from the question. Owners with a request that was not answered are left out, since that
// may be done at any time; and so are sessions.
func Outlived(family *history.Family, slack time.Duration) (faults []Fault) {
	byOwner := map[string][]*history.Op{}
	for _, op := range family.Ops {
		if op.Kind != history.Cancel && op.Kind != history.Force {
			byOwner[op.Owner] = append(byOwner[op.Owner], op)
		}
	}
	for _, ops := range byOwner {
		sort.Slice(ops, func(i, j int) bool { return ops[i].Call < ops[j].Call })
		if op, end := outlives(ops, int64(slack)); op != nil {
			faults = append(faults, Fault{"outlived", op.Return, ops,
				fmt.Sprintf("%s: %s was answered %s, %.3f ms after the lease was over",
					op.Owner, op.Kind, op.Answer(), float64(op.Call-end)/1e6)})
		}
	}
	return faults
}

// outlives finds the first answer that came too late, and when the lease was over.
func outlives(ops []*history.Op, slack int64) (late *history.Op, over int64) {
	var end int64
	for _, op := range ops {
		if op.Outcome == history.Unknown || op.Session || op.Kind == history.Close {
			return nil, 0
		}
		if late == nil && op.Kind != history.Acquire && op.Outcome == history.Done && op.Call > end+slack {
			late, over = op, end
		}
		// A renewal that answers NOREPLICAS stands.
		takes := op.Kind == history.Acquire || op.Kind == history.Renew
		if takes && (op.Outcome == history.Done || op.Outcome == history.Failed) {
			end = latest(end, op.Return+int64(op.Lease))
		}
	}
	return late, over
}
