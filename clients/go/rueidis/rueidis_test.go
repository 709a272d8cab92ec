package rueidis_test

import (
	"context"
	"errors"
	"testing"
	"time"

	rueidisv1 "github.com/redis/rueidis"

	"lockso"
	"lockso/internal/servertest"
	"lockso/rueidis"
)

func TestMain(m *testing.M) { servertest.Run(m) }

func TestNoServer(t *testing.T) {
	_, err := rueidis.New(rueidisv1.ClientOption{InitAddress: []string{"127.0.0.1:1"}})
	if err == nil {
		t.Error("no error")
	}
}

// Waits beside each other, and beside a release: none stands in the way of another.
func TestWaitsAreManyAtOnce(t *testing.T) {
	client, err := rueidis.New(rueidisv1.ClientOption{InitAddress: []string{servertest.Address}, BlockingPoolSize: 1,
		DisableAutoPipelining: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	lock := client.Lock("many")
	first, err := lock.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const waits = 50
	done := make(chan error, waits)
	for range waits {
		go func() { done <- lock.Do(ctx, func(context.Context) error { return nil }) }()
	}
	if err := first.Unlock(ctx); err != nil {
		t.Error(err)
	}
	for range waits {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestErrorsOfTheServer(t *testing.T) {
	client, err := rueidis.New(rueidisv1.ClientOption{InitAddress: []string{servertest.Address}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.Semaphore("refused", 1, lockso.Permits(2)).Lock(context.Background())
	var typed *lockso.Error
	if !errors.Is(err, lockso.ErrRefused) || !errors.As(err, &typed) || typed.Code != "ERR" {
		t.Error(err)
	}
}
