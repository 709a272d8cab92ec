package history

import (
	"fmt"
	"sync"
	"time"
)

// Family is the locks that one check concerns: one key, or several that multi-key requests share.
// Nobody uses its keys before it begins or after it ends.
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

// Add notes an operation that is over.
func (f *Family) Add(op *Op) {
	f.mu.Lock()
	f.Ops = append(f.Ops, op)
	f.mu.Unlock()
}

// Clock is the one clock of a run. It only goes forward.
type Clock struct{ start time.Time }

// NewClock starts at 0.
func NewClock() *Clock { return &Clock{time.Now()} }

// Now is the ns since the start.
func (c *Clock) Now() int64 { return c.At(time.Now()) }

// At is what it showed at a moment.
func (c *Clock) At(moment time.Time) int64 { return int64(moment.Sub(c.start)) }

// Span is a time in which something was so.
type Span struct {
	From, To int64
	What     string
}

// Overlaps tells whether the two have a moment in common.
func (s Span) Overlaps(from, to int64) bool { return s.From <= to && from <= s.To }

// Length is how long it lasted.
func (s Span) Length() time.Duration { return time.Duration(s.To - s.From) }

// Spans are gathered by many.
type Spans struct {
	mu  sync.Mutex
	all []Span
}

// Begin notes that something is so from now on, and returns what ends it.
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

// Add notes one that is over, or a moment.
func (s *Spans) Add(from, to int64, format string, args ...interface{}) {
	s.mu.Lock()
	s.all = append(s.all, Span{from, to, fmt.Sprintf(format, args...)})
	s.mu.Unlock()
}

// Within are those that have a moment in common with the times given.
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
