package main

import (
	"fmt"
	"strconv"
	"sync"
	"time"
)

// A step is what a worker repeats; it returns how long the measured part took.
type step func() int64

// A loop is what one worker has done: all its measured times, and how many of its steps ended in time. A step that ends
// after the end of the measurement counts as a wait, but not in the throughput.
type loop struct {
	ns     []int64
	inTime int
}

// inLoops repeats all steps for that long, each by a worker of its own.
func inLoops(steps []step, length time.Duration) []loop {
	loops := make([]loop, len(steps))
	var all sync.WaitGroup
	end := nanos() + length.Nanoseconds()
	for i := range steps {
		all.Go(func() {
			for nanos() < end {
				loops[i].ns = append(loops[i].ns, steps[i]())
				if nanos() < end {
					loops[i].inTime++
				}
			}
		})
	}
	all.Wait()
	return loops
}

// measured runs the loops twice: the first time to warm up.
func measured(steps []step, warm, length int) []loop {
	inLoops(steps, milliseconds(warm))
	say("ready", nil)
	awaitLine()
	return inLoops(steps, milliseconds(length))
}

func counts(loops []loop) []int {
	all := make([]int, len(loops))
	for i, loop := range loops {
		all[i] = loop.inTime
	}
	return all
}

func together(loops []loop) []int64 {
	all := []int64{}
	for _, loop := range loops {
		all = append(all, loop.ns...)
	}
	return all
}

// pairs returns a step for each client: it acquires and releases a lock of its own.
func pairs(newWorker maker, kind string, clients int) []step {
	steps := []step{}
	for i := range clients {
		w, name := newWorker(kind), fmt.Sprint(lockName, "-", i)
		steps = append(steps, func() int64 {
			start := nanos()
			w.acquire(name)
			w.release(name)
			return nanos() - start
		})
	}
	return steps
}

// pair CLIENTS WARM_MS MS
func pair(newWorker maker, kind string, numbers []int) {
	results := measured(pairs(newWorker, kind, numbers[0]), numbers[1], numbers[2])
	say("done", map[string]any{"pairs": counts(results), "us": micros(together(results))})
	awaitLine()
}

// turns CLIENTS WARM_MS MS TURNS PORT: pairs, alternating with the same by SET NX and DEL on the server at that port.
func turns(newWorker maker, kind string, numbers []int) {
	sides := [2][]step{
		pairs(newWorker, kind, numbers[0]),
		pairs(setdel(strconv.Itoa(numbers[4]), numbers[0]+1), kind, numbers[0]),
	}
	for _, side := range sides {
		inLoops(side, milliseconds(numbers[1]))
	}
	say("ready", nil)
	awaitLine()
	us := [2][][]float64{}
	for i := range 2 * numbers[3] {
		side := (i + 1) / 2 % 2 // 0 1 1 0
		us[side] = append(us[side], micros(together(inLoops(sides[side], milliseconds(numbers[2])))))
	}
	say("done", map[string]any{"us": us[0], "other_us": us[1]})
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
	results := measured(steps, numbers[2], numbers[3])
	say("done", map[string]any{"pairs": counts(results), "us": micros(together(results)),
		"gave_up": gaveUp.Load()})
	awaitLine()
}

// holding is a step that waits for the lock, holds it for a millisecond, and releases it. It returns how long it waited.
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
	results := measured(steps, numbers[2], numbers[3])
	readers, writers := results[:numbers[0]], results[numbers[0]:]
	say("done", map[string]any{
		"reads": counts(readers), "read_us": micros(together(readers)),
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
	results := measured(steps, numbers[2], numbers[3])
	say("done", map[string]any{"pairs": counts(results), "us": micros(together(results))})
	awaitLine()
}
