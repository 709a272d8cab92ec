package clients

import (
	"fmt"
	"math/rand"
	"sync"
	"time"

	"torture/history"
)

// Kinds of families, as often as they are drawn.
var kinds = []string{"exclusive", "exclusive", "exclusive", "readwrite", "readwrite", "semaphore", "multi", "multi"}

// Families are the locks in use. Each lives for a while, and then another takes its place: so a history that is
// judged has an end, and begins with locks that nobody has ever held.
type Families struct {
	Clock    *history.Clock
	Group    int
	Shortest time.Duration // of a life; the longest is three times that
	Done     func(family *history.Family)

	mu    sync.Mutex
	rand  *rand.Rand
	made  int
	slots []*slot
}

type slot struct {
	family  *history.Family
	until   int64
	users   int
	waiting map[string]bool // owners whose wait may be cancelled
}

// NewFamilies makes so many.
func NewFamilies(f *Families, count int, seed int64) *Families {
	f.rand = rand.New(rand.NewSource(seed))
	f.slots = make([]*slot, count)
	for i := range f.slots {
		f.slots[i] = f.make(i)
	}
	return f
}

func (f *Families) make(i int) *slot {
	f.made++
	now := f.Clock.Now()
	family := &history.Family{Kind: kinds[(i+f.rand.Intn(2)*3)%len(kinds)], Group: f.Group, Began: now,
		Force: f.rand.Intn(4) == 0}
	family.Name = fmt.Sprintf("%s-%d-%d", family.Kind, f.Group, f.made)
	keys := 1
	if family.Kind == "multi" {
		keys = 3
	}
	for k := 0; k < keys; k++ {
		family.Keys = append(family.Keys, fmt.Sprintf("%s-%d", family.Name, k))
	}
	if family.Kind == "semaphore" {
		family.Limit = 2 + f.rand.Intn(3)
	}
	life := f.Shortest + time.Duration(f.rand.Int63n(int64(2*f.Shortest)))
	return &slot{family: family, until: now + int64(life), waiting: map[string]bool{}}
}

// A crowd gathers at one family after the other, for so long. Some of them nobody uses at other times: there a waiter
// that is forgotten stays so, and is not helped by the next who comes.
const crowdStays = 150 * time.Millisecond

// use gives a family to work with, and what says that the work is over.
func (f *Families) use(draw *rand.Rand) (s *slot, end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	lonely := len(f.slots) / 2
	i := int(f.Clock.Now()/int64(crowdStays)) % len(f.slots)
	if draw.Intn(100) < 50 {
		i = lonely + draw.Intn(len(f.slots)-lonely)
	}
	if s = f.slots[i]; f.Clock.Now() > s.until {
		f.slots[i] = f.make(i)
		f.retire(s)
		s = f.slots[i]
	}
	s.users++
	return s, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		s.users--
		if f.slots[i] != s {
			f.retire(s)
		}
	}
}

func (f *Families) retire(s *slot) {
	if s.users == 0 {
		s.family.Ended = f.Clock.Now()
		f.Done(s.family)
	}
}

// Finish retires what is still in use: nobody works any more.
func (f *Families) Finish() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.slots {
		f.retire(s)
	}
}

func (f *Families) waits(s *slot, owner string, is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if is {
		s.waiting[owner] = true
	} else {
		delete(s.waiting, owner)
	}
}

// someWaiter is an owner that waits there, or "".
func (f *Families) someWaiter(s *slot) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for owner := range s.waiting {
		return owner
	}
	return ""
}
