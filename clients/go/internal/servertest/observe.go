package servertest

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// Eventually waits until isSo returns true.
func Eventually(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !isSo(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// Count is a number in one line of INFO: Count(Server, "commandstats", "cmdstat_lock.acquire:calls").
func Count(server Node, section, field string) int {
	text, _ := server.Val("INFO", section).(string)
	_, found, _ := strings.Cut(text, "\n"+field+"=")
	n, _ := strconv.Atoi(found[:max(0, strings.IndexAny(found+"\r", ",\r"))])
	return n
}
