package goredis_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	lockso "lock-so.invalid/lock-so/clients/go"
	"lock-so.invalid/lock-so/clients/go/goredis"
	"lock-so.invalid/lock-so/clients/go/internal/servertest"
)

func TestMain(m *testing.M) { servertest.Run(m) }

// The user's options would disturb a wait; locks have options of their own.
func TestTheUsersPoolAndRetriesAreNotUsed(t *testing.T) {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: servertest.Address, PoolSize: 1, MaxRetries: 5, ReadTimeout: 50 * time.Millisecond,
		PoolTimeout: 50 * time.Millisecond, ConnMaxLifetime: 10 * time.Millisecond})
	defer rdb.Close()
	client, err := goredis.New(rdb)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var full *redis.Conn
	servertest.Eventually(t, "the pool's only connection to be taken", func() bool { // within the user's read time-out
		full = rdb.Conn()
		if full.Ping(ctx).Err() == nil {
			return true
		}
		full.Close()
		return false
	})
	defer full.Close()
	lock := client.Lock("pool", lockso.Wait(20*time.Second))
	first, err := lock.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	granted := make(chan error, 1)
	go func() {
		second, err := lock.Lock(ctx)
		if err == nil {
			err = second.Unlock(ctx)
		}
		granted <- err
	}()
	select { // longer than the user's read time-out
	case err := <-granted:
		t.Fatalf("acquired twice, or given up: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	if err := first.Unlock(ctx); err != nil {
		t.Error(err)
	}
	if err := <-granted; err != nil {
		t.Error(err)
	}
}

func TestOptionsOfTheUserAreNotChanged(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: servertest.Address})
	defer rdb.Close()
	retries, size := rdb.Options().MaxRetries, rdb.Options().PoolSize
	client, err := goredis.New(rdb)
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	if rdb.Options().MaxRetries != retries || rdb.Options().PoolSize != size {
		t.Error("changed")
	}
	if err := rdb.Ping(context.Background()).Err(); err != nil {
		t.Error("closing the client closed the user's: ", err)
	}
}

func TestWrongPassword(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: servertest.Address, Username: "nobody", Password: "wrong"})
	defer rdb.Close()
	client, err := goredis.New(rdb)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.Lock("password").Lock(context.Background())
	var typed *lockso.Error
	if !errors.Is(err, lockso.ErrRefused) || !errors.As(err, &typed) || typed.Code != "WRONGPASS" {
		t.Error(err)
	}
}

func TestDeadlines(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: servertest.Address})
	defer rdb.Close()
	client, err := goredis.New(rdb)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	servertest.EndAtDeadlines(t, client)
}

func TestARingHasNoMaster(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": servertest.Address}})
	defer ring.Close()
	if _, err := goredis.New(ring); err == nil {
		t.Error("no error")
	}
}
