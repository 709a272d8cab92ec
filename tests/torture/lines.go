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

// line is one line of a history that another program has written down (-check): somebody counted on a lock. Times are
// ns of one clock.
type line struct {
	Owner string
	Token int64 // 0: none
	Asked int64
	Since int64 // when it was told that it has the lock
	Until int64 // when it is known to have counted on it last
	Over  int64 // when it is known not to any more
}

// noLease is longer than any history: when the hold was over, its line says.
const noLease = 1000 * time.Hour

// readLines makes a history of such lines: an acquisition and a release for each. The rest a checker need not know:
// whoever counted on the lock, by one server or by a majority of many, had it.
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
		both := history.Op{Client: number, Keys: []int{0}, Owner: one.Owner, Mode: history.Exclusive}
		taken, given := both, both
		taken.Kind, taken.Call, taken.Return = history.Acquire, one.Asked, one.Since
		taken.Lease, taken.Fenced, taken.Value = noLease, one.Token != 0, one.Token
		given.Kind, given.Call, given.Return = history.Release, one.Until, one.Over
		family.Add(&taken)
		family.Add(&given)
	}
}

// judgeLines judges such a history.
func judgeLines(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	kept, err := readLines(file)
	if err != nil {
		return err
	}
	return judgeKept(kept)
}
