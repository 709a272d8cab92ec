package main

import (
	"time"

	"torture/history"
)

// stalls records when the machine, or this process, was stalled, and when the wall clock was set.
type stalls struct {
	clock *history.Clock
	spans history.Spans
	set   history.Spans
}

const (
	period     = 5 * ms
	stallLimit = 50 * ms
	setBy      = 2 * ms // more than a clock is slewed in one period
)

func (s *stalls) watch(done <-chan struct{}) {
	last, ahead := s.clock.Now(), s.ahead()
	for {
		select {
		case <-done:
			return
		case <-time.After(period):
		}
		now := s.clock.Now()
		if time.Duration(now-last) > stallLimit {
			s.spans.Add(last, now, "stalled")
		}
		was := ahead
		if ahead = s.ahead(); isSet(was, ahead) {
			ahead = s.ahead() // this process may have been stalled between reading the two clocks
		}
		if isSet(was, ahead) {
			s.set.Add(last, now, "the clock was set")
		}
		last = now
	}
}

func isSet(was, is time.Duration) bool { return is-was > setBy || was-is > setBy }

// ahead returns how far the wall clock, by which leases end, is ahead of the clock of the histories.
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

// longest returns the longest stall of the machine.
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

// clockSet returns whether the wall clock was set: then leases ended earlier or later than clients expect.
func (s *stalls) clockSet(from, to int64) bool { return len(s.set.Within(from, to)) > 0 }
