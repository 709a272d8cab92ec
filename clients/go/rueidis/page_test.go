package rueidis_test

// The examples of docs/clients/go.md. TestPages of the package lockso checks that they are the same.

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"time"

	"github.com/redis/rueidis"

	"lock-so.invalid/lock-so/clients/go/internal/servertest"
)

func Example_withoutThePackage() {
	ctx := context.Background()

	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{servertest.Address}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	owner := rand.Text() // of crypto/rand; a new one for each acquisition
	wait := client.B().Arbitrary("LOCK.ACQUIRE").Keys("order").Args(owner, "PX", "30000", "BLOCK", "10000", "ONCE").Blocking()
	err = client.Do(ctx, wait).Error()
	if err != nil {
		log.Fatal(err) // IsRedisNil(err): not in time; IsRedisErr(err): refused; else nobody knows, see Giving up
	}
	fmt.Println("working")
	release := client.B().Arbitrary("LOCK.RELEASE").Keys("order").Args(owner).Build()
	if err := client.Do(ctx, release).Error(); err != nil {
		log.Fatal(err) // with NOTHELD: the lease had expired
	}
	// Output: working
}

// acquire waits until ctx ends, and leaves nothing then, nor when the connection is lost.
func acquire(ctx context.Context, client rueidis.Client, key, owner string) error {
	err := client.Do(ctx, client.B().Arbitrary("LOCK.ACQUIRE").Keys(key).Args(owner, "PX", "30000", "BLOCK", "0", "ONCE").Blocking()).Error()
	if _, answered := rueidis.IsRedisErr(err); err == nil || answered {
		return err
	}
	for range 2 { // the first may be faster than the request
		client.Do(context.Background(), client.B().Arbitrary("LOCK.CANCEL").Keys(key).Args(owner, "RELEASE").Build())
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

func Example_givingUp() {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{servertest.Address}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fmt.Println(servertest.Server.Val("LOCK.ACQUIRE", "given up", "holder"))
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	fmt.Println(acquire(ctx, client, "given up", rand.Text()))
	fmt.Println(servertest.Server.Val("LOCK.RELEASE", "given up", "holder"))
	fmt.Println(servertest.Server.Val("LOCK.INFO", "given up"))
	fmt.Println(acquire(context.Background(), client, "given up", rand.Text()))
	// Output:
	// 1
	// context deadline exceeded
	// 0
	// <nil>
	// <nil>
}
