package check

import (
	"strings"
	"testing"
	"time"

	"torture/history"
)

const ms = time.Millisecond

func TestTokens(t *testing.T) {
	for name, text := range map[string]string{
		"legal: growing": `
			0 1 a acquire fenced = 5
			2 3 b acquire fenced = 6`,
		"legal: requested at the same time": `
			0 5 a acquire fenced = 6
			1 4 b acquire fenced = 5`,
		"legal: a re-entry": `
			0 1 a acquire fenced = 5
			2 3 a acquire fenced = 5`,
		"legal: a re-entry on another master, after a larger one": `
			0 1 a acquire fenced = 5
			2 3 b acquire fenced = 6
			4 5 a acquire fenced = 5`,
		"legal: the same, without a reply at first": `
			0 1 a acquire fenced once = unknown
			2 3 b acquire fenced = 6
			4 5 a acquire fenced once = 5`,
		"illegal: not a re-entry": `
			0 1 a acquire fenced = 4
			2 3 b acquire fenced = 6
			4 5 a acquire fenced = 5`,
		"illegal: smaller": `
			0 1 a acquire fenced = 6
			2 3 b acquire fenced = 5`,
		"illegal: smaller than one long ago": `
			0 1 a acquire fenced = 9
			2 3 b acquire fenced = 10
			1 4 c acquire fenced = 8
			5 6 d acquire fenced = 9`,
		"illegal: the same": `
			0 1 a acquire fenced = 5
			2 3 b acquire fenced = 5`,
		"illegal: the same, requested at the same time": `
			0 5 a acquire fenced = 5
			1 4 b acquire fenced = 5`,
		"illegal: a re-entry's is smaller": `
			0 1 a acquire fenced = 5
			2 3 a acquire fenced = 4`,
	} {
		_, faults := Tokens(written(t, text))
		if legal := len(faults) == 0; legal != strings.HasPrefix(name, "legal") {
			t.Errorf("%s: %s", name, texts(faults))
		}
	}
}

func waits(strict bool, failed ...history.Span) Waits {
	return Waits{Slack: 30 * ms, Idle: 30 * ms, Strict: strict,
		Excuses: func(_ int, from, to int64) bool {
			for _, span := range failed {
				if span.Overlaps(from, to) {
					return true
				}
			}
			return false
		},
		Stalls: func(int64, int64) time.Duration { return 0 }}
}

func TestLate(t *testing.T) {
	for name, text := range map[string]string{
		"legal: in time":                "0 50 a acquire block 50 = null",
		"legal: a little late":          "0 70 a acquire block 50 = 1",
		"legal: without BLOCK":          "0 70 a acquire = null",
		"legal: cancelled":              "0 10 a acquire block 50 = null\n 5 6 a cancel = 1",
		"legal: taken over":             "0 10 a acquire block 50 once = null",
		"illegal: late":                 "0 90 a acquire block 50 = null",
		"illegal: granted late":         "0 90 a acquire block 50 = 1",
		"illegal: null before its time": "0 10 a acquire block 50 = null",
	} {
		_, faults := waits(false).Late(written(t, text))
		if legal := len(faults) == 0; legal != strings.HasPrefix(name, "legal") {
			t.Errorf("%s: %s", name, texts(faults))
		}
	}
	late := written(t, "0 90 a acquire block 50 = null")
	if _, faults := waits(false, history.Span{From: int64(60 * ms), To: int64(70 * ms)}).Late(late); faults != nil {
		t.Error("although its server had failed: " + texts(faults))
	}
	silent := written(t, "0 900 a acquire block 50 = unknown")
	silent.Ops[0].Text = "silence"
	if _, faults := waits(false).Late(silent); len(faults) != 1 {
		t.Error("a wait without a reply is not found")
	}
	stalled := waits(false)
	stalled.Stalls = func(int64, int64) time.Duration { return 830 * ms }
	if _, faults := stalled.Late(silent); faults != nil {
		t.Error("although the machine was stalled: " + texts(faults))
	}
}

