package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"lock-so.invalid/lock-so/clients/go"
	gocronlock "lock-so.invalid/lock-so/clients/go/gocron"
	"lock-so.invalid/lock-so/clients/go/goredis"
	"lock-so.invalid/lock-so/clients/go/internal/servertest"
)

func newClient(t *testing.T, address string) *lockso.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: address})
	client, err := goredis.New(rdb)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		rdb.Close()
	})
	return client
}

// jobContext is a context like that of a job of gocron, and like it is not equal to any other.
func jobContext(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return ctx
}

func isLocked(t *testing.T, key string) bool {
	t.Helper()
	return servertest.Server.Val("EXISTS", key) == int64(1)
}

// runOnce starts a scheduler whose job is due at once, and only then.
func runOnce(t *testing.T, locker gocron.Locker, work any, options ...gocron.JobOption) {
	t.Helper()
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Shutdown() })
	if _, err := s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(work), options...); err != nil {
		t.Fatal(err)
	}
	s.Start()
}

func TestALockIsHeldWhileItsJobRuns(t *testing.T) {
	locker := gocronlock.NewLocker(newClient(t, servertest.Address), "held", 0, lockso.Fenced())
	started, finish := make(chan int64), make(chan struct{})
	runOnce(t, locker, func(ctx context.Context) {
		started <- locker.Hold(ctx).Token()
		<-finish
	}, gocron.WithName("report"))
	if token := <-started; token == 0 {
		t.Error("no fencing token")
	}
	if !isLocked(t, "held:report") {
		t.Error("not locked while the job runs")
	}
	close(finish)
	servertest.Eventually(t, "the release", func() bool { return !isLocked(t, "held:report") })
}

