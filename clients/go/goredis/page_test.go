package goredis_test

// The examples of the README and of docs/clients/go.md. TestPages of the package lockso checks that they are the same.

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	lockso "lock-so.invalid/lock-so/clients/go"
	"lock-so.invalid/lock-so/clients/go/goredis"
	"lock-so.invalid/lock-so/clients/go/internal/servertest"
)

func readmeReentrant(ctx context.Context, client *lockso.Client, work func(context.Context) error) error {
	lock := client.Lock("account", lockso.Reentrant())
	return lock.Do(ctx, func(ctx context.Context) error {
		return lock.Do(ctx, work) // this ctx is inside: no second acquisition, which would wait for the first
	})
}

func Example_readmeReentrant() {
	rdb := redis.NewClient(&redis.Options{Addr: servertest.Address})
	defer rdb.Close()
	client, err := goredis.New(rdb)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = readmeReentrant(context.Background(), client, func(context.Context) error {
		fmt.Println("working inside")
		return nil
	})
	fmt.Println(err)
	// Output:
	// working inside
	// <nil>
}

func readmeQueue(ctx context.Context, client *lockso.Client, send func(context.Context, []byte) error) error {
	queue := client.DelayedQueue("mails")
	if err := queue.PushID(ctx, "welcome-7", []byte("welcome to user 7"), 50*time.Millisecond); err != nil {
		return err
	}
	return queue.Consume(ctx, func(ctx context.Context, job lockso.Job) error { // until ctx ends
		return send(ctx, job.Value)
	}, lockso.Timeout(time.Minute), lockso.MaxTries(5), lockso.Backoff(time.Second))
}

func Example_readmeQueue() {
	rdb := redis.NewClient(&redis.Options{Addr: servertest.Address})
	defer rdb.Close()
	client, err := goredis.New(rdb)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	err = readmeQueue(ctx, client, func(_ context.Context, mail []byte) error {
		fmt.Println(string(mail))
		cancel()
		return nil
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// welcome to user 7
	// true
}

func Example_withoutThePackage() {
	ctx := context.Background()

	// For waits: a connection for each at once, no read time-out, nothing is sent again.
	waits := redis.NewClient(&redis.Options{Addr: servertest.Address, PoolSize: 100, ReadTimeout: -1, MaxRetries: -1})
	defer waits.Close()
	rdb := redis.NewClient(&redis.Options{Addr: servertest.Address}) // for all the rest, the release too
	defer rdb.Close()

	owner := rand.Text() // of crypto/rand; a new one for each acquisition
	err := waits.Do(ctx, "LOCK.ACQUIRE", "invoice", owner, "PX", 30000, "BLOCK", 10000, "ONCE").Err()
	if err != nil {
		log.Fatal(err) // redis.Nil: not in time; another redis.Error: refused; else nobody knows, see Giving up
	}
	fmt.Println("working")
	if err := rdb.Do(ctx, "LOCK.RELEASE", "invoice", owner).Err(); err != nil {
		log.Fatal(err) // with NOTHELD: the lease had expired
	}
	// Output: working
}

// acquire waits until ctx ends, and leaves nothing then.
func acquire(ctx context.Context, waits, rdb *redis.Client, key, owner string) error {
	answer := make(chan error, 1)
	go func() {
		answer <- waits.Do(context.Background(), "LOCK.ACQUIRE", key, owner, "PX", 30000, "BLOCK", 0, "ONCE").Err()
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
	}
	for answered := false; ; {
		n, err := rdb.Do(context.Background(), "LOCK.CANCEL", key, owner, "RELEASE").Int()
		if err != nil || n > 0 || answered {
			return errors.Join(ctx.Err(), err)
		}
		select { // 0: the request has ended, or has not arrived yet
		case <-answer:
			answered = true
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func Example_givingUp() {
	waits := redis.NewClient(&redis.Options{Addr: servertest.Address, ReadTimeout: -1, MaxRetries: -1})
	defer waits.Close()
	rdb := redis.NewClient(&redis.Options{Addr: servertest.Address})
	defer rdb.Close()
	fmt.Println(servertest.Server.Val("LOCK.ACQUIRE", "given up", "holder"))
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	fmt.Println(acquire(ctx, waits, rdb, "given up", rand.Text()))
	fmt.Println(servertest.Server.Val("LOCK.RELEASE", "given up", "holder"))
	fmt.Println(servertest.Server.Val("LOCK.INFO", "given up"))
	fmt.Println(acquire(context.Background(), waits, rdb, "given up", rand.Text()))
	// Output:
	// 1
	// context deadline exceeded
	// 0
	// <nil>
	// <nil>
}
