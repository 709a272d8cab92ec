package main

import (
	"sync"
	"time"
)

// handoffs is what all workers share: who was granted when. While the gate is shut the holder keeps the lock.
type handoffs struct {
	mu         sync.Mutex
	changed    *sync.Cond
	generation int
	releasedAt int64
	us         []int64
	counting   bool
	warm       int
	warmFor    int64
	warmUntil  int64
	isWarm     bool
	ready      chan struct{}
	gate       chan struct{}
	rounds     int
	over       chan struct{}
}

// granted notes it, and lets the one go on that has released.
func (h *handoffs) granted(now int64) {
	h.mu.Lock()
	h.generation++
	h.changed.Broadcast()
	if h.counting {
		h.us = append(h.us, now-h.releasedAt)
	}
	if h.generation == 1 {
		h.warmUntil = now + h.warmFor
	}
	shut := !h.isWarm && h.generation >= h.warm && now >= h.warmUntil
	h.isWarm = h.isWarm || shut
	over := len(h.us) == h.rounds
	h.mu.Unlock()
	if shut {
		close(h.ready)
		<-h.gate
	}
	if over {
		close(h.over)
		select {}
	}
}

// releasing returns the number of this hold; the last thing before the release.
func (h *handoffs) releasing() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.releasedAt = nanos()
	return h.generation
}

// awaitNext waits until somebody else was granted, so that who has released takes part as a waiter only.
func (h *handoffs) awaitNext(generation int) {
	h.mu.Lock()
	for h.generation == generation {
		h.changed.Wait()
	}
	h.mu.Unlock()
}

func (h *handoffs) work(w worker, hold time.Duration) {
	for {
		w.acquire(lockName)
		h.granted(nanos())
		time.Sleep(hold)
		generation := h.releasing()
		w.release(lockName)
		h.awaitNext(generation)
	}
}

// handoff WAITERS WARM WARM_MS ROUNDS MS HOLD_MS: so many to warm up, and for so long.
func handoff(newWorker maker, kind string, numbers []int) {
	h := &handoffs{warm: numbers[1], warmFor: milliseconds(numbers[2]).Nanoseconds(), rounds: numbers[3],
		ready: make(chan struct{}), gate: make(chan struct{}), over: make(chan struct{})}
	h.changed = sync.NewCond(&h.mu)
	workers := []worker{}
	for range numbers[0] + 1 {
		workers = append(workers, newWorker(kind))
	}
	for _, w := range workers {
		go h.work(w, milliseconds(numbers[5]))
	}
	<-h.ready
	say("ready", nil)
	awaitLine()
	h.mu.Lock()
	h.counting = true
	h.mu.Unlock()
	gaveUp.Store(0)
	close(h.gate)
	select {
	case <-h.over:
	case <-time.After(milliseconds(numbers[4])):
	}
	h.mu.Lock()
	say("done", map[string]any{"us": micros(h.us), "gave_up": gaveUp.Load()})
	awaitLine()
}
