package main

import (
	"fmt"
	"sync"
	"time"
)

// A step is what a worker does over and over; it returns how long the part took that is measured.
type step func() int64

// inLoops has all steps repeated for so long, each by a worker of its own, and returns what each has measured, and how
// long it took.
func inLoops(steps []step, length time.Duration) ([][]int64, float64) {
	results := make([][]int64, len(steps))
	var all sync.WaitGroup
	start := nanos()
	end := start + length.Nanoseconds()
	for i := range steps {
		all.Go(func() {
			for nanos() < end {
				results[i] = append(results[i], steps[i]())
			}
		})
	}
	all.Wait()
	return results, float64(nanos()-start) / 1e9
}

// measured runs the loops twice: first to warm up.
func measured(steps []step, warm, length int) ([][]int64, float64) {
	inLoops(steps, milliseconds(warm))
	say("ready", nil)
	awaitLine()
	return inLoops(steps, milliseconds(length))
}

func counts(results [][]int64) []int {
	all := make([]int, len(results))
	for i, result := range results {
		all[i] = len(result)
	}
	return all
}

func together(results [][]int64) []int64 {
	all := []int64{}
	for _, result := range results {
		all = append(all, result...)
	}
	return all
}

// pair CLIENTS WARM_MS MS
func pair(newWorker maker, kind string, numbers []int) {
	steps := []step{}
	for i := range numbers[0] {
		w, name := newWorker(kind), fmt.Sprint(lockName, "-", i)
		steps = append(steps, func() int64 {
			start := nanos()
			w.acquire(name)
			w.release(name)
			return nanos() - start
		})
	}
	results, took := measured(steps, numbers[1], numbers[2])
	say("done", map[string]any{"seconds": took, "pairs": counts(results), "us": micros(together(results))})
	awaitLine()
}

// hot WORKERS LOCKS WARM_MS MS
func hot(newWorker maker, kind string, numbers []int) {
	locks := numbers[1]
	steps := []step{}
	for i := range numbers[0] {
		w, next := newWorker(kind), random(i+1)
		steps = append(steps, func() int64 {
			name := fmt.Sprint(lockName, "-", next.below(locks))
			start := nanos()
			w.acquire(name)
			granted := nanos()
			w.release(name)
			return granted - start
		})
	}
	results, took := measured(steps, numbers[2], numbers[3])
	say("done", map[string]any{"seconds": took, "pairs": counts(results), "us": micros(together(results)),
		"gave_up": gaveUp.Load()})
	awaitLine()
}

// holding is a step that waits for the lock, holds it for a millisecond, and releases it: how long it waited.
func holding(w worker) step {
	return func() int64 {
		start := nanos()
		w.acquire(lockName)
		granted := nanos()
		time.Sleep(time.Millisecond)
		w.release(lockName)
		return granted - start
	}
}

// rw READERS WRITERS WARM_MS MS
func readersAndWriters(newWorker maker, _ string, numbers []int) {
	steps := []step{}
	for range numbers[0] {
		steps = append(steps, holding(newWorker("read")))
	}
	for range numbers[1] {
		steps = append(steps, holding(newWorker("write")))
	}
	results, took := measured(steps, numbers[2], numbers[3])
	readers, writers := results[:numbers[0]], results[numbers[0]:]
	say("done", map[string]any{
		"seconds": took,
		"reads":   counts(readers), "read_us": micros(together(readers)),
		"writes": counts(writers), "write_us": micros(together(writers)),
	})
	awaitLine()
}

// semaphore CLIENTS PERMITS WARM_MS MS
func semaphore(newWorker maker, _ string, numbers []int) {
	semaphoreLimit = numbers[1]
	steps := []step{}
	for range numbers[0] {
		steps = append(steps, holding(newWorker("semaphore")))
	}
	results, took := measured(steps, numbers[2], numbers[3])
	say("done", map[string]any{"seconds": took, "pairs": counts(results), "us": micros(together(results))})
	awaitLine()
}
