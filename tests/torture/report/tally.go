// Package report counts what happened, and shows faults.
package report

import (
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"torture/check"
	"torture/history"
)

// Tally is what a run has done so far.
type Tally struct {
	mu        sync.Mutex
	ops       map[string]int // by kind and outcome
	total     int
	failovers map[string]int
	families  map[string]int // checked, by kind
	parts     int
	unknown   int
	checked   int            // operations that Porcupine has checked
	excluded  map[string]int // families that were not checked, by reason
	tokens    int
	waits     int
	faults    map[string]int
	first     []string // files of faults
}

// NewTally returns a tally in which all is 0.
func NewTally() *Tally {
	return &Tally{ops: map[string]int{}, failovers: map[string]int{}, families: map[string]int{}, faults: map[string]int{},
		excluded: map[string]int{}}
}

// Op counts an operation.
func (t *Tally) Op(op *history.Op) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total++
	t.ops[op.Kind.String()+" "+op.Outcome.String()]++
}

// Failover counts a failover.
func (t *Tally) Failover(how string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failovers[how]++
}

// Checked counts a family that has been checked.
func (t *Tally) Checked(family *history.Family, verdict check.Verdict, tokens, waits int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.families[family.Kind]++
	t.parts += verdict.Parts
	t.unknown += verdict.Unknown
	t.checked += verdict.Ops
	t.tokens += tokens
	t.waits += waits
}

// Excluded counts a family that was not checked, because of what happened to the machine.
func (t *Tally) Excluded(why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.excluded[why]++
}

// Fault counts a fault, and records where it is shown.
func (t *Tally) Fault(what, shown string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults[what]++
	if len(t.first) < 10 {
		t.first = append(t.first, shown)
	}
}

// Faults returns how many faults of a kind there are; with "", of all kinds.
func (t *Tally) Faults(what string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if what != "" {
		return t.faults[what]
	}
	return sum(t.faults)
}

// Granted returns how many acquisitions were granted.
func (t *Tally) Granted() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ops["acquire done"]
}

func sum(counts map[string]int) (all int) {
	for _, n := range counts {
		all += n
	}
	return all
}

func list(counts map[string]int) string {
	var names, words []string
	for name := range counts {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		words = append(words, fmt.Sprintf("%d %s", counts[name], name))
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

// Line returns the progress of the run.
func (t *Tally) Line(elapsed time.Duration) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("%4.0f s  %d operations, %d failovers, %d histories checked, %d undecided, faults: %s",
		elapsed.Seconds(), t.total, sum(t.failovers), sum(t.families), t.unknown, list(t.faults))
}

// Summary returns all counts.
func (t *Tally) Summary() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "  operations  %d: %s\n", t.total, list(t.ops))
	fmt.Fprintf(&b, "  failovers   %d: %s\n", sum(t.failovers), list(t.failovers))
	fmt.Fprintf(&b, "  histories   %d: %s; cut into %d parts, %d operations in them; undecided: %d; excluded: %s\n",
		sum(t.families), list(t.families), t.parts, t.checked, t.unknown, list(t.excluded))
	fmt.Fprintf(&b, "  tokens      %d\n", t.tokens)
	fmt.Fprintf(&b, "  waits       %d\n", t.waits)
	fmt.Fprintf(&b, "  faults      %s\n", list(t.faults))
	for _, shown := range t.first {
		fmt.Fprintf(&b, "    %s\n", shown)
	}
	return b.String()
}
