// Package models describes what locks may do, in the form that Porcupine requires: a state, and the state after an
// operation. README.md describes what it assumes.
package models

import (
	"fmt"
	"hash/fnv"
	"sort"
	"strings"

	"torture/history"
)

// hold is what an owner has according to the replies it received, in one mode, of one key.
type hold struct {
	history.Key
	owner     string
	count     int64
	uncertain bool  // the count is not known for certain
	since     int64 // when it was acquired, at the earliest
	// From when on it may have ended by itself: never later than it really ends.
	end     int64
	session bool
}

// ended is when the last hold of a key ended, at the earliest: the last one that excludes readers, and the last reader.
type ended struct{ exclusive, shared int64 }

// mostKeys is how many keys a family may have.
const mostKeys = 4

// state is the state of the locks of a family.
type state struct {
	ended  [mostKeys]ended
	holds  []hold   // by key, owner and mode
	forced []string // owners whose holds are not known, because LOCK.FORCE may have ended them
}

func (s *state) clone() *state {
	return &state{s.ended, append([]hold(nil), s.holds...), append([]string(nil), s.forced...)}
}

func (s *state) find(key history.Key, owner string) *hold {
	for i := range s.holds {
		if h := &s.holds[i]; h.Key == key && h.owner == owner {
			return h
		}
	}
	return nil
}

// findAll returns the holds of an owner in the modes of a set.
func (s *state) findAll(key history.Key, owner string) (all []*hold) {
	for _, mode := range key.Mode.Each() {
		if own := s.find(history.Key{At: key.At, Mode: mode}, owner); own != nil {
			all = append(all, own)
		}
	}
	return all
}

func (s *state) add(h hold) {
	s.holds = append(s.holds, h)
	sort.Slice(s.holds, func(i, j int) bool {
		a, b := &s.holds[i], &s.holds[j]
		if a.At != b.At {
			return a.At < b.At
		}
		if a.owner != b.owner {
			return a.owner < b.owner
		}
		return a.Mode < b.Mode
	})
}

// drop removes all holds for which `is` is true. They end at this moment, or when they ended by themselves if that is
// earlier.
func (s *state) drop(moment int64, is func(h *hold) bool) {
	kept := s.holds[:0]
	for i := range s.holds {
		if h := &s.holds[i]; is(h) {
			s.recordEnd(h, moment)
		} else {
			kept = append(kept, *h)
		}
	}
	s.holds = kept
}

func (s *state) recordEnd(h *hold, moment int64) {
	if h.end < moment {
		moment = h.end
	}
	last := &s.ended[h.At].exclusive
	if h.Mode == history.Read {
		last = &s.ended[h.At].shared
	}
	if *last < moment {
		*last = moment
	}
}

func (s *state) isForced(owner string) bool {
	for _, one := range s.forced {
		if one == owner {
			return true
		}
	}
	return false
}

func (s *state) force(owner string) {
	if !s.isForced(owner) {
		s.forced = append(s.forced, owner)
		sort.Strings(s.forced)
	}
}

func equal(a, b interface{}) bool {
	x, y := a.(*state), b.(*state)
	if x.ended != y.ended || len(x.holds) != len(y.holds) || len(x.forced) != len(y.forced) {
		return false
	}
	for i := range x.holds {
		if x.holds[i] != y.holds[i] {
			return false
		}
	}
	for i := range x.forced {
		if x.forced[i] != y.forced[i] {
			return false
		}
	}
	return true
}

func hash(a interface{}) uint64 {
	s, h := a.(*state), fnv.New64a()
	fmt.Fprint(h, s.ended)
	for i := range s.holds {
		fmt.Fprint(h, s.holds[i].owner, s.holds[i].end)
	}
	return h.Sum64()
}

func describeState(a interface{}) string {
	s := a.(*state)
	var lines []string
	for _, h := range s.holds {
		line := fmt.Sprintf("%s %s", h.owner, h.Mode)
		if h.count > 1 {
			line += fmt.Sprintf(" x%d", h.count)
		}
		if h.At > 0 {
			line += fmt.Sprintf(" key %d", h.At)
		}
		if h.end >= history.Never {
			line += " while connected"
		} else {
			line += fmt.Sprintf(" until %.3f ms or later", float64(h.end)/1e6)
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		lines = append(lines, "free")
	}
	return strings.Join(lines, "\n")
}
