package check

import (
	"fmt"
	"sort"

	"torture/history"
)

// fenced is a reply with a token, and since when it may have been granted.
type fenced struct {
	*history.Op
	since int64
}

// Tokens checks the fencing tokens of a family of one key: an owner that received its reply before another sent its
// request has the smaller token, and no two owners have the same token. This holds in every setting.
func Tokens(family *history.Family) (count int, faults []Fault) {
	requested := fencedOf(family.Ops)
	sort.Slice(requested, func(i, j int) bool { return requested[i].since < requested[j].since })
	replied := append([]fenced(nil), requested...)
	sort.Slice(replied, func(i, j int) bool { return replied[i].Return < replied[j].Return })

	owners := map[int64]*history.Op{}
	var largest *history.Op
	next := 0
	for _, op := range requested {
		for ; replied[next].Return < op.since; next++ {
			if largest == nil || replied[next].Value > largest.Value {
				largest = replied[next].Op
			}
		}
		if largest != nil && (op.Value < largest.Value || (op.Value == largest.Value && op.Owner != largest.Owner)) {
			faults = append(faults, Fault{"token", op.Return, []*history.Op{largest, op.Op},
				fmt.Sprintf("%s has token %d after %s was given %d", op.Owner, op.Value, largest.Owner, largest.Value)})
		}
		if other := owners[op.Value]; other != nil && other.Owner != op.Owner {
			faults = append(faults, Fault{"token", op.Return, []*history.Op{other, op.Op},
				fmt.Sprintf("%s and %s both have token %d", other.Owner, op.Owner, op.Value)})
		}
		owners[op.Value] = op.Op
	}
	return len(requested), faults
}

// fencedOf returns the replies with a token. A re-entry keeps its token, even if another master has given a larger one
// meanwhile: it counts as granted when the token was first requested, perhaps without a reply.
func fencedOf(ops []*history.Op) []fenced {
	var requested []fenced
	for _, op := range ops {
		if op.Kind != history.Acquire || !op.Fenced || op.Outcome != history.Done {
			continue
		}
		one := fenced{op, op.Call}
		for _, earlier := range ops {
			same := earlier.Outcome == history.Done && earlier.Value == op.Value
			if earlier.Kind == history.Acquire && earlier.Fenced && earlier.Owner == op.Owner &&
				(same || earlier.Outcome == history.Unknown) {
				one.since = earliest(one.since, earlier.Call)
			}
		}
		requested = append(requested, one)
	}
	return requested
}
