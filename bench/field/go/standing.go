package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// How often a library has given up by its defaults, and was asked again.
var gaveUp atomic.Int64

// hold COUNT FIRST: those locks whose numbers begin with the first
func hold(newWorker maker, kind string, numbers []int) {
	const hands = 16
	var all sync.WaitGroup
	workers := []worker{}
	for range min(hands, numbers[0]) {
		workers = append(workers, newWorker(kind))
	}
	say("connected", nil)
	awaitLine()
	for hand, w := range workers {
		all.Go(func() {
			for i := numbers[1] + hand; i < numbers[1]+numbers[0]; i += hands {
				w.acquire(fmt.Sprint(lockName, "-", i))
			}
		})
	}
	all.Wait()
	say("held", nil)
	awaitLine()
}

// await: waits for the first of those that hold takes
func await(newWorker maker, kind string, _ []int) {
	w := newWorker(kind)
	say("connected", nil)
	awaitLine()
	say("asking", nil)
	w.acquire(lockName + "-0")
	say("granted", map[string]any{"ns": nanos()})
	awaitLine()
}

// crowd COUNT
func crowd(newWorker maker, kind string, numbers []int) {
	holder := newWorker(kind)
	say("connected", nil)
	awaitLine()
	holder.acquire(lockName)
	for range numbers[0] {
		w := newWorker(kind)
		go w.acquire(lockName)
	}
	say("waiting", nil)
	awaitLine()
}

// One that stands in the queue: when it asked, and when it was granted and released; 0 if it gave up.
type place struct {
	Asked    int64 `json:"asked"`
	Granted  int64 `json:"granted"`
	Released int64 `json:"released"`
}

// drain WAITERS EVERY LIMIT_MS SPACING_US: a queue whose every so manieth gives up after the limit, drained twice: the
// first time connections are opened, which some take longer for than the time between two that ask.
func drain(newWorker maker, kind string, numbers []int) {
	every, limit, spacing := numbers[1], milliseconds(numbers[2]), time.Duration(numbers[3])*time.Microsecond
	holder := newWorker(kind)
	workers := []worker{}
	for range numbers[0] {
		workers = append(workers, newWorker(kind))
	}
	queue(holder, workers, every, limit, spacing, func() {})
	places, released := queue(holder, workers, every, limit, spacing, func() {
		say("ready", nil)
		awaitLine()
	})
	say("done", map[string]any{"released": released, "places": places})
	awaitLine()
}

// queue: all ask, so far apart; when those who give up have, ready is called, and each of the others takes the lock once.
// It returns also when the one before them released it.
func queue(holder worker, workers []worker, every int, limit, spacing time.Duration, ready func()) ([]place, int64) {
	holder.acquire(lockName)
	places := make([]place, len(workers))
	var all, leaving sync.WaitGroup
	for i, w := range workers {
		impatient := i%every == every-1
		if impatient {
			leaving.Add(1)
		}
		asking := make(chan struct{})
		all.Go(func() {
			places[i].Asked = nanos()
			close(asking)
			if impatient {
				got := w.acquireWithin(lockName, limit)
				leaving.Done()
				if !got {
					return
				}
			} else {
				w.acquire(lockName)
			}
			places[i].Granted = nanos()
			places[i].Released = nanos()
			w.release(lockName)
		})
		<-asking
		time.Sleep(spacing)
	}
	leaving.Wait()
	ready()
	released := nanos()
	holder.release(lockName)
	all.Wait()
	return places, released
}
