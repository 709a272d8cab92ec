package goredis_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	lockso "lock-so.invalid/lock-so/clients/go"
	"lock-so.invalid/lock-so/clients/go/goredis"
	"lock-so.invalid/lock-so/clients/go/internal/servertest"
)

func main() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: servertest.Address}) // or NewFailoverClient, NewClusterClient
	defer rdb.Close()
	client, err := goredis.New(rdb) // a *lockso.Client, with the settings of rdb, and connections of its own
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	lock := client.Lock("report", lockso.Lease(10*time.Second))
	hold, err := lock.Lock(ctx) // waits until ctx ends; lock.TryLock(ctx) does not wait
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("working")
	if err := hold.Unlock(ctx); err != nil {
		log.Fatal(err)
	}

	err = lock.Do(ctx, func(ctx context.Context) error { // the same in one call; this ctx also ends when the lock is lost
		fmt.Println("working again")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// The program of the README.
func Example_program() {
	main()
	// Output:
	// working
	// working again
}
