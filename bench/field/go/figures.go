package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// nanos reads CLOCK_MONOTONIC, which is the same for all processes of a machine.
func nanos() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return now.Nano()
}

// micros rounds to tenths.
func micros(ns []int64) []float64 {
	result := make([]float64, len(ns))
	for i, n := range ns {
		result[i] = float64(n/100) / 10
	}
	return result
}

func milliseconds(n int) time.Duration {
	return time.Duration(n) * time.Millisecond
}

// random is the same sequence in all languages.
type random int64

func (r *random) below(limit int) int {
	*r = *r * 48271 % 2147483647
	return int(int64(*r) % int64(limit))
}
