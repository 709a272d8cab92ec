package rueidis_test

import (
	"context"
	"fmt"
	"log"
	"time"

	rueidisv1 "github.com/redis/rueidis"

	lockso "lock-so.invalid/lock-so/clients/go"
	"lock-so.invalid/lock-so/clients/go/internal/servertest"
	"lock-so.invalid/lock-so/clients/go/rueidis"
)

func connect() *lockso.Client {
	client, err := rueidis.New(rueidisv1.ClientOption{InitAddress: []string{servertest.Address}})
	if err != nil {
		log.Fatal(err)
	}
	return client
}

func Example() {
	client := connect()
	defer client.Close()

	err := client.Lock("invoice", lockso.Wait(time.Minute)).Do(context.Background(), func(ctx context.Context) error {
		fmt.Println("working") // ctx ends when the lock is lost
		return nil
	})
	fmt.Println(err)
	// Output:
	// working
	// <nil>
}

func ExampleNew_kinds() {
	client := connect()
	defer client.Close()

	for _, lock := range []*lockso.Lock{
		client.Lock("account", lockso.Fenced()),                // send hold.Token() with each write
		client.Fair("job"),                                     // first come, first served
		client.Read("page"),                                    // shared with other readers
		client.Write("page"),                                   // alone
		client.Multi([]string{"{user:7}:from", "{user:7}:to"}), // all or none
		client.Semaphore("licences", 10, lockso.Permits(3)),    // at most 10 permits at once
		client.Lock("leader", lockso.Session()),                // as long as its connection lives
	} {
		hold, err := lock.Lock(context.Background())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(hold.Keys(), hold.Token() > 0, hold.Unlock(context.Background()))
	}
	// Output:
	// [account] true <nil>
	// [job] false <nil>
	// [page] false <nil>
	// [page] false <nil>
	// [{user:7}:from {user:7}:to] false <nil>
	// [licences] false <nil>
	// [leader] false <nil>
}
