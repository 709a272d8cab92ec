package main

import (
	"time"

	"torture/history"
)

// stalls knows when the machine, or this process, stood still, and when its clock was set.
type stalls struct {
	clock *history.Clock
	spans history.Spans
	set   history.Spans
}

const (
	look     = 5 * ms
	standing = 50 * ms
	setBy    = 2 * ms // more than a clock is slewed between two looks
)

func (s *stalls) watch(done <-chan struct{}) {
	last, ahead := s.clock.Now(), s.ahead()
	for {
		select {
		case <-done:
			return
		case <-time.After(look):
		}
		now := s.clock.Now()
		if time.Duration(now-last) > standing {
			s.spans.Add(last, now, "standing still")
		}
		was := ahead
		if ahead = s.ahead(); isSet(was, ahead) {
			ahead = s.ahead() // this process may have stood still between the two clocks
		}
		if isSet(was, ahead) {
			s.set.Add(last, now, "the clock was set")
		}
		last = now
	}
}

func isSet(was, is time.Duration) bool { return is-was > setBy || was-is > setBy }

// ahead is how far the time of day, by which leases end, is ahead of the clock that times histories.
func (s *stalls) ahead() time.Duration {
	now := time.Now()
	return time.Duration(now.UnixNano() - s.clock.At(now))
}

func (s *stalls) within(from, to int64) (all time.Duration) {
	for _, span := range s.spans.Within(from, to) {
		all += span.Length()
	}
	return all
}

// longest is the longest time that the machine stood still.
func (s *stalls) longest(from, to int64) (longest time.Duration) {
	for _, span := range s.spans.Within(from, to) {
		longest = longer(longest, span.Length())
	}
	return longest
}

func longer(a, b time.Duration) time.Duration {
	if a > b {
		return a
	}
	return b
}

// clockSet tells whether the machine's clock was set: then leases ended earlier or later than clients count.
func (s *stalls) clockSet(from, to int64) bool { return len(s.set.Within(from, to)) > 0 }
