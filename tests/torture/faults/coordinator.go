// Package faults makes servers fail, and promotes others: a coordinator like Sentinel, but so small that it is known
// exactly what it does.
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

// Settings is the coordinator's part of a setting.
type Settings struct {
	Calm      bool // no server fails
	Detection time.Duration
	// How long the old master continues next to the new one, and how long nothing fails between two failovers; both at
	// most.
	Overlap, Between time.Duration
	Only             string // the only way in which masters fail; "": all ways
}

// Coordinator has the servers of one group.
type Coordinator struct {
	Settings Settings
	Servers  []*servers.Server
	View     *clients.View
	Clock    *history.Clock
	Events   *history.Spans // what was done, for the reader of a history
	Count    func(failover string)

	rand   *rand.Rand
	master *servers.Server
}

// Begin makes the first server the master of the others, and waits until they are its replicas.
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

// Run causes one failure after the other until the context ends.
func (c *Coordinator) Run(ctx context.Context) error {
	for c.wait(ctx, c.upTo(c.Settings.Between)) {
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
func (c *Coordinator) wait(ctx context.Context, duration time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(duration):
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

func (c *Coordinator) record(format string, args ...interface{}) {
	now := c.Clock.Now()
	c.Events.Add(now, now, format, args...)
}

// failover makes the master fail and promotes a replica. Some time later the old master is made a replica.
func (c *Coordinator) failover(ctx context.Context) error {
	old, failure := c.master, failures[c.rand.Intn(len(failures))]
	for c.Settings.Only != "" && failure.name != c.Settings.Only {
		failure = failures[c.rand.Intn(len(failures))]
	}
	ended := old.Failures.Begin(c.Clock.Now(), failure.name)
	c.record("%s: %s", old.Name, failure.name)
	failure.begin(old)
	c.wait(ctx, c.upTo(c.Settings.Detection))
	if err := c.promote(old); err != nil {
		return err
	}
	c.Count(failure.name)
	c.wait(ctx, c.upTo(c.Settings.Overlap))
	c.record("%s: end of %s", old.Name, failure.name)
	if err := failure.end(c, ctx, old); err != nil {
		return err
	}
	c.wait(ctx, c.upTo(c.Settings.Detection)) // the old master continues a while longer next to the new one
	c.record("%s follows %s", old.Name, c.master.Name)
	if err := old.Follow(c.master); err != nil {
		return err
	}
	err := c.waitForReplicas()
	ended(c.Clock.Now() + int64(time.Second))
	return err
}

// promote detaches both replicas from the old master before it checks which of them has received the most. So nothing
// that a replica has acknowledged is lost, and no replica stays with the old master. It checks before it promotes, as
// Sentinel does: the offset of a master grows by itself.
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
	c.record("%s is the master, in place of %s", best.Name, old.Name)
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
		received, err := replica.Received()
		if err != nil {
			return nil, err
		}
		if best == nil || received > most {
			best, most = replica, received
		}
	}
	return best, nil
}

func (c *Coordinator) waitForReplicas() error {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		ready := 0
		for _, replica := range c.replicas() {
			// A server that is not a replica yet replies that it is a master, without the state of a link.
			text, err := replica.Command("ROLE")
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
