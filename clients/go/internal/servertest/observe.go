package servertest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

// Eventually waits until it is so.
func Eventually(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !isSo(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// Say has the server do a command, and returns its reply.
func Say(t *testing.T, words ...any) any {
	t.Helper()
	reply, err := Server.Do(ctx, words...).Result()
	if err != nil && err != redis.Nil {
		t.Fatalf("%v: %v", words, err)
	}
	return reply
}

// Info is what LOCK.INFO says of the key; empty if it is free and nobody waits.
func Info(t *testing.T, key string) map[any]any {
	t.Helper()
	info, _ := Say(t, "LOCK.INFO", key).(map[any]any)
	return info
}

// Waiting waits until so many wait for the key.
func Waiting(t *testing.T, key string, n int64) {
	t.Helper()
	Eventually(t, fmt.Sprintf("%d to wait for %s", n, key), func() bool {
		waiting, _ := Info(t, key)["waiting"].(int64)
		return waiting == n
	})
}

// Held waits until the owner alone holds the key, so many times. No owner: until it is free, and nobody waits.
func Held(t *testing.T, key, owner string, holds int64) {
	t.Helper()
	Eventually(t, fmt.Sprintf("%s to be held by %q", key, owner), func() bool {
		info := Info(t, key)
		if owner == "" {
			return info == nil
		}
		holders, _ := info["holders"].([]any)
		if len(holders) != 1 {
			return false
		}
		holder := holders[0].(map[any]any)
		return holder["owner"] == owner && holder["holds"] == holds
	})
}

// Cancel cancels what nobody waits for any more until the key is free, and says whether the owner had a hold. Once is not
// enough: the request may come after LOCK.CANCEL, as it is on another connection.
func Cancel(t *testing.T, key, owner string) (hold bool) {
	t.Helper()
	Eventually(t, key+" to be free", func() bool {
		hold = Say(t, "LOCK.CANCEL", key, owner, "RELEASE") == int64(2) || hold
		return Info(t, key) == nil
	})
	return hold
}

// Count is a number in one line of INFO: Count(t, Server, "commandstats", "cmdstat_lock.acquire:calls").
func Count(t *testing.T, server *redis.Client, section, field string) int {
	t.Helper()
	text, err := server.Info(ctx, section).Result()
	if err != nil {
		t.Fatal(err)
	}
	_, found, _ := strings.Cut(text, "\n"+field+"=")
	n, _ := strconv.Atoi(found[:max(0, strings.IndexAny(found+"\r", ",\r"))])
	return n
}

// Waits is how often somebody has begun to wait for the key, at these servers, since LOCK.TOP was reset.
func Waits(t *testing.T, key string, servers ...*redis.Client) (n int64) {
	t.Helper()
	for _, server := range servers {
		locks, err := server.Do(ctx, "LOCK.TOP", "COUNT", 256).Slice()
		if err != nil {
			t.Fatal(err)
		}
		for _, lock := range locks {
			if lock := lock.(map[any]any); lock["lock"] == key {
				n += lock["waits"].(int64)
			}
		}
	}
	return n
}
