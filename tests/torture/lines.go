package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"torture/history"
	"torture/models"
	"torture/report"
)

// line is one line of a history that another program has recorded (-check): one hold of a lock. Times are ns of one
// clock.
type line struct {
	Owner string
	Token int64 // 0: none
	Asked int64 // when the owner sent the request
	Since int64 // when it was notified that it has the lock
	Until int64 // when it last certainly relied on the lock
	Over  int64 // when it certainly no longer relied on the lock
}

// noLease is longer than any history: the line itself says when the hold ended.
const noLease = 1000 * time.Hour

// readLines makes a history of such lines: an acquisition and a release for each. The checker needs no more: an owner
// that relied on the lock had it, whether from one server or from a majority of several.
func readLines(from io.Reader) (kept report.Kept, err error) {
	family := &history.Family{Name: "lock", Kind: "exclusive", Keys: []string{"lock"}}
	decoder := json.NewDecoder(from)
	decoder.DisallowUnknownFields()
	for number := 0; ; number++ {
		var one line
		if err := decoder.Decode(&one); errors.Is(err, io.EOF) {
			return report.Kept{Setting: "lines", Rules: models.Rules{}, Family: family}, nil
		} else if err != nil {
			return kept, err
		}
		both := history.Op{Client: number, Keys: []history.Key{{Mode: history.Exclusive}}, Owner: one.Owner}
		taken, given := both, both
		taken.Kind, taken.Call, taken.Return = history.Acquire, one.Asked, one.Since
		taken.Lease, taken.Fenced, taken.Value = noLease, one.Token != 0, one.Token
		given.Kind, given.Call, given.Return = history.Release, one.Until, one.Over
		family.Add(&taken)
		family.Add(&given)
	}
}

// checkLines checks such a history.
func checkLines(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	kept, err := readLines(file)
	if err != nil {
		return err
	}
	return checkKept(kept)
}
