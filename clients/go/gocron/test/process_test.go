package test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"lock-so.invalid/lock-so/clients/go/internal/servertest"
)

// event is what a process has written: "run" with the number of the tick, "lost" with whether it was the lock, or "end".
type event struct {
	process int
	what    string
	about   string
	at      time.Time
}

// processes are three schedulers, each a process, whose jobs are due at slightly different times.
type processes struct {
	t        *testing.T
	commands []*exec.Cmd

	seen int // how many of the events the test has waited for, or skipped

	mu     sync.Mutex
	events []event
}

const interval = 2 * time.Second

func start(t *testing.T, s scheduler) *processes {
	servertest.Server.Val("FLUSHALL")
	p := &processes{t: t}
	s.Address, s.Base, s.Interval = servertest.Address, time.Now(), interval
	for i := range 3 {
		s.Late = time.Duration(i) * 200 * time.Millisecond
		settings, _ := json.Marshal(s)
		command := exec.Command(os.Args[0])
		command.Env = append(os.Environ(), "SCHEDULER="+string(settings))
		command.Stderr = os.Stderr
		output, err := command.StdoutPipe()
		if err == nil {
			err = command.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		p.commands = append(p.commands, command)
		var read sync.WaitGroup
		read.Go(func() {
			for lines := bufio.NewScanner(output); lines.Scan(); {
				e := event{process: i, at: time.Now()}
				fmt.Sscan(lines.Text(), &e.what, &e.about)
				p.mu.Lock()
				p.events = append(p.events, e)
				p.mu.Unlock()
			}
		})
		t.Cleanup(func() {
			command.Process.Kill()
			read.Wait()
			command.Wait()
		})
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, e := range p.all() {
				t.Logf("%s process %d: %s %s", e.at.Format("05.000"), e.process, e.what, e.about)
			}
		}
	})
	return p
}

func (p *processes) all() []event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.events)
}

func (p *processes) signal(process int, s syscall.Signal) {
	if err := p.commands[process].Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// next waits for an event, after the one that was found last, of one of these processes.
func (p *processes) next(what string, of ...int) (found event) {
	p.t.Helper()
	servertest.Eventually(p.t, fmt.Sprint(what, " of ", of), func() bool {
		for i, e := range p.all()[p.seen:] {
			if e.what == what && slices.Contains(of, e.process) {
				p.seen += i + 1
				found = e
				return true
			}
		}
		return false
	})
	return found
}

// ticks waits until this number of ticks were run, fails if one is missing, and returns the processes that ran them.
func (p *processes) ticks(count int) (by []int) {
	p.t.Helper()
	var runs []int
	for range count {
		e := p.next("run", 0, 1, 2)
		p.next("end", e.process)
		tick, _ := strconv.Atoi(e.about)
		runs, by = append(runs, tick), append(by, e.process)
	}
	if runs[count-1] != runs[0]+count-1 {
		p.t.Errorf("the ticks %v were run", runs)
	}
	return by
}

// noneTwice fails if a tick was run twice.
func (p *processes) noneTwice() {
	p.t.Helper()
	seen := map[string]int{}
	for _, e := range p.all() {
		if e.what != "run" {
			continue
		}
		if by, twice := seen[e.about]; twice {
			p.t.Errorf("tick %s was run by %d and by %d", e.about, by, e.process)
		}
		seen[e.about] = e.process
	}
}

func others(than ...int) []int {
	return slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return slices.Contains(than, i) })
}

func gate(closed bool) {
	if closed {
		servertest.Server.Val("SET", "gate", "closed")
	} else {
		servertest.Server.Val("DEL", "gate")
	}
}

// The scheduler that runs the job is killed, the next one that does is paused: each tick is run by one.
func TestEachTickIsRunOnceByOneOfThreeProcesses(t *testing.T) {
	p := start(t, scheduler{Kind: "locker", AtLeast: interval * 7 / 10, Lease: 3 * time.Second})
	p.ticks(4)

	gate(true)
	killed := p.next("run", 0, 1, 2).process
	p.signal(killed, syscall.SIGKILL)
	paused := p.next("run", others(killed)...).process
	p.signal(paused, syscall.SIGSTOP)
	third := p.next("run", others(killed, paused)...).process

	p.signal(paused, syscall.SIGCONT)
	if e := p.next("lost", paused); e.about != "true" {
		t.Error("the context of the job did not end because of the lock")
	}
	gate(false)
	p.next("end", third)
	p.ticks(3)
	p.noneTwice()
}

// With a session the lock of a process that was killed is free before the default lease of 30 seconds has expired.
func TestTheLockOfAKilledProcessIsFreeAtOnceInASession(t *testing.T) {
	p := start(t, scheduler{Kind: "locker", AtLeast: interval / 2})
	gate(true)
	killed := p.next("run", 0, 1, 2).process
	p.signal(killed, syscall.SIGKILL)
	p.next("run", others(killed)...)
	gate(false)
	p.ticks(2)
	p.noneTwice()
}

// The leader runs all ticks. It is killed; the next leader is paused; the third one ends in order.
func TestALeaderThatDiesOrIsPausedIsReplaced(t *testing.T) {
	p := start(t, scheduler{Kind: "elector", AtLeast: interval / 2, Lease: 3 * time.Second})
	by := p.ticks(4)
	if slices.Min(by) != slices.Max(by) {
		t.Errorf("ticks were run by %v, although there was one leader", by)
	}

	killed := by[0]
	p.signal(killed, syscall.SIGKILL)
	paused := p.next("run", others(killed)...).process
	p.next("end", paused)

	gate(true)
	p.next("run", paused)
	p.signal(paused, syscall.SIGSTOP)
	third := p.next("run", others(killed, paused)...).process
	p.signal(paused, syscall.SIGCONT)
	if e := p.next("lost", paused); e.about != "true" {
		t.Error("the context of the job did not end because of the lock")
	}
	gate(false)
	p.next("end", third)
	if by := p.ticks(3); slices.Contains(by, paused) {
		t.Errorf("ticks were run by %v, but the leader was %d", by, third)
	}

	p.signal(third, syscall.SIGTERM)
	p.next("run", paused)
	p.noneTwice()
}
