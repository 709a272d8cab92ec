package faults

import (
	"context"
	"time"

	"torture/servers"
)

// failure is how a master fails, and how the failure ends. Afterwards the server runs, and does not know of the new
// master.
type failure struct {
	name  string
	begin func(master *servers.Server)
	end   func(c *Coordinator, ctx context.Context, master *servers.Server) error
}

var failures = []failure{
	{"killed", (*servers.Server).Kill,
		func(_ *Coordinator, _ context.Context, s *servers.Server) error { return s.Start() }},
	// Commands that have arrived meanwhile are still to be read, and its clients still wait.
	{"stopped", (*servers.Server).Stop,
		func(_ *Coordinator, _ context.Context, s *servers.Server) error { s.Continue(); return nil }},
	// As a virtual machine can be: when it continues, it has not been notified that its replicas have left.
	{"frozen",
		func(s *servers.Server) { s.Replicas.HoldBack(); s.Stop() },
		func(c *Coordinator, ctx context.Context, s *servers.Server) error {
			s.Continue()
			c.wait(ctx, c.upTo(1500*time.Millisecond))
			c.heal(s.Replicas)
			return nil
		}},
	{"isolated",
		func(s *servers.Server) { s.Replicas.HoldBack(); s.Clients.HoldBack() },
		func(c *Coordinator, _ context.Context, s *servers.Server) error {
			c.heal(s.Replicas)
			c.heal(s.Clients)
			return nil
		}},
	// The split brain: clients that have not noticed the new master continue to use the old one.
	{"cut off from its replicas",
		func(s *servers.Server) { s.Replicas.HoldBack() },
		func(c *Coordinator, _ context.Context, s *servers.Server) error { c.heal(s.Replicas); return nil }},
	{"voted down",
		func(*servers.Server) {},
		func(*Coordinator, context.Context, *servers.Server) error { return nil }},
}

// heal ends an isolation: what the proxy has held back arrives late, or never.
func (c *Coordinator) heal(proxy *servers.Proxy) {
	if c.rand.Intn(2) == 0 {
		proxy.Cut()
	}
	proxy.Heal()
}

// disturb causes a failure that does not require another master.
func (c *Coordinator) disturb(ctx context.Context) {
	switch c.rand.Intn(4) {
	case 0:
		c.record("%s: all connections cut", c.master.Name)
		now := c.Clock.Now()
		c.master.Failures.Add(now, now, "cut")
		c.master.Clients.Cut()
	case 1:
		c.stopForAMoment(ctx, c.master)
	case 2:
		c.stopForAMoment(ctx, c.replicas()[c.rand.Intn(len(c.Servers)-1)])
	case 3:
		end := c.master.Failures.Begin(c.Clock.Now(), "held back")
		c.record("%s: clients cut off for a moment", c.master.Name)
		c.master.Clients.HoldBack()
		c.wait(ctx, c.upTo(300*time.Millisecond))
		c.heal(c.master.Clients)
		end(c.Clock.Now() + int64(200*time.Millisecond))
	}
}

func (c *Coordinator) stopForAMoment(ctx context.Context, s *servers.Server) {
	end := s.Failures.Begin(c.Clock.Now(), "stopped")
	c.record("%s: stopped for a moment", s.Name)
	s.Stop()
	c.wait(ctx, c.upTo(300*time.Millisecond))
	s.Continue()
	end(c.Clock.Now() + int64(200*time.Millisecond))
}
