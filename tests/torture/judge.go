package main

import (
	"fmt"
	"time"

	"torture/check"
	"torture/history"
	"torture/report"
)

// judge judges families as they end, one at a time.
type judge struct {
	setting setting
	seed    int64
	folder  string
	tally   *report.Tally
	stalls  *stalls
	groups  []*group
	limit   time.Duration // of one part
	found   func()        // a second holder
	queue   chan *history.Family
	done    chan struct{}
}

// kept is how many faults are written to files; more are counted.
const kept = 20

func (j *judge) run() {
	for family := range j.queue {
		j.judge(family)
	}
	close(j.done)
}

// aside says what the machine did then that makes right answers look wrong, or "". On one that stood still a replica's
// acknowledgement may have been under way for longer than a quarantine is made for; and a master renews sessions too late.
func (j *judge) aside(family *history.Family, verdict check.Verdict) string {
	from, to := family.Began-int64(time.Second), family.Ended
	stands := j.setting.stands
	stood := longer(j.stalls.longest(from, to), j.groups[family.Group].slowest(from, to))
	switch {
	case j.stalls.clockSet(from, to):
		return "the clock was set"
	case verdict.Illegal != nil && stands > 0 && stood > stands:
		return "illegal, but the machine stood still"
	}
	return ""
}

func (j *judge) judge(family *history.Family) {
	group := j.groups[family.Group]
	waits := check.Waits{
		Slack: patient(400*ms) + j.setting.clients.ReplicasLimit,
		Idle:  patient(120 * ms), Excuses: group.failed, Stalls: j.stalls.within,
		Strict: j.setting.rules.Strict, Reserve: j.setting.reserve,
	}
	verdict := check.Locks(family, j.setting.rules, j.limit)
	if why := j.aside(family, verdict); why != "" {
		j.tally.Aside(why)
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
			Text: fmt.Sprintf("%s: %d parts not decided in %v", family.Name, verdict.Unknown, j.limit)})
	}
	j.tally.Judged(family, verdict, tokens, waited)
	if len(faults) > 0 {
		j.show(family, verdict, faults)
	}
}

// secondHolder is the fault that Porcupine has found, in the plainest words that can be had.
func secondHolder(family *history.Family, verdict check.Verdict) check.Fault {
	var ops []*history.Op
	for _, op := range verdict.Illegal {
		ops = append(ops, op.Input.(*history.Op))
	}
	if plain := check.Holders(family, ops); len(plain) > 0 {
		return plain[len(plain)-1]
	}
	return check.Fault{What: "holder", At: ops[len(ops)-1].Call, Text: family.Name + ": an answer that nothing explains"}
}

func (j *judge) show(family *history.Family, verdict check.Verdict, faults []check.Fault) {
	path := "not kept"
	if j.tally.Faults("") < kept {
		events := j.groups[family.Group].coordinator.Events.Within(family.Began, family.Ended)
		var err error
		path, err = report.Keep(j.folder, report.Kept{Setting: j.setting.name, Seed: j.seed, Rules: j.setting.rules,
			Family: family, Events: events}, verdict, faults)
		if err != nil {
			path = err.Error()
		}
	}
	for _, fault := range faults {
		j.tally.Fault(fault.What, fmt.Sprintf("%s: %s: %s", fault.What, fault.Text, path))
		if fault.What == "holder" {
			j.found()
		}
	}
}