func TestForgotten(t *testing.T) {
	for name, text := range map[string]string{
		"legal: another owner had it": `
			0 1 a acquire px 60 = 1
			2 52 b acquire block 50 = null`,
		"legal: free for a moment": `
			0 1 a acquire px 40 = 1
			2 52 b acquire block 50 = null`,
		"legal: another owner may have had it": `
			0 1 a acquire px 60 = unknown
			2 52 b acquire block 50 = null`,
		"illegal: free since the release": `
			0 1 a acquire px 60 = 1
			2 52 b acquire block 50 = null
			3 4 a release = 0`,
		"illegal: free since the lease has ended": `
			0 1 a acquire px 10 = 1
			2 52 b acquire block 50 = null`,
		"illegal: free between two": `
			0 1 a acquire px 10 = 1
			2 62 b acquire block 60 = null
			55 56 c acquire px 10 = 1`,
	} {
		faults := waits(true).Forgotten(written(t, text))
		if legal := len(faults) == 0; legal != strings.HasPrefix(name, "legal") {
			t.Errorf("%s: %s", name, texts(faults))
		}
	}
}

func TestOutlived(t *testing.T) {
	for name, text := range map[string]string{
		"legal: within":    "0 1 a acquire px 50 = 1\n 40 41 a release = 0",
		"legal: NOTHELD":   "0 1 a acquire px 50 = 1\n 90 91 a release = notheld",
		"legal: renewed":   "0 1 a acquire px 50 = 1\n 40 41 a renew px 100 = 1\n 90 91 a release = 0",
		"legal: session":   "0 1 a acquire session = 1\n 900 901 a release = 0",
		"legal: unknown":   "0 1 a acquire px 50 = unknown\n 2 3 a acquire px 50 once = 1\n 900 901 a release = 0",
		"legal: another":   "0 1 a read px 50 = 1\n 2 3 a read keys 1 px 100 = 1\n 90 91 a release keys 1:read = 0",
		"illegal: one key": "0 1 a read px 50 = 1\n 2 3 a read keys 1 px 100 = 1\n 90 91 a release keys 0:read,1:read = 2",
		"illegal: release": "0 1 a acquire px 50 = 1\n 90 91 a release = 0",
		"illegal: guard":   "0 1 a acquire px 50 = 1\n 90 91 a guard = 1",
		"illegal: renewal": "0 1 a acquire px 50 = 1\n 90 91 a renew px 50 = 1",
	} {
		faults := Outlived(written(t, text), 10*ms)
		if legal := len(faults) == 0; legal != strings.HasPrefix(name, "legal") {
			t.Errorf("%s: %s", name, texts(faults))
		}
	}
}

func TestHolders(t *testing.T) {
	two := written(t, "0 1 a acquire px 50 = 1\n 10 11 b acquire px 50 = 1")
	if faults := Holders(two, two.Ops); len(faults) != 1 || !strings.Contains(faults[0].Text, "for 39.000 ms") {
		t.Error(texts(faults))
	}
	writer := written(t, "0 1 a acquire keys 0:read,1:write px 50 = 2\n 2 3 b acquire keys 0:read,1:read px 50 = 2")
	if faults := Holders(writer, writer.Ops); len(faults) != 1 {
		t.Error(texts(faults))
	}
	readers := written(t, "0 1 a acquire keys 0:read,1:write px 50 = 2\n 2 3 b acquire keys 0:read,2:write px 50 = 2")
	if faults := Holders(readers, readers.Ops); faults != nil {
		t.Error(texts(faults))
	}
	one := written(t, "0 1 a acquire px 50 = 1\n 5 6 a release = 0\n 10 11 b acquire px 50 = 1")
	if faults := Holders(one, one.Ops); faults != nil {
		t.Error(texts(faults))
	}
}
