package check

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"torture/history"
	"torture/models"
)

// Histories written as text, one operation a line, times in ms:
//
//	call return owner verb [options] = reply
//
// Verbs: acquire, read, write, permits; release, renew, guard (with a mode), force, cancel, close. Options: px N,
// block N, keys N,N or keys N:MODE,N:MODE, take N, limit N, once, fenced, session. Replies: a number, null, notheld,
// error, unknown.

var verbs = map[string]struct {
	kind history.Kind
	mode history.Mode
}{
	"acquire": {history.Acquire, history.Exclusive}, "read": {history.Acquire, history.Read},
	"write": {history.Acquire, history.Write}, "permits": {history.Acquire, history.Permits},
	"release": {kind: history.Release}, "renew": {kind: history.Renew}, "guard": {kind: history.Guard},
	"force": {kind: history.Force}, "cancel": {kind: history.Cancel}, "close": {kind: history.Close},
}

var modes = map[string]history.Mode{"exclusive": history.Exclusive, "read": history.Read, "write": history.Write,
	"both": history.Read | history.Write, "permits": history.Permits}

var lenient = models.Rules{DefaultLease: 100 * time.Millisecond, Grace: 20 * time.Millisecond}

func strict() models.Rules {
	rules := lenient
	rules.Strict = true
	return rules
}

func written(t *testing.T, text string) *history.Family {
	t.Helper()
	family := &history.Family{Name: "written", Kind: "written", Keys: []string{"k"}}
	for _, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			family.Ops = append(family.Ops, writtenOp(t, strings.Fields(line)))
		}
	}
	return family
}

func writtenOp(t *testing.T, words []string) *history.Op {
	t.Helper()
	verb, known := verbs[words[3]]
	if !known {
		t.Fatalf("no verb %q", words[3])
	}
	op := &history.Op{Call: at(t, words[0]), Return: at(t, words[1]), Owner: words[2], Kind: verb.kind}
	setMode(op, history.Exclusive)
	if verb.mode != 0 {
		setMode(op, verb.mode)
	}
	rest := words[4:]
	for len(rest) > 0 && rest[0] != "=" {
		rest = rest[option(t, op, rest):]
	}
	reply(t, op, strings.Join(rest[1:], " "))
	return op
}

// setMode makes the operation one of the first key, in this mode.
func setMode(op *history.Op, mode history.Mode) {
	op.Keys = []history.Key{{Mode: mode}}
	if mode == history.Permits {
		op.Permits = 1
	}
}

// keysOf reads a list of keys. Without a mode of its own a key is named in that mode.
func keysOf(t *testing.T, list string, mode history.Mode) (keys []history.Key) {
	t.Helper()
	for _, word := range strings.Split(list, ",") {
		parts := strings.Split(word, ":")
		key := history.Key{At: int(at(t, parts[0]) / int64(time.Millisecond)), Mode: mode}
		if len(parts) > 1 {
			if key.Mode = modes[parts[1]]; key.Mode == 0 {
				t.Fatalf("no mode %q", parts[1])
			}
		}
		keys = append(keys, key)
	}
	return keys
}

func at(t *testing.T, word string) int64 {
	t.Helper()
	ms, err := strconv.ParseFloat(word, 64)
	if err != nil {
		t.Fatal(err)
	}
	return int64(ms * float64(time.Millisecond))
}

// option reads an option and returns how many words it has.
func option(t *testing.T, op *history.Op, words []string) int {
	t.Helper()
	if mode := modes[strings.TrimPrefix(words[0], "-")]; mode != 0 {
		setMode(op, mode)
		return 1
	}
	switch words[0] {
	case "once":
		op.Once = true
		return 1
	case "fenced":
		op.Fenced = true
		return 1
	case "session":
		op.Session, op.Lease = true, lenient.DefaultLease
		return 1
	case "keys":
		op.Keys = keysOf(t, words[1], op.Keys[0].Mode)
	case "px":
		op.Lease = time.Duration(at(t, words[1]))
	case "block":
		op.Block = time.Duration(at(t, words[1]))
	case "take":
		op.Permits = int(at(t, words[1]) / int64(time.Millisecond))
	case "limit":
		op.Limit = int(at(t, words[1]) / int64(time.Millisecond))
	default:
		t.Fatalf("no option %q", words[0])
	}
	return 2
}

func reply(t *testing.T, op *history.Op, text string) {
	t.Helper()
	switch text {
	case "null":
		op.Outcome = history.Null
	case "notheld":
		op.Outcome = history.NotHeld
	case "error":
		op.Outcome, op.Text = history.Failed, "NOREPLICAS"
	case "unknown":
		op.Outcome = history.Unknown
	default:
		value, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		op.Value = value
	}
}

// checkWritten expects for each history what its name begins with: legal or illegal, by the given rules.
func checkWritten(t *testing.T, rules models.Rules, histories map[string]string) {
	t.Helper()
	for name, text := range histories {
		name, text := name, text
		t.Run(name, func(t *testing.T) {
			verdict := Locks(written(t, text), rules, 10*time.Second)
			if verdict.Unknown > 0 {
				t.Fatal("undecided")
			}
			if legal := verdict.Illegal == nil; legal != strings.HasPrefix(name, "legal") {
				t.Fatalf("legal is %v for:\n%s", legal, text)
			}
		})
	}
}

func texts(faults []Fault) string {
	var lines []string
	for _, fault := range faults {
		lines = append(lines, fmt.Sprintf("%s: %s", fault.What, fault.Text))
	}
	return strings.Join(lines, "\n")
}
