package servertest

import (
	"context"
	"errors"
	"testing"
	"time"

	lockso "lock-so.invalid/lock-so/clients/go"
)

// EndAtDeadlines checks, for a lock that is held, that a wait whose limit is a deadline ends with the error of a deadline,
// whichever of the clocks of the server and of the context is the first, and however short the wait is.
func EndAtDeadlines(t *testing.T, client *lockso.Client) {
	t.Helper()
	lock := client.Lock(t.Name())
	hold, err := lock.Lock(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Unlock(context.Background())
	for i := range 200 {
		limit := time.Duration(1+i%3) * time.Millisecond
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		_, atDeadline := lock.Lock(ctx)
		cancel()
		_, afterWait := client.Lock(t.Name(), lockso.Wait(limit)).Lock(context.Background())
		for _, err := range []error{atDeadline, afterWait} {
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, lockso.ErrNotAcquired) {
				t.Fatalf("wait %d, of %v: %v", i, limit, err)
			}
		}
	}
}
