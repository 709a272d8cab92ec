package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"torture/history"
	"torture/report"
	"torture/servers"
)

// runSetting runs one setting, and returns what is wrong, or "".
func runSetting(set setting, o options, limit time.Duration) string {
	fmt.Printf("=== %s, seed %d\n", set.name, o.seed)
	tally := report.NewTally()
	begun := time.Now()
	text := execute(set, o, limit, tally)
	fmt.Printf("  %s after %.0f s, seed %d\n%s", set.name, time.Since(begun).Seconds(), o.seed, tally.Summary())
	if text != "" {
		return text
	}
	return runFault(set, tally)
}

// runFault returns what is wrong with the run as a whole, or "".
func runFault(set setting, tally *report.Tally) string {
	holders, others := tally.Faults("holder"), tally.Faults("")
	others -= holders
	if set.finds { // for some illegal histories the proof takes long
		others -= tally.Faults("undecided")
	}
	switch {
	case others > 0:
		return "faults"
	case tally.Granted() == 0:
		return "nothing was granted"
	case set.finds && holders == 0:
		return "no second holder was found, and there must be one"
	case set.finds:
		return ""
	case holders > 0:
		return "a second holder"
	}
	return ""
}

// execute runs the setting, and returns why it could not.
func execute(set setting, o options, limit time.Duration, tally *report.Tally) string {
	folder := filepath.Join(o.folder, set.name)
	if err := os.RemoveAll(folder); err != nil {
		return err.Error()
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	clock := history.NewClock()
	c := &checker{setting: set, seed: o.seed, folder: o.folder, tally: tally, limit: patient(10 * time.Second),
		stalls: &stalls{clock: clock}, queue: make(chan *history.Family, 10000), done: make(chan struct{}),
		found: func() {
			if set.finds {
				cancel()
			}
		}}
	program := servers.Program{Server: o.server, Module: o.module, Folder: folder}
	run := groupRun{clock: clock, tally: tally, seed: o.seed, clients: o.clients, checked: c.queue}
	for i := 0; i < o.groups; i++ {
		one, err := newGroup(i, set, program, run)
		if err != nil {
			return err.Error()
		}
		defer one.close()
		c.groups = append(c.groups, one)
	}
	go c.run()
	finished := make(chan struct{})
	defer close(finished)
	go c.stalls.watch(finished) // longer than the context lasts: clients still end their work
	go showProgress(ctx, tally)
	return work(ctx, cancel, c, run)
}

func work(ctx context.Context, cancel func(), c *checker, run groupRun) string {
	failed := make(chan error)
	for _, one := range c.groups {
		go func(g *group) {
			err := g.run(ctx, run)
			cancel() // if one cannot continue, all stop
			failed <- err
		}(one)
	}
	var texts []string
	for range c.groups {
		if err := <-failed; err != nil {
			texts = append(texts, err.Error())
		}
	}
	close(c.queue)
	<-c.done
	for _, one := range c.groups {
		texts = append(texts, one.crashed()...)
	}
	return strings.Join(texts, "; ")
}

// showProgress prints a line from time to time.
func showProgress(ctx context.Context, tally *report.Tally) {
	for begun := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(15 * time.Second):
			fmt.Println(tally.Line(time.Since(begun)))
		}
	}
}
