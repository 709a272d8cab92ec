package check

import (
	"fmt"
	"sort"

	"torture/history"
)

// fenced is an answer with a token, and since when it may have been granted.
type fenced struct {
	*history.Op
	since int64
}

// Tokens judges the fencing tokens of a family of one key: who was answered before another asked has the smaller
// token, and no two owners have the same one. That is so in every setting.
func Tokens(family *history.Family) (count int, faults []Fault) {
	asked := fencedOf(family.Ops)
	sort.Slice(asked, func(i, j int) bool { return asked[i].since < asked[j].since })
	answered := append([]fenced(nil), asked...)
	sort.Slice(answered, func(i, j int) bool { return answered[i].Return < answered[j].Return })

	owners := map[int64]*history.Op{}
	var largest *history.Op
	next := 0
	for _, op := range asked {
		for ; answered[next].Return < op.since; next++ {
			if largest == nil || answered[next].Value > largest.Value {
				largest = answered[next].Op
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
	return len(asked), faults
}

// fencedOf are the answers with a token. A re-entry keeps its token, also on a master beside which another one has
// given a larger one meanwhile: it was granted when the token was first asked for, perhaps without an answer.
func fencedOf(ops []*history.Op) []fenced {
	var asked []fenced
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
		asked = append(asked, one)
	}
	return asked
}