func TestAnotherSchedulersRunIsReportedToTheListener(t *testing.T) {
	one := gocronlock.NewLocker(newClient(t, servertest.Address), "skipped", 0)
	two := gocronlock.NewLocker(newClient(t, servertest.Address), "skipped", 0)
	lock, err := one.Lock(jobContext(t), "report")
	if err != nil {
		t.Fatal(err)
	}
	skipped := make(chan error, 1)
	listener := gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { skipped <- err }))
	runOnce(t, two, func() { t.Error("the job was run twice") }, gocron.WithName("report"), listener)
	if err := <-skipped; !errors.Is(err, lockso.ErrNotAcquired) {
		t.Error(err)
	}
	if err := lock.Unlock(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestASkippedRunDoesNotPreventTheNextOne(t *testing.T) {
	one := gocronlock.NewLocker(newClient(t, servertest.Address), "next", 0)
	two := gocronlock.NewLocker(newClient(t, servertest.Address), "next", 0)
	lock, err := one.Lock(jobContext(t), "report")
	if err != nil {
		t.Fatal(err)
	}
	ctx := jobContext(t)
	if _, err := two.Lock(ctx, "report"); !errors.Is(err, lockso.ErrNotAcquired) {
		t.Error(err)
	}
	lock.Unlock(context.Background())
	if lock, err = two.Lock(ctx, "report"); err != nil {
		t.Fatal(err)
	}
	lock.Unlock(ctx)
}

func TestAJobDoesNotRunBesideItself(t *testing.T) {
	locker := gocronlock.NewLocker(newClient(t, servertest.Address), "beside", 0)
	ctx := jobContext(t)
	lock, err := locker.Lock(ctx, "report")
	if err != nil {
		t.Fatal(err)
	}
	servertest.Server.Val("LOCK.FORCE", "beside:report")
	if _, err := locker.Lock(ctx, "report"); !errors.Is(err, gocronlock.ErrRunning) {
		t.Error(err)
	}
	if err := lock.Unlock(ctx); !errors.Is(err, lockso.ErrNotHeld) {
		t.Error(err)
	}
	if lock, err = locker.Lock(ctx, "report"); err != nil {
		t.Fatal(err)
	}
	lock.Unlock(ctx)
}

// Also with the scheduler's context, which has ended when gocron releases a lock at Shutdown.
func TestALockIsKeptForAtLeastItsTime(t *testing.T) {
	for kind, option := range map[string]lockso.Option{
		"lease": lockso.Lease(time.Minute), "session": lockso.Session(), "not renewed": lockso.NoRenew(),
	} {
		client := newClient(t, servertest.Address)
		ctx, cancel := context.WithCancel(context.Background())
		began := time.Now()
		const atLeast = 1500 * time.Millisecond
		lock, err := gocronlock.NewLocker(client, kind, atLeast, option).Lock(ctx, "report")
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := lock.Unlock(ctx); err != nil {
			t.Error(err)
		}
		client.Close()
		servertest.Eventually(t, "the end of "+kind, func() bool { return !isLocked(t, kind+":report") })
		if passed := time.Since(began); passed < atLeast-10*time.Millisecond {
			t.Errorf("%s: locked for %v", kind, passed)
		}
	}
}

func TestALongRunIsNotFollowedByMoreTime(t *testing.T) {
	locker := gocronlock.NewLocker(newClient(t, servertest.Address), "long", 20*time.Millisecond)
	ctx := jobContext(t)
	lock, err := locker.Lock(ctx, "report")
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(30 * time.Millisecond) // the run
	if err := lock.Unlock(ctx); err != nil || isLocked(t, "long:report") {
		t.Error(err, isLocked(t, "long:report"))
	}
}

func TestTheContextEndsWhenTheLockIsLost(t *testing.T) {
	for kind, option := range map[string]lockso.Option{"lost lease": lockso.Lease(time.Minute), "lost session": lockso.Session()} {
		locker := gocronlock.NewLocker(newClient(t, servertest.Address), kind, time.Minute, option)
		started, lost := make(chan struct{}), make(chan error)
		runOnce(t, locker, func(ctx context.Context) {
			ctx, cancel := locker.Context(ctx)
			defer cancel()
			close(started)
			<-ctx.Done()
			lost <- context.Cause(ctx)
		}, gocron.WithName("report"))
		<-started
		servertest.Server.Val("LOCK.FORCE", kind+":report")
		if err := <-lost; !errors.Is(err, lockso.ErrNotHeld) {
			t.Error(kind, err)
		}
	}
}

func TestTheContextEndsWithTheSchedulers(t *testing.T) {
	locker := gocronlock.NewLocker(newClient(t, servertest.Address), "ended", 0)
	ctx, end := context.WithCancel(context.Background())
	lock, err := locker.Lock(ctx, "report")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock(ctx)
	inside, cancel := locker.Context(ctx)
	defer cancel()
	if inside.Err() != nil {
		t.Error("ended before")
	}
	end()
	if <-inside.Done(); context.Cause(inside) != context.Canceled {
		t.Error(context.Cause(inside))
	}
}

func TestAnotherContextIsNotMistakenForThatOfARun(t *testing.T) {
	locker := gocronlock.NewLocker(newClient(t, servertest.Address), "other", 0)
	ctx, cancel := locker.Context(jobContext(t))
	defer cancel()
	if err := context.Cause(ctx); err != gocronlock.ErrNoRun {
		t.Error(err)
	}
	if locker.Hold(ctx) != nil {
		t.Error("a hold")
	}
}

// The listener for errors is optional, so other errors than that another scheduler does the run are logged.
func TestAServerThatDoesNotReplyIsLogged(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	var text bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&text, nil)))
	defer slog.SetDefault(before)

	ctx := jobContext(t)
	locker := gocronlock.NewLocker(newClient(t, silent.Addr().String()), "silent", 0)
	if _, err := locker.Lock(ctx, "report"); !errors.Is(err, lockso.ErrConnection) {
		t.Error(err)
	}
	if !strings.Contains(text.String(), "report") {
		t.Error(text.String())
	}
	if locker.Hold(ctx) != nil {
		t.Error("a hold")
	}
}

// A server that replies late, as after a slow TLS handshake, is tried again.
func TestAServerThatRepliesLateIsTriedAgain(t *testing.T) {
	servertest.Server.Val("CLIENT", "PAUSE", "400", "ALL")
	ctx := jobContext(t)
	lock, err := gocronlock.NewLocker(newClient(t, servertest.Address), "late", 0).Lock(ctx, "report")
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(ctx); err != nil {
		t.Error(err)
	}
}

func Example_jobs() {
	fmt.Println(readme(func(ctx context.Context) error { return nil }))
	// Output: <nil>
}
