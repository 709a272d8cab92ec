package clients

import (
	"fmt"
	"math/rand"
	"sync"
	"time"

	"torture/history"
)

// kinds are the kinds of families, each as often as it is chosen.
var kinds = []string{"exclusive", "exclusive", "exclusive", "readwrite", "readwrite", "semaphore", "multi", "multi", "modes",
	"modes"}

// Families are the locks in use. Each lives for a while, and then another takes its place. So a history has an end, and
// begins with locks that no client has ever held.
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

// NewFamilies creates `count` families.
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
	if family.Kind == "multi" || family.Kind == "modes" {
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

// For this time many clients use the same family, then the next one. Some families are used at no other time: there a
// waiter that the module has forgotten is not granted the lock by chance, when another client uses it.
const crowdPeriod = 150 * time.Millisecond

// use returns a family to work with, and a function to call when the work has ended.
func (f *Families) use(random *rand.Rand) (s *slot, end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	lonely := len(f.slots) / 2
	i := int(f.Clock.Now()/int64(crowdPeriod)) % len(f.slots)
	if random.Intn(100) < 50 {
		i = lonely + random.Intn(len(f.slots)-lonely)
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

// Finish retires all families, when no client works any more.
func (f *Families) Finish() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.slots {
		f.retire(s)
	}
}

func (f *Families) setWaiting(s *slot, owner string, waiting bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if waiting {
		s.waiting[owner] = true
	} else {
		delete(s.waiting, owner)
	}
}

// someWaiter returns an owner that waits there, or "".
func (f *Families) someWaiter(s *slot) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for owner := range s.waiting {
		return owner
	}
	return ""
}
