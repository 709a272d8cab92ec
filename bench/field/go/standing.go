package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// How often a library has given up by its defaults, after which the worker tried again.
var gaveUp atomic.Int64

// hold COUNT FIRST: acquires COUNT locks, numbered from FIRST on
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

// await: waits for the first of the locks of hold
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

// One waiter of the queue: when it sent its request, and when it was granted the lock and released it; 0 if it gave up.
type place struct {
	Asked    int64 `json:"asked"`
	Granted  int64 `json:"granted"`
	Released int64 `json:"released"`
}

// drain WAITERS EVERY LIMIT_MS SPACING_US: a queue in which one of EVERY waiters gives up after the limit. It is drained
// twice: the first time the connections are opened, which takes some libraries longer than the time between two requests.
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

// queue: all workers request the lock, spacing apart. When all that give up have done so, ready is called, and each of the
// others acquires the lock once. It also returns when the first holder released the lock.
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
