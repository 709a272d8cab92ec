package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	lockso "lock-so.invalid/lock-so/clients/go"
	"lock-so.invalid/lock-so/clients/go/goredis"
	"lock-so.invalid/lock-so/clients/go/internal/servertest"
)

func connect() (*redis.Client, *lockso.Client) {
	rdb := redis.NewClient(&redis.Options{Addr: servertest.Address})
	client, err := goredis.New(rdb)
	if err != nil {
		log.Fatal(err)
	}
	return rdb, client
}

func Example() {
	rdb, client := connect()
	defer rdb.Close()
	defer client.Close()

	ctx := context.Background()
	report := client.Lock("report", lockso.Lease(10*time.Second))
	hold, err := report.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Unlock(ctx)
	fmt.Println("working")

	_, err = report.TryLock(ctx) // another acquisition is another owner
	fmt.Println(errors.Is(err, lockso.ErrNotAcquired))
	// Output:
	// working
	// true
}

func ExampleNew_loss() {
	rdb, client := connect()
	defer rdb.Close()
	defer client.Close()

	ctx := context.Background()
	hold, err := client.Lock("import").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	rdb.Do(ctx, "LOCK.FORCE", "import") // another client releases it by force
	select {
	case <-hold.Lost(): // or pass hold.Context() to the work under the lock
		fmt.Println("lost")
	case <-time.After(10 * time.Second):
	}
	fmt.Println(hold.Unlock(ctx))
	// Output:
	// lost
	// lock "import" is not held: the server reported its loss
}
