// Package test has the tests of the adapter, so that it does not require what only its tests need.
package test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9"

	"lock-so.invalid/lock-so/clients/go"
	gocronlock "lock-so.invalid/lock-so/clients/go/gocron"
	"lock-so.invalid/lock-so/clients/go/goredis"
	"lock-so.invalid/lock-so/clients/go/internal/servertest"
)

func TestMain(m *testing.M) {
	if text := os.Getenv("SCHEDULER"); text != "" {
		var s scheduler
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			log.Fatal(err)
		}
		if err := s.run(); err != nil {
			log.Fatal(err)
		}
		return
	}
	servertest.Run(m)
}

// scheduler is a process with a scheduler of gocron that has one job, which is due at Base, later by Late, and again after
// each Interval. The job writes what happens to the standard output.
type scheduler struct {
	Kind     string // "locker", "elector", or of the comparison "redsync"
	Address  string
	Base     time.Time
	Late     time.Duration
	Interval time.Duration
	AtLeast  time.Duration
	Lease    time.Duration // or 0 for a session
}

func (s *scheduler) run() error {
	rdb := redis.NewClient(&redis.Options{Addr: s.Address})
	defer rdb.Close()
	client, err := goredis.New(rdb)
	if err != nil {
		return err
	}
	defer client.Close()

	var option gocron.SchedulerOption
	var mode []gocron.JobOption
	inside := func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithCancel(ctx) }
	hold := lockso.Session()
	if s.Lease > 0 {
		hold = lockso.Lease(s.Lease)
	}
	switch s.Kind {
	case "locker":
		locker := gocronlock.NewLocker(client, "app", s.AtLeast, hold)
		option, inside = gocron.WithDistributedLocker(locker), locker.Context
	case "elector":
		elector := gocronlock.NewElector(client.Lock("app:leader", hold), s.AtLeast)
		defer elector.Close()
		option, inside = gocron.WithDistributedElector(elector), elector.Context
		mode = append(mode, gocron.WithSingletonMode(gocron.LimitModeReschedule))
	case "redsync":
		option = gocron.WithDistributedLocker(newRedsyncLocker(rdb, s.Lease, redsync.WithTries(1)))
	default:
		return errors.New("unknown kind " + s.Kind)
	}
	gocronScheduler, err := gocron.NewScheduler(option)
	if err != nil {
		return err
	}

	work := func(ctx context.Context) {
		ctx, cancel := inside(ctx)
		defer cancel()
		s.write("run", int(time.Since(s.Base)/s.Interval))
		for (servertest.Node{Address: s.Address}).Val("GET", "gate") != nil {
			select {
			case <-ctx.Done():
				s.write("lost", errors.Is(context.Cause(ctx), lockso.ErrNotHeld))
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
		s.write("end", 0)
	}
	first := s.Base.Add(s.Late)
	for !first.After(time.Now().Add(10 * time.Millisecond)) {
		first = first.Add(s.Interval)
	}
	start := gocron.WithStartAt(gocron.WithStartDateTime(first))
	if _, err := gocronScheduler.NewJob(gocron.DurationJob(s.Interval), gocron.NewTask(work), append(mode, start, gocron.WithName("job"))...); err != nil {
		return err
	}
	gocronScheduler.Start()
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	<-end
	return cmp.Or(gocronScheduler.Shutdown(), client.Close())
}

func (s *scheduler) write(what string, about any) { fmt.Println(what, about) }
