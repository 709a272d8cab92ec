package main

import (
	"strings"
	"testing"
	"time"

	"torture/check"
)

func TestLines(t *testing.T) {
	for _, one := range []struct{ name, lines, faults string }{
		{"one after the other", `
			{"owner": "a", "token": 7, "asked": 0, "since": 2, "until": 5, "over": 6}
			{"owner": "b", "token": 8, "asked": 1, "since": 6, "until": 9, "over": 9}`, ""},
		{"the lines in another order", `
			{"owner": "b", "token": 8, "asked": 1, "since": 6, "until": 9, "over": 9}
			{"owner": "a", "token": 7, "asked": 0, "since": 2, "until": 5, "over": 6}`, ""},
		{"the second begins when the first may have ended", `
			{"owner": "a", "token": 7, "asked": 0, "since": 2, "until": 5, "over": 8}
			{"owner": "b", "token": 8, "asked": 1, "since": 6, "until": 9, "over": 9}`, ""},
		{"two at once", `
			{"owner": "a", "token": 7, "asked": 0, "since": 2, "until": 5, "over": 6}
			{"owner": "b", "token": 8, "asked": 1, "since": 4, "until": 9, "over": 9}`, "holder"},
		{"one within the other", `
			{"owner": "a", "token": 7, "asked": 0, "since": 2, "until": 9, "over": 9}
			{"owner": "b", "token": 8, "asked": 3, "since": 4, "until": 5, "over": 6}`, "holder"},
		{"a token that does not grow", `
			{"owner": "a", "token": 8, "asked": 0, "since": 2, "until": 5, "over": 6}
			{"owner": "b", "token": 7, "asked": 3, "since": 6, "until": 9, "over": 9}`, "token"},
		{"the smaller token was requested before the other was received", `
			{"owner": "a", "token": 8, "asked": 0, "since": 2, "until": 5, "over": 6}
			{"owner": "b", "token": 7, "asked": 1, "since": 6, "until": 9, "over": 9}`, ""},
		{"two at once, and one token", `
			{"owner": "a", "token": 8, "asked": 0, "since": 2, "until": 9, "over": 9}
			{"owner": "b", "token": 8, "asked": 3, "since": 4, "until": 5, "over": 6}`, "holder token"},
		{"no tokens", `
			{"owner": "a", "asked": 0, "since": 2, "until": 5, "over": 6}
			{"owner": "b", "asked": 3, "since": 6, "until": 9, "over": 9}`, ""},
	} {
		kept, err := readLines(strings.NewReader(one.lines))
		if err != nil {
			t.Errorf("%s: %v", one.name, err)
			continue
		}
		found := map[string]bool{}
		for _, fault := range faultsOf(kept, check.Locks(kept.Family, kept.Rules, time.Minute)) {
			found[fault.What] = true
		}
		for _, what := range []string{"holder", "token"} {
			if found[what] != strings.Contains(one.faults, what) {
				t.Errorf("%s: %s is %v", one.name, what, found[what])
			}
		}
	}
}

func TestInvalidLines(t *testing.T) {
	for _, text := range []string{`{"owner": "a", "ask": 1}`, `{"owner": `, `owner`} {
		if _, err := readLines(strings.NewReader(text)); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}
