package check

import (
	"fmt"
	"sort"
	"time"

	"torture/history"
)

// Outlived finds holds that still existed on a server when the lease must have expired: counted from the reply, while
// Porcupine's model counts from the request. Owners with a request without a reply are left out, because the request
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
				fmt.Sprintf("%s: the reply to %s was %s, %.3f ms after the lease had expired",
					op.Owner, op.Kind, op.Reply(), float64(op.Call-end)/1e6)})
		}
	}
	return faults
}

// outlives returns the first operation that succeeded too late, and when the lease had expired.
func outlives(ops []*history.Op, slack int64) (late *history.Op, expired int64) {
	ends := map[int]int64{} // by key
	for _, op := range ops {
		if op.Outcome == history.Unknown || op.Session || op.Kind == history.Close {
			return nil, 0
		}
		// A renewal with the reply NOREPLICAS is in effect.
		takes := op.Kind == history.Acquire || op.Kind == history.Renew
		for _, key := range op.Keys {
			end := ends[key.At]
			if late == nil && op.Kind != history.Acquire && op.Outcome == history.Done && op.Call > end+slack {
				late, expired = op, end
			}
			if takes && (op.Outcome == history.Done || op.Outcome == history.Failed) {
				ends[key.At] = latest(end, op.Return+int64(op.Lease))
			}
		}
	}
	return late, expired
}
