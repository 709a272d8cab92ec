package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

const (
	host = "127.0.0.1:"
	// The pause between two tries where polling is the only way to wait: the same as in redis-py's Lock.
	pause = 100 * time.Millisecond
)

var (
	ctx            = context.Background()
	semaphoreLimit int
	// For locks that have no lease by default.
	leaseMs = 30000
	// A longer lease, for locks that must not expire during the measurement.
	lasting []redsync.Option
)

// ---- lock.so ----

type ours struct {
	client      redis.UniversalClient
	kind, owner string
}

// A reply takes as long as the wait, so the client must not time out; and each waiter needs a connection.
func goredis(port string, workers int) maker {
	client := redis.NewClient(&redis.Options{Addr: host + port, ReadTimeout: -1, PoolSize: workers + 1})
	return func(kind string) worker { return &ours{client: client, kind: kind} }
}

// The same by a client of a cluster, which is given the address of one node.
func cluster(port string, workers int) maker {
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{host + port}, ReadTimeout: -1, PoolSize: workers + 1})
	return func(kind string) worker { return &ours{client: client, kind: kind} }
}

func (w *ours) ask(name string, blockMs int64) bool {
	w.owner = uuid.NewString()
	words := []any{"LOCK.ACQUIRE", name, w.owner}
	switch w.kind {
	case "fair":
		words[0] = "LOCK.FAIR"
	case "read":
		words[0] = "LOCK.RWREAD"
	case "write":
		words[0] = "LOCK.RWWRITE"
	case "semaphore":
		words[0] = "LOCK.SEMAPHORE"
		words = append(words, semaphoreLimit)
	}
	if w.kind == "session" {
		words = append(words, "SESSION")
	} else {
		words = append(words, "PX", leaseMs)
	}
	err := w.client.Do(ctx, append(words, "BLOCK", blockMs)...).Err()
	if errors.Is(err, redis.Nil) {
		return false
	}
	check(err)
	return true
}

func (w *ours) acquire(name string) { w.ask(name, 0) }

func (w *ours) acquireWithin(name string, limit time.Duration) bool {
	return w.ask(name, limit.Milliseconds())
}

func (w *ours) release(name string) {
	check(w.client.Do(ctx, "LOCK.RELEASE", name, w.owner).Err())
}

// ---- redsync ----

type redsynced struct {
	locks *redsync.Redsync
	mutex *redsync.Mutex
}

func redsyncs(port string, _ int) maker {
	locks := redsync.New(pool.NewPool(redis.NewClient(&redis.Options{Addr: host + port})))
	return func(string) worker { return &redsynced{locks: locks} }
}

func (w *redsynced) acquire(name string) {
	for {
		w.mutex = w.locks.NewMutex(name, lasting...)
		err := w.mutex.Lock()
		if err == nil {
			return
		}
		var taken *redsync.ErrTaken
		if !errors.As(err, &taken) && !errors.Is(err, redsync.ErrFailed) {
			check(err)
		}
		gaveUp.Add(1)
	}
}

func (w *redsynced) acquireWithin(string, time.Duration) bool { panic("not offered") }

func (w *redsynced) release(string) {
	_, err := w.mutex.Unlock()
	check(err)
}

// ---- SET NX PX, and a script or DEL ----

type bare struct {
	client *redis.Client
	owner  string
	script *redis.Script
}

const compareAndDelete = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`

func setnx(port string, _ int) maker {
	client, script := redis.NewClient(&redis.Options{Addr: host + port}), redis.NewScript(compareAndDelete)
	return func(string) worker { return &bare{client: client, script: script} }
}

func setdel(port string, _ int) maker {
	client := redis.NewClient(&redis.Options{Addr: host + port})
	return func(string) worker { return &bare{client: client} }
}

func (w *bare) acquire(name string) {
	w.owner = uuid.NewString()
	for {
		err := w.client.SetArgs(ctx, name, w.owner, redis.SetArgs{Mode: "NX", TTL: milliseconds(leaseMs)}).Err()
		if err == nil {
			return
		}
		if !errors.Is(err, redis.Nil) {
			check(err)
		}
		time.Sleep(pause)
	}
}

func (w *bare) acquireWithin(string, time.Duration) bool { panic("not offered") }

func (w *bare) release(name string) {
	if w.script == nil {
		check(w.client.Del(ctx, name).Err())
		return
	}
	check(w.script.Run(ctx, w.client, []string{name}, w.owner).Err())
}
