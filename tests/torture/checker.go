package main

import (
	"fmt"
	"time"

	"torture/check"
	"torture/history"
	"torture/report"
)

// checker is the history checker. It checks families as they end, one at a time.
type checker struct {
	setting setting
	seed    int64
	folder  string
	tally   *report.Tally
	stalls  *stalls
	groups  []*group
	limit   time.Duration // for one part
	found   func()        // is called when a second holder was found
	queue   chan *history.Family
	done    chan struct{}
}

// kept is how many faults are written to files; further ones are only counted.
const kept = 20

func (c *checker) run() {
	for family := range c.queue {
		c.check(family)
	}
	close(c.done)
}

// excluded returns what happened to the machine that makes correct replies look wrong, or "". On a machine that was
// stalled, the acknowledgement of a replica may have been under way for longer than the quarantine allows for, and a
// master renews sessions too late.
func (c *checker) excluded(family *history.Family, verdict check.Verdict) string {
	from, to := family.Began-int64(time.Second), family.Ended
	maxStall := c.setting.maxStall
	stall := longer(c.stalls.longest(from, to), c.groups[family.Group].slowest(from, to))
	switch {
	case c.stalls.clockSet(from, to):
		return "the clock was set"
	case verdict.Illegal != nil && maxStall > 0 && stall > maxStall:
		return "illegal, but the machine was stalled"
	}
	return ""
}

func (c *checker) check(family *history.Family) {
	group := c.groups[family.Group]
	waits := check.Waits{
		Slack: patient(400*ms) + c.setting.clients.ReplicasLimit,
		Idle:  patient(120 * ms), Excuses: group.failed, Stalls: c.stalls.within,
		Strict: c.setting.rules.Strict, Reserve: c.setting.reserve,
	}
	verdict := check.Locks(family, c.setting.rules, c.limit)
	if why := c.excluded(family, verdict); why != "" {
		c.tally.Excluded(why)
		return
	}
	tokens, faults := check.Tokens(family)
	waited, late := waits.Late(family)
	faults = append(faults, late...)
	faults = append(faults, waits.Forgotten(family)...)
	faults = append(faults, check.Outlived(family, 20*ms)...)
	if verdict.Illegal != nil {
		faults = append(faults, secondHolder(family, verdict))
	}
	if verdict.Unknown > 0 {
		faults = append(faults, check.Fault{What: "undecided",
			Text: fmt.Sprintf("%s: %d parts not decided in %v", family.Name, verdict.Unknown, c.limit)})
	}
	c.tally.Checked(family, verdict, tokens, waited)
	if len(faults) > 0 {
		c.show(family, verdict, faults)
	}
}

// secondHolder returns the fault that Porcupine has found, described as simply as possible.
func secondHolder(family *history.Family, verdict check.Verdict) check.Fault {
	var ops []*history.Op
	for _, op := range verdict.Illegal {
		ops = append(ops, op.Input.(*history.Op))
	}
	if plain := check.Holders(family, ops); len(plain) > 0 {
		return plain[len(plain)-1]
	}
	return check.Fault{What: "holder", At: ops[len(ops)-1].Call, Text: family.Name + ": a reply that no order explains"}
}

func (c *checker) show(family *history.Family, verdict check.Verdict, faults []check.Fault) {
	path := "not kept"
	if c.tally.Faults("") < kept {
		events := c.groups[family.Group].coordinator.Events.Within(family.Began, family.Ended)
		var err error
		path, err = report.Keep(c.folder, report.Kept{Setting: c.setting.name, Seed: c.seed, Rules: c.setting.rules,
			Family: family, Events: events}, verdict, faults)
		if err != nil {
			path = err.Error()
		}
	}
	for _, fault := range faults {
		c.tally.Fault(fault.What, fmt.Sprintf("%s: %s: %s", fault.What, fault.Text, path))
		if fault.What == "holder" {
			c.found()
		}
	}
}
