package test

import (
	"context"
	"errors"
	"testing"
	"time"

	"lock-so.invalid/lock-so/clients/go"
	gocronlock "lock-so.invalid/lock-so/clients/go/gocron"
	"lock-so.invalid/lock-so/clients/go/internal/servertest"
)

func newElector(t *testing.T, key string, settle time.Duration, options ...lockso.Option) *gocronlock.Elector {
	e := gocronlock.NewElector(newClient(t, servertest.Address).Lock(key, options...), settle)
	t.Cleanup(func() { e.Close() })
	return e
}

func elected(t *testing.T, e *gocronlock.Elector) {
	t.Helper()
	servertest.Eventually(t, "the election", func() bool { return e.IsLeader(context.Background()) == nil })
}

func TestTheNextLeaderIsElectedWhenOneResigns(t *testing.T) {
	ctx := context.Background()
	one := newElector(t, "resigns", 0)
	elected(t, one)
	two := newElector(t, "resigns", 0)
	if err := two.IsLeader(ctx); !errors.Is(err, gocronlock.ErrNotLeader) || two.Hold() != nil {
		t.Error(err)
	}
	if inside, _ := two.Context(ctx); context.Cause(inside) != gocronlock.ErrNotLeader {
		t.Error(context.Cause(inside))
	}
	one.Close()
	one.Close()
	elected(t, two)
	if err := one.IsLeader(ctx); !errors.Is(err, gocronlock.ErrNotLeader) {
		t.Error(err)
	}
}

func TestALossEndsTheContextAndThereIsANewElection(t *testing.T) {
	for kind, option := range map[string]lockso.Option{"lease": lockso.Lease(time.Minute), "session": lockso.Session()} {
		e := newElector(t, "loss in "+kind, 0, option)
		elected(t, e)
		inside, cancel := e.Context(context.Background())
		servertest.Server.Val("LOCK.FORCE", "loss in "+kind)
		if <-inside.Done(); !errors.Is(context.Cause(inside), lockso.ErrNotHeld) {
			t.Error(context.Cause(inside))
		}
		cancel()
		elected(t, e)
	}
}

// No time passes between the loss and the question.
func TestTheServerIsAskedWhoTheLeaderIs(t *testing.T) {
	e := newElector(t, "asked", 0, lockso.Lease(time.Minute))
	elected(t, e)
	servertest.Server.Val("DEL", "asked")
	servertest.Server.Val("LOCK.ACQUIRE", "asked", "another", "PX", "60000")
	if err := e.IsLeader(context.Background()); !errors.Is(err, gocronlock.ErrNotLeader) {
		t.Error(err)
	}
	servertest.Server.Val("LOCK.FORCE", "asked")
	elected(t, e)
}

func TestANewLeaderRunsNothingBeforeItHasSettled(t *testing.T) {
	began := time.Now()
	e := newElector(t, "settled", 300*time.Millisecond)
	elected(t, e)
	if passed := time.Since(began); passed < 300*time.Millisecond {
		t.Errorf("settled after %v", passed)
	}
}

func TestALockThatCannotBeAcquiredIsTheReason(t *testing.T) {
	e := newElector(t, "invalid", 0, lockso.Lease(-1))
	servertest.Eventually(t, "the error", func() bool { return errors.Is(e.IsLeader(context.Background()), lockso.ErrOption) })
}

// While the server is silent, the lease counts that was confirmed last.
func TestALeaderStaysOneThroughAShortOutage(t *testing.T) {
	e := newElector(t, "outage", 0, lockso.Lease(time.Minute))
	elected(t, e)
	servertest.Server.Val("CLIENT", "PAUSE", "3000", "ALL")
	defer servertest.Server.Val("PING") // waits for the end of the pause
	if err := e.IsLeader(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestAClosedClientIsNoLeader(t *testing.T) {
	client := newClient(t, servertest.Address)
	e := gocronlock.NewElector(client.Lock("closed"), 0)
	elected(t, e)
	client.Close()
	servertest.Eventually(t, "the end", func() bool { return errors.Is(e.IsLeader(context.Background()), lockso.ErrClosed) })
	e.Close()
}
