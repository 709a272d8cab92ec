package servertest

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

// Eventually waits until isSo returns true.
func Eventually(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !isSo(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting for %s", what)
		}
	}
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
