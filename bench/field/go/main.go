// Locks, by the clients that Go programs use. README.md in bench/field says what each command does and prints.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
)

const lockName = "lock"

// A worker is one of several that use locks at the same time. Every error ends the program: a competitor that fails has no
// figures.
type worker interface {
	// acquire returns when the worker holds the lock; if a library gives up by its defaults, acquire tries again.
	acquire(name string)
	// acquireWithin gives up after the limit; it then returns false.
	acquireWithin(name string, limit time.Duration) bool
	release(name string)
}

// maker makes a worker of the kind "lock", "fair", "session", "read", "write" or "semaphore".
type maker func(kind string) worker

var competitors = map[string]func(port string, workers int) maker{
	"goredis":  goredis,
	"cluster":  cluster,
	"redsync":  redsyncs,
	"setnx":    setnx,
	"setdel":   setdel,
	"etcd":     etcd,
	"postgres": postgres,
}

var commands = map[string]func(newWorker maker, kind string, numbers []int){
	"pair":      pair,
	"turns":     turns,
	"handoff":   handoff,
	"hot":       hot,
	"hold":      hold,
	"await":     await,
	"crowd":     crowd,
	"drain":     drain,
	"rw":        readersAndWriters,
	"semaphore": semaphore,
}

func say(at string, more map[string]any) {
	line := map[string]any{"at": at}
	for name, value := range more {
		line[name] = value
	}
	text, err := json.Marshal(line)
	check(err)
	fmt.Println(string(text))
}

var lines = bufio.NewReader(os.Stdin)

func awaitLine() {
	_, _ = lines.ReadString('\n')
}

func check(err error) {
	if err != nil {
		debug.PrintStack()
		fmt.Fprintln(os.Stderr, err)
		say("failed", map[string]any{"why": err.Error()})
		os.Exit(1)
	}
}

// How many workers a command has at most: a pool of connections has to be as large.
func workersOf(command string, numbers []int) int {
	switch command {
	case "hold", "await":
		return 16
	case "rw":
		return numbers[0] + numbers[1]
	}
	return numbers[0] + 1
}

func main() {
	library, kind, found := strings.Cut(os.Args[1], ":")
	if !found {
		kind = "lock"
	}
	command, port := os.Args[2], os.Args[3]
	numbers := []int{}
	for _, text := range os.Args[4:] {
		number, err := strconv.Atoi(text)
		check(err)
		numbers = append(numbers, number)
	}
	if command == "crowd" || command == "drain" || command == "hold" && numbers[0] > 1 {
		leaseMs = 600000
		lasting = append(lasting, redsync.WithExpiry(milliseconds(leaseMs)))
	}
	newWorker := competitors[library](port, workersOf(command, numbers))
	commands[command](newWorker, kind, numbers)
	os.Exit(0) // some workers still wait
}
