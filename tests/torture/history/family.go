package history

import (
	"fmt"
	"sync"
	"time"
)

// Family is the locks of one history: one key, or several that multi-key requests share.
// No client uses its keys before it begins or after it ends.
type Family struct {
	Name  string
	Kind  string // one of the names of clients.Kinds
	Group int
	Keys  []string
	Limit int  // of a semaphore
	Force bool // whether LOCK.FORCE is used on it

	Began, Ended int64

	mu  sync.Mutex
	Ops []*Op
}

// Add records an operation that has ended.
func (f *Family) Add(op *Op) {
	f.mu.Lock()
	f.Ops = append(f.Ops, op)
	f.mu.Unlock()
}

// Clock is the only clock of a run. It never goes back.
type Clock struct{ start time.Time }

// NewClock starts at 0.
func NewClock() *Clock { return &Clock{time.Now()} }

// Now returns the ns since the start.
func (c *Clock) Now() int64 { return c.At(time.Now()) }

// At returns the value of the clock at a moment.
func (c *Clock) At(moment time.Time) int64 { return int64(moment.Sub(c.start)) }

// Span is a time in which something was the case.
type Span struct {
	From, To int64
	What     string
}

// Overlaps returns whether the two have a moment in common.
func (s Span) Overlaps(from, to int64) bool { return s.From <= to && from <= s.To }

// Length returns how long it lasted.
func (s Span) Length() time.Duration { return time.Duration(s.To - s.From) }

// Spans is a list of spans, which many goroutines add to.
type Spans struct {
	mu  sync.Mutex
	all []Span
}

// Begin records that something is the case from now on, and returns a function that records the end.
func (s *Spans) Begin(from int64, what string) (end func(to int64)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := len(s.all)
	s.all = append(s.all, Span{from, Never, what})
	return func(to int64) {
		s.mu.Lock()
		s.all[i].To = to
		s.mu.Unlock()
	}
}

// Add records a span that has ended, or a moment.
func (s *Spans) Add(from, to int64, format string, args ...interface{}) {
	s.mu.Lock()
	s.all = append(s.all, Span{from, to, fmt.Sprintf(format, args...)})
	s.mu.Unlock()
}

// Within returns the spans that have a moment in common with the given time.
func (s *Spans) Within(from, to int64) []Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Span
	for _, one := range s.all {
		if one.Overlaps(from, to) {
			found = append(found, one)
		}
	}
	return found
}
