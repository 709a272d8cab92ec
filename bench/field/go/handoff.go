package main

import (
	"sync"
	"time"
)

// handoffs is shared by all workers: it counts the grants and records their times. While the gate is shut the holder keeps
// the lock.
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

// granted records the grant, and lets the worker that has released continue.
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

// releasing returns the number of this hold. It is called immediately before the release.
func (h *handoffs) releasing() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.releasedAt = nanos()
	return h.generation
}

// awaitNext waits until another worker was granted the lock, so that the worker that has released it can only join the
// queue.
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

// handoff WAITERS WARM WARM_MS ROUNDS MS HOLD_MS: the warm-up is WARM hand-offs and WARM_MS at least.
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
