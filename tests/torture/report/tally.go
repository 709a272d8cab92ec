// Package report counts what happened, and shows what should not have.
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
	families  map[string]int // judged, by kind
	parts     int
	unknown   int
	judged    int            // operations that Porcupine looked at
	aside     map[string]int // families that were not judged, by why
	tokens    int
	waits     int
	faults    map[string]int
	first     []string // files of faults
}

// NewTally is all 0.
func NewTally() *Tally {
	return &Tally{ops: map[string]int{}, failovers: map[string]int{}, families: map[string]int{}, faults: map[string]int{},
		aside: map[string]int{}}
}

// Op counts an operation.
func (t *Tally) Op(op *history.Op) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total++
	t.ops[op.Kind.String()+" "+op.Outcome.String()]++
}

// Failover counts one.
func (t *Tally) Failover(how string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failovers[how]++
}

// Judged counts a family that has been judged.
func (t *Tally) Judged(family *history.Family, verdict check.Verdict, tokens, waits int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.families[family.Kind]++
	t.parts += verdict.Parts
	t.unknown += verdict.Unknown
	t.judged += verdict.Ops
	t.tokens += tokens
	t.waits += waits
}

// Aside counts a family that was not judged, because of what the machine did.
func (t *Tally) Aside(why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.aside[why]++
}

// Fault counts one, and remembers where it is shown.
func (t *Tally) Fault(what, shown string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults[what]++
	if len(t.first) < 10 {
		t.first = append(t.first, shown)
	}
}

// Faults is how many of a kind there are; of all kinds, with "".
func (t *Tally) Faults(what string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if what != "" {
		return t.faults[what]
	}
	return sum(t.faults)
}

// Granted is how many acquisitions were answered by a lock.
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

// Line is how far it is.
func (t *Tally) Line(elapsed time.Duration) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("%4.0f s  %d operations, %d failovers, %d histories judged, %d undecided, faults: %s",
		elapsed.Seconds(), t.total, sum(t.failovers), sum(t.families), t.unknown, list(t.faults))
}

// Summary is all of it.
func (t *Tally) Summary() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "  operations  %d: %s\n", t.total, list(t.ops))
	fmt.Fprintf(&b, "  failovers   %d: %s\n", sum(t.failovers), list(t.failovers))
	fmt.Fprintf(&b, "  histories   %d: %s; cut into %d parts, %d operations in them; undecided: %d; set aside: %s\n",
		sum(t.families), list(t.families), t.parts, t.judged, t.unknown, list(t.aside))
	fmt.Fprintf(&b, "  tokens      %d\n", t.tokens)
	fmt.Fprintf(&b, "  waits       %d\n", t.waits)
	fmt.Fprintf(&b, "  faults      %s\n", list(t.faults))
	for _, shown := range t.first {
		fmt.Fprintf(&b, "    %s\n", shown)
	}
	return b.String()
}
