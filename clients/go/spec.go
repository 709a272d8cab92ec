package lockso

import (
	"strconv"
	"time"
)

// spec is what a lock is: which command takes it, of which keys, with which options.
type spec struct {
	command string   // that takes it
	release []string // the words behind the owner of LOCK.RELEASE
	keys    []string
	multi   bool // LOCK.MACQUIRE
	fair    bool // the queue position outlives the connection
	limit   int  // of a semaphore
	permits int

	maxBlock time.Duration // how long one command blocks at most
	lease    time.Duration
	wait     time.Duration // negative: for ever
	session  bool
	fenced   bool
	renew    bool
	watch    bool
	replicas int
	within   time.Duration // for so long a grant may wait for the replicas
}

// Option changes what a lock is by default: a lease of 30 seconds that is renewed, and a wait for ever.
type Option func(*spec)

// Lease is for how long the lock is held if it is neither released nor renewed; in whole milliseconds.
// With [Session] it is what the server's lock.default-lease is taken to be.
func Lease(lease time.Duration) Option {
	return func(s *spec) { s.lease = max(lease, time.Millisecond) }
}

// Wait is for how long Lock waits at most. The context may end the wait earlier.
func Wait(wait time.Duration) Option { return func(s *spec) { s.wait = max(wait, 0) } }

// MaxBlock limits how long one command blocks, 30 seconds by default. Then the wait sends its request again, so that a
// server that stopped responding is noticed. The waiter loses its place in the queue, except in that of a fair lock.
func MaxBlock(d time.Duration) Option {
	return func(s *spec) { s.maxBlock = max(d, time.Millisecond) }
}

// Session binds the hold to a connection, which the server renews for as long as it lives.
func Session() Option { return func(s *spec) { s.session = true } }

// Fenced asks for a fencing token, [Hold.Token]. A read lock, a semaphore and several locks have none.
func Fenced() Option { return func(s *spec) { s.fenced = true } }

// NoRenew leaves the lease alone: the hold ends with it.
func NoRenew() Option { return func(s *spec) { s.renew = false } }

// Watch has the server tell, within milliseconds, that the hold is lost. It takes one connection for each key.
// Without it a loss is found at the next renewal.
func Watch() Option { return func(s *spec) { s.watch = true } }

// Replicas has a grant answered only when n replicas have acknowledged it within this time, and so each renewal.
func Replicas(n int, within time.Duration) Option {
	return func(s *spec) { s.replicas, s.within = n, max(within, time.Millisecond) }
}

// Permits is how many permits of a semaphore are taken at once, all or none; 1 by default.
func Permits(permits int) Option { return func(s *spec) { s.permits = permits } }

func newSpec(command string, keys []string, options []Option) *spec {
	s := &spec{
		command: command, keys: keys, maxBlock: 30 * time.Second, lease: 30 * time.Second, wait: -1, renew: true, permits: 1,
	}
	for _, option := range options {
		option(s)
	}
	return s
}

// acquire is the command that takes the lock, and waits at most so long for it: forEver, or not at all if it is 0.
func (s *spec) acquire(owner string, block time.Duration) Command {
	cmd := s.named(s.command, owner)
	if s.limit > 0 {
		cmd.Args = append(cmd.Args, strconv.Itoa(s.limit), "PERMITS", strconv.Itoa(s.permits))
	}
	if s.session {
		cmd.Args = append(cmd.Args, "SESSION")
	} else {
		cmd.Args = append(cmd.Args, "PX", millis(s.lease))
	}
	switch {
	case block == forEver:
		cmd.Args = append(cmd.Args, "BLOCK", "0")
	case block > 0:
		cmd.Args = append(cmd.Args, "BLOCK", millis(block))
	}
	if s.fenced {
		cmd.Args = append(cmd.Args, "FENCED")
	}
	cmd.Args = append(cmd.Args, "ONCE")
	cmd.Waits = true
	return s.replicated(cmd)
}

func (s *spec) releaseCommand(owner string) Command {
	if s.multi {
		return s.named("LOCK.MRELEASE", owner)
	}
	return onKey("LOCK.RELEASE", s.keys[0], append([]string{owner}, s.release...)...)
}

// cancelCommand ends the wait, and but for several locks gives back the hold that may have come of it.
func (s *spec) cancelCommand(owner string) Command {
	if s.multi {
		return onKey("LOCK.CANCEL", s.keys[0], owner)
	}
	return onKey("LOCK.CANCEL", s.keys[0], append([]string{owner, "RELEASE"}, s.release...)...)
}

func (s *spec) renewCommand(key, owner string) Command {
	if s.session {
		return onKey("LOCK.RENEW", key, owner, "SESSION")
	}
	return s.replicated(onKey("LOCK.RENEW", key, owner, "PX", millis(s.lease)))
}

func watchCommand(key, owner string, block time.Duration) Command {
	cmd := onKey("LOCK.WATCH", key, owner, "BLOCK", millis(block))
	cmd.Waits = true
	return cmd
}

// named is a command about all keys of the lock, with their number before them if they may be several.
func (s *spec) named(name, owner string) Command {
	if !s.multi {
		return onKey(name, s.keys[0], owner)
	}
	args := append([]string{name, strconv.Itoa(len(s.keys))}, s.keys...)
	return Command{Args: append(args, owner), First: 2, Count: len(s.keys)}
}

func (s *spec) replicated(cmd Command) Command {
	if s.replicas > 0 {
		cmd.Args = append(cmd.Args, "REPLICAS", strconv.Itoa(s.replicas), millis(s.within))
		cmd.Waits = true
	}
	return cmd
}

func onKey(name, key string, args ...string) Command {
	return Command{Args: append([]string{name, key}, args...), First: 1, Count: 1}
}

// millis rounds up, so that what is left of a time is never "for ever".
func millis(d time.Duration) string {
	return strconv.FormatInt(max(1, int64((d+time.Millisecond-1)/time.Millisecond)), 10)
}
