package test

// The examples of the README.

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/redis/go-redis/v9"

	"lock-so.invalid/lock-so/clients/go"
	gocronlock "lock-so.invalid/lock-so/clients/go/gocron"
	"lock-so.invalid/lock-so/clients/go/goredis"
	"lock-so.invalid/lock-so/clients/go/internal/servertest"
)

func readme(work func(context.Context) error) error {
	rdb := redis.NewClient(&redis.Options{Addr: servertest.Address})
	defer rdb.Close()
	client, err := goredis.New(rdb)
	if err != nil {
		return err
	}
	defer client.Close()

	locker := gocronlock.NewLocker(client, "billing", 50*time.Second, lockso.Lease(10*time.Second))
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		return err
	}
	defer scheduler.Shutdown()
	_, err = scheduler.NewJob(gocron.CronJob("* * * * *", false), gocron.NewTask(func(ctx context.Context) error {
		ctx, cancel := locker.Context(ctx) // also ends when the lock is lost
		defer cancel()
		return work(ctx)
	}), gocron.WithName("report")) // the key is billing:report
	if err != nil {
		return err
	}
	scheduler.Start()
	return nil
}

func readmeElector(client *lockso.Client) (gocron.Scheduler, error) {
	elector := gocronlock.NewElector(client.Lock("billing:leader", lockso.Lease(10*time.Second)), 5*time.Second)
	return gocron.NewScheduler(gocron.WithDistributedElector(elector))
}

func TestTheReadmeShowsTheseExamples(t *testing.T) {
	normalized := func(code string) string {
		code = regexp.MustCompile(`(?m)^\s+`).ReplaceAllString(code, "")
		return strings.ReplaceAll(code, "servertest.Address", `"localhost:6379"`)
	}
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, _ := os.ReadFile("page_test.go")
	shown := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(shown) != 2 {
		t.Errorf("%d examples", len(shown))
	}
	for _, code := range shown {
		if !strings.Contains(normalized(string(source)), normalized(code[1])) {
			t.Errorf("not an example that is compiled:\n%s", code[1])
		}
	}
	if _, err := readmeElector(newClient(t, servertest.Address)); err != nil {
		t.Error(err)
	}
}
