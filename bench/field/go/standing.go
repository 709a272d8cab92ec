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

// drain WAITERS EVERY LIMIT_MS SPACING_US: every so manieth gives up after the limit. When all have, the lock is released,
// and each of the others takes it once.
func drain(newWorker maker, kind string, numbers []int) {
	waiters, every := numbers[0], numbers[1]
	limit, spacing := milliseconds(numbers[2]), time.Duration(numbers[3])*time.Microsecond
	workers := []worker{}
	for range waiters {
		workers = append(workers, newWorker(kind))
	}
	holder := newWorker(kind)
	holder.acquire(lockName)
	places := make([]place, waiters)
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
	say("ready", nil)
	awaitLine()
	released := nanos()
	holder.release(lockName)
	all.Wait()
	say("done", map[string]any{"released": released, "places": places})
	awaitLine()
}
