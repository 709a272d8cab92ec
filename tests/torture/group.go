package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"torture/clients"
	"torture/faults"
	"torture/history"
	"torture/report"
	"torture/servers"
)

// group is a master with its replicas, their coordinator, and their clients.
type group struct {
	servers     []*servers.Server
	coordinator *faults.Coordinator
	families    *clients.Families
	workers     []*clients.Worker
}

const (
	serversOfGroup  = 3
	familiesOfGroup = 12
)

// failed returns whether the server or its network failed in that time, or did not get a processor.
func (g *group) failed(server int, from, to int64) bool {
	s := g.servers[server]
	return len(s.Failures.Within(from, to)) > 0 || len(s.Slow.Within(from, to)) > 0
}

// slowest returns the longest time in which one of the servers did not reply, although it was not made to fail.
func (g *group) slowest(from, to int64) (longest time.Duration) {
	for _, server := range g.servers {
		for _, slow := range server.Slow.Within(from, to) {
			if len(server.Failures.Within(slow.From, slow.To)) == 0 {
				longest = longer(longest, slow.Length())
			}
		}
	}
	return longest
}

func (g *group) crashed() (texts []string) {
	for _, server := range g.servers {
		if text := server.Crashed(); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

func (g *group) close() {
	for _, server := range g.servers {
		server.Close()
	}
}

// newGroup starts the servers, and returns when the replicas are in sync.
func newGroup(number int, set setting, program servers.Program, run groupRun) (*group, error) {
	g := &group{}
	program.Config = append(program.Config, set.config...)
	for i := 0; i < serversOfGroup; i++ {
		server, err := servers.New(i, fmt.Sprintf("g%d-s%d", number, i), program)
		if server != nil {
			g.servers = append(g.servers, server)
		}
		if err != nil {
			g.close()
			return nil, err
		}
	}
	g.coordinator = &faults.Coordinator{Settings: set.faults, Servers: g.servers, Clock: run.clock,
		Events: &history.Spans{}, Count: run.tally.Failover}
	if err := g.coordinator.Begin(run.seed + int64(number)*7919); err != nil {
		g.close()
		return nil, err
	}
	g.families = clients.NewFamilies(&clients.Families{Clock: run.clock, Group: number, Shortest: set.life,
		Done: func(family *history.Family) { run.checked <- family }}, familiesOfGroup, run.seed+int64(number))
	for i := 0; i < run.clients; i++ {
		g.workers = append(g.workers, &clients.Worker{ID: i, Settings: set.clients, Clock: run.clock,
			View: g.coordinator.View, Families: g.families, Count: run.tally.Op})
	}
	return g, nil
}

// groupRun is what all groups of a run have in common.
type groupRun struct {
	clock   *history.Clock
	tally   *report.Tally
	seed    int64
	clients int // of each group
	checked chan<- *history.Family
}

// run works until the context has ended and all clients have finished.
func (g *group) run(ctx context.Context, run groupRun) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	for _, server := range g.servers {
		all.Add(1)
		go func(s *servers.Server) {
			defer all.Done()
			s.WatchPings(ctx, run.clock)
		}(server)
	}
	for _, worker := range g.workers {
		all.Add(1)
		go func(w *clients.Worker) {
			defer all.Done()
			w.Run(ctx, run.seed*1000003+int64(w.ID))
		}(worker)
	}
	err := g.coordinator.Run(ctx)
	cancel() // when nothing fails any more, there is nothing to find
	all.Wait()
	g.families.Finish()
	return err
}
