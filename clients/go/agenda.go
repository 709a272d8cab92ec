package lockso

import (
	"container/heap"
	"sync"
	"time"
)

// agenda calls functions at their times, for all holds of a client, with one timer. The timer is reset only for a time
// that is earlier than all others, which that of a hold with an ordinary lease never is. A timer for each hold, set and
// stopped, would cost a fifth of the time that a hand-off takes.
type agenda struct {
	mu    sync.Mutex
	dates dates
	timer *time.Timer
	wakes time.Time // when the timer goes off; zero if it is not set
}

// date is a function to be called at a time. It belongs to one agenda.
type date struct {
	at    time.Time
	call  func()
	index int // in the heap; -1 if it is not there
}

// set schedules a function for this time, in a goroutine of its own, in place of what the date was before.
func (a *agenda) set(d *date, at time.Time, call func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	d.at, d.call = at, call
	if d.index < 0 {
		heap.Push(&a.dates, d)
	} else {
		heap.Fix(&a.dates, d.index)
	}
	a.wind()
}

// drop removes a date. The timer is not stopped: it finds nothing to do.
func (a *agenda) drop(d *date) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if d.index >= 0 {
		heap.Remove(&a.dates, d.index)
	}
}

// wind sets the timer if it would be too late for the next date.
func (a *agenda) wind() {
	if len(a.dates) == 0 || !a.wakes.IsZero() && !a.dates[0].at.Before(a.wakes) {
		return
	}
	a.wakes = a.dates[0].at
	if a.timer == nil {
		a.timer = time.AfterFunc(time.Until(a.wakes), a.wake)
	} else {
		a.timer.Reset(time.Until(a.wakes))
	}
}

func (a *agenda) wake() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for now := time.Now(); len(a.dates) > 0 && !a.dates[0].at.After(now); {
		go heap.Pop(&a.dates).(*date).call()
	}
	a.wakes = time.Time{}
	a.wind()
}

// dates is a heap, the earliest first.
type dates []*date

func (d dates) Len() int           { return len(d) }
func (d dates) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d dates) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

func (d *dates) Push(x any) {
	entry := x.(*date)
	entry.index = len(*d)
	*d = append(*d, entry)
}

func (d *dates) Pop() any {
	last := len(*d) - 1
	entry := (*d)[last]
	(*d)[last], *d = nil, (*d)[:last]
	entry.index = -1
	return entry
}
