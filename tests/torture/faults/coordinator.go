// Package faults makes servers fail, and promotes others: a coordinator as Sentinel is one, small enough to know what
// it does.
package faults

import (
	"context"
	"fmt"
	"math/rand"
	"time"

	"torture/clients"
	"torture/history"
	"torture/servers"
)

// Settings are what the coordinator knows of a setting.
type Settings struct {
	Calm      bool // no server fails
	Detection time.Duration
	// For how long the old master goes on beside the new one, and how long all is well between two failovers.
	Beside, Well time.Duration
	Only         string // the only way in which masters fail; "": all ways
}

// Coordinator has the servers of one group.
type Coordinator struct {
	Settings Settings
	Servers  []*servers.Server
	View     *clients.View
	Clock    *history.Clock
	Events   *history.Spans // what was done, for whoever reads a history
	Count    func(failover string)

	rand   *rand.Rand
	master *servers.Server
}

// Begin makes the first server the master of the others, and waits until they follow.
func (c *Coordinator) Begin(seed int64) error {
	c.rand = rand.New(rand.NewSource(seed))
	c.master = c.Servers[0]
	for _, replica := range c.replicas() {
		if err := replica.Follow(c.master); err != nil {
			return err
		}
	}
	if err := c.waitForReplicas(); err != nil {
		return err
	}
	c.View = clients.NewView(clients.Master{Server: c.master.ID, Address: c.master.Clients.Address})
	return nil
}

// Run has one failure after the other until the context ends.
func (c *Coordinator) Run(ctx context.Context) error {
	for c.wait(ctx, c.upTo(c.Settings.Well)) {
		if c.Settings.Calm {
			continue
		}
		if c.rand.Intn(100) < 25 {
			c.disturb(ctx)
			continue
		}
		if err := c.failover(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *Coordinator) upTo(longest time.Duration) time.Duration {
	return time.Duration(c.rand.Int63n(int64(longest) + 1))
}

// wait returns false if the context has ended.
func (c *Coordinator) wait(ctx context.Context, so time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(so):
		return true
	}
}

func (c *Coordinator) replicas() []*servers.Server {
	var all []*servers.Server
	for _, server := range c.Servers {
		if server != c.master {
			all = append(all, server)
		}
	}
	return all
}

func (c *Coordinator) say(format string, args ...interface{}) {
	now := c.Clock.Now()
	c.Events.Add(now, now, format, args...)
}

// failover: the master fails, another takes its place, and some time later the old one comes back as a replica.
func (c *Coordinator) failover(ctx context.Context) error {
	old, failure := c.master, failures[c.rand.Intn(len(failures))]
	for c.Settings.Only != "" && failure.name != c.Settings.Only {
		failure = failures[c.rand.Intn(len(failures))]
	}
	ended := old.Failures.Begin(c.Clock.Now(), failure.name)
	c.say("%s: %s", old.Name, failure.name)
	failure.begin(old)
	c.wait(ctx, c.upTo(c.Settings.Detection))
	if err := c.promote(old); err != nil {
		return err
	}
	c.Count(failure.name)
	c.wait(ctx, c.upTo(c.Settings.Beside))
	c.say("%s: end of %s", old.Name, failure.name)
	if err := failure.end(c, ctx, old); err != nil {
		return err
	}
	c.wait(ctx, c.upTo(c.Settings.Detection)) // a while longer beside the new one
	c.say("%s follows %s", old.Name, c.master.Name)
	if err := old.Follow(c.master); err != nil {
		return err
	}
	err := c.waitForReplicas()
	ended(c.Clock.Now() + int64(time.Second))
	return err
}

// promote takes the replicas from the old master, both, before it looks which of them has got the most. So nothing
// that a replica has acknowledged is lost, and none goes on with the old master. It looks before it promotes, as
// Sentinel does: a master's offset grows by itself.
func (c *Coordinator) promote(old *servers.Server) error {
	replicas := c.replicas()
	for _, replica := range replicas {
		if err := replica.Leave(); err != nil {
			return err
		}
	}
	best, err := mostReceived(replicas)
	if err != nil {
		return err
	}
	if err := best.Promote(); err != nil {
		return err
	}
	c.master = best
	c.say("%s is the master, in place of %s", best.Name, old.Name)
	for _, replica := range replicas {
		if replica != best {
			if err := replica.Follow(best); err != nil {
				return err
			}
		}
	}
	c.View.Set(best.ID, best.Clients.Address)
	return nil
}

func mostReceived(replicas []*servers.Server) (best *servers.Server, err error) {
	var most int64
	for _, replica := range replicas {
		got, err := replica.Received()
		if err != nil {
			return nil, err
		}
		if best == nil || got > most {
			best, most = replica, got
		}
	}
	return best, nil
}

func (c *Coordinator) waitForReplicas() error {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		ready := 0
		for _, replica := range c.replicas() {
			// A replica that has not begun to follow says that it is a master, and knows no link.
			text, err := replica.Ask("ROLE")
			if role, is := text.([]interface{}); err == nil && is && len(role) > 3 && role[3] == "connected" {
				ready++
			}
		}
		if ready == len(c.Servers)-1 {
			return nil
		}
	}
	return fmt.Errorf("the replicas of %s are not in sync after 30 s", c.master.Name)
}
