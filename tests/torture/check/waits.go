package check

import (
	"fmt"
	"sort"
	"time"

	"torture/history"
)

// Waits has the limits of time, and what excuses a wait.
type Waits struct {
	Slack   time.Duration                         // how late a reply may be on a busy machine; clients wait longer
	Excuses func(server int, from, to int64) bool // whether that server or its network failed in that time
	Stalls  func(from, to int64) time.Duration    // how long the machine itself was stalled in that time
	Idle    time.Duration                         // how long a lock may be free while a client waits for it
	Strict  bool
	Reserve time.Duration // lock.fair-reserve
}

// early is how much before its BLOCK a wait may end: it ends at a whole ms of a clock that may be slewed.
const early = 2 * time.Millisecond

// Late finds waits whose reply came too long after their BLOCK, or not at all, and those with a null reply before the
// end of their BLOCK.
func (w Waits) Late(family *history.Family) (count int, faults []Fault) {
	cancelled := map[string]bool{}
	for _, op := range family.Ops {
		if op.Kind == history.Cancel {
			cancelled[op.Owner] = true
		}
	}
	for _, op := range family.Ops {
		if op.Kind != history.Acquire || op.Block == 0 {
			continue
		}
		count++
		if fault := w.lateness(op, cancelled[op.Owner]); fault != "" {
			faults = append(faults, Fault{"wait", op.Return, []*history.Op{op}, fault})
		}
	}
	return count, faults
}

func (w Waits) lateness(op *history.Op, cancelled bool) string {
	took := time.Duration(op.Return - op.Call)
	late := took-op.Block-w.Stalls(op.Call, op.Return) > w.Slack && !w.excused(op)
	switch {
	case op.Outcome == history.Unknown && op.Text != "silence":
		return ""
	case late && op.Outcome == history.Unknown:
		return fmt.Sprintf("%s: BLOCK %v, and no reply after %v", op.Owner, op.Block, took)
	case late:
		return fmt.Sprintf("%s: BLOCK %v, reply after %v", op.Owner, op.Block, took)
	}
	// A later request with ONCE of the same owner takes over the position of the first, whose reply is null.
	if op.Outcome == history.Null && took < op.Block-early && !cancelled && !op.Once {
		return fmt.Sprintf("%s: BLOCK %v, null reply after %v", op.Owner, op.Block, took)
	}
	return ""
}

func (w Waits) excused(op *history.Op) bool {
	return w.Excuses(op.Server, op.Call, op.Return)
}

// Forgotten finds waits that ended with null although for a long time no client can have held the lock: waiters that
// were forgotten. Only for histories without failures, in which it is known who may hold the lock.
func (w Waits) Forgotten(family *history.Family) (faults []Fault) {
	if !w.Strict || len(family.Keys) > 1 {
		return nil
	}
	spans := w.maybeHeld(family.Ops)
	for _, op := range family.Ops {
		if op.Kind != history.Acquire || op.Block == 0 || op.Outcome != history.Null || w.excused(op) {
			continue
		}
		if from, to := longestGap(spans, op.Call, op.Return); time.Duration(to-from)-w.Stalls(from, to) > w.Idle {
			faults = append(faults, Fault{"idle", op.Return, []*history.Op{op},
				fmt.Sprintf("%s was not granted the lock, which was free for %v", op.Owner, time.Duration(to-from))})
		}
	}
	return faults
}

// maybeHeld returns the times in which an owner may hold the lock, or have a reserved position ahead of others, in
// order.
func (w Waits) maybeHeld(ops []*history.Op) []history.Span {
	last := map[string]*history.Op{}
	for _, op := range ops {
		if old := last[op.Owner]; old == nil || old.Return < op.Return {
			last[op.Owner] = op
		}
	}
	var spans []history.Span
	for _, op := range ops {
		to := op.Return
		switch {
		case op.Kind != history.Acquire && op.Kind != history.Renew:
			continue
		case op.Outcome == history.Unknown:
			to += int64(op.Lease + w.Reserve)
		case op.Outcome != history.Done:
			continue
		case last[op.Owner].Kind == history.Release && last[op.Owner].Outcome == history.Done && last[op.Owner].Value == 0:
			to = last[op.Owner].Return
		case op.Session:
			to = last[op.Owner].Return + int64(op.Lease+w.Reserve)
		default:
			to = latest(to+int64(op.Lease), last[op.Owner].Return+int64(op.Lease))
		}
		spans = append(spans, history.Span{From: op.Call, To: to})
	}
	sort.Slice(spans, func(i, j int) bool { return spans[i].From < spans[j].From })
	return spans
}

// longestGap returns the longest time within [from, to] that no span covers. Spans are in order.
func longestGap(spans []history.Span, from, to int64) (int64, int64) {
	var begin, end int64
	at := from
	for _, span := range spans {
		if span.From > to {
			break
		}
		if span.From-at > end-begin {
			begin, end = at, span.From
		}
		at = latest(at, span.To)
	}
	if to-at > end-begin {
		begin, end = at, to
	}
	return begin, end
}
