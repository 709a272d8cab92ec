package lockso

import (
	"fmt"
	"strconv"
	"time"

	"lock-so.invalid/lock-so/clients/go/internal/transport"
)

// spec describes a lock: the command that acquires it, its keys and its options.
type spec struct {
	kind    string   // in messages
	command string   // that acquires it
	release []string // the arguments of LOCK.RELEASE after the owner
	keys    []string
	multi   bool     // LOCK.MACQUIRE
	modes   []string // of each key of a multi-key lock, or none: all are exclusive
	fair    bool     // the queue position outlives the connection

	tokenless bool // no fencing tokens
	semaphore bool
	limit     int // of a semaphore
	permits   int
	wrong     string // the first invalid option

	maxBlock time.Duration // how long one command blocks at most
	lease    time.Duration
	wait     time.Duration // negative: for ever
	session  bool
	fenced   bool
	renew    bool
	again    bool // reentrant

	// of a wait without an owner, for a latch or an element, of which nothing is left when its connection is closed
	blocking func(block time.Duration) transport.Command
	outcome  string // in messages, if it did not succeed in time
	replicas int
	within   time.Duration // how long a grant may wait for the replicas
}

// require records an invalid option, which ends each acquisition with [ErrOption].
func (s *spec) require(ok bool, format string, values ...any) {
	if !ok && s.wrong == "" {
		s.wrong = fmt.Sprintf(format, values...)
	}
}

// Option changes a default of a lock: a lease of 30 seconds that is renewed, and a wait without a limit. Each
// acquisition of a lock with an invalid option returns [ErrOption], also if a later option replaces it.
type Option interface{ apply(*spec) }

type option func(*spec)

func (o option) apply(s *spec) { o(s) }

// Lease is how long the lock is held if it is neither released nor renewed; in whole milliseconds, at least one.
// With [Session] it is the value that the client assumes for the server's lock.default-lease.
func Lease(lease time.Duration) Option {
	return option(func(s *spec) {
		s.require(lease > 0, "Lease must be greater than 0, not %v", lease)
		s.require(lease >= time.Millisecond, "Lease must be at least 1 ms, not %v", lease)
		s.lease = lease
	})
}

// Wait is how long Lock waits at most. The context may end the wait earlier.
func Wait(wait time.Duration) Option {
	return option(func(s *spec) {
		s.require(wait >= 0, "Wait must not be negative, not %v", wait)
		s.wait = wait
	})
}

// Session binds the hold to a connection: the server renews the lease for as long as the connection lives.
func Session() Option { return option(func(s *spec) { s.session = true }) }

// Fenced requests a fencing token, [Hold.Token]. Read locks, semaphores and multi-key locks have none.
func Fenced() Option {
	return option(func(s *spec) {
		s.require(!s.tokenless, "Fenced: a %s has no fencing token", s.kind)
		s.fenced = true
	})
}

// NoRenew turns renewal off: the hold ends when its lease expires. It need not be released before. To know when, the
// client assumes that the reply to a wait took a tenth of the lease at most.
func NoRenew() Option { return option(func(s *spec) { s.renew = false }) }

// Replicas requires that n replicas acknowledge the grant within this time, a day at most, and each renewal too. A grant
// at the end of the wait has this time in addition.
func Replicas(n int, within time.Duration) Option {
	return option(func(s *spec) {
		s.require(n > 0, "Replicas must be at least 1, not %d", n)
		s.require(within > 0, "Replicas: the time must be greater than 0, not %v", within)
		s.replicas, s.within = n, min(within, day)
	})
}

// Reentrant makes an acquisition with the context of a hold of the same lock, [Hold.Context] or that of [Lock.Do], enter this
// hold again, without a request to the server. Each of the two is released by itself, and the last release releases the
// lock. The same are locks of one client, of the same kind, with the same keys, that both have this option. The error is
// [ErrNotHeld] if the hold was lost.
//
// Whoever is given the context is inside: do not pass it to a goroutine that must wait for its turn.
func Reentrant() Option {
	return option(func(s *spec) {
		s.require(!s.semaphore, "Reentrant: a semaphore is not reentrant")
		s.again = true
	})
}

// Permits is how many permits of a semaphore are acquired at once, all or none; 1 by default.
func Permits(permits int) Option {
	return option(func(s *spec) {
		s.require(s.semaphore, "Permits: only a semaphore has permits")
		s.require(permits > 0 && permits <= s.limit, "Permits must be from 1 to the limit of %d, not %d", s.limit, permits)
		s.permits = permits
	})
}

// renews returns whether the client renews the lease.
func (s *spec) renews() bool { return s.renew && !s.session }

// expires returns whether nothing keeps the hold after its lease.
func (s *spec) expires() bool { return !s.renew && !s.session }

// acquire is the command that acquires the lock and blocks for this time at most; 0 does not block, noLimit has no
// limit.
func (s *spec) acquire(owner string, block time.Duration) transport.Command {
	if s.blocking != nil {
		return s.blocking(block)
	}
	cmd := s.named(s.command, owner, s.modes)
	if s.semaphore {
		cmd.Args = append(cmd.Args, strconv.Itoa(s.limit), "PERMITS", strconv.Itoa(s.permits))
	}
	if s.session {
		cmd.Args = append(cmd.Args, "SESSION")
	} else {
		cmd.Args = append(cmd.Args, "PX", millis(s.lease))
	}
	switch {
	case block == noLimit:
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

func (s *spec) releaseCommand(owner string) transport.Command {
	if s.multi {
		return s.named("LOCK.MRELEASE", owner, s.modes)
	}
	return onKey("LOCK.RELEASE", s.keys[0], append([]string{owner}, s.release...)...)
}

// cancelCommand ends the wait, and releases the hold if it was granted already; for a multi-key lock it only ends the
// wait.
func (s *spec) cancelCommand(owner string) transport.Command {
	if s.multi {
		return onKey("LOCK.CANCEL", s.keys[0], owner)
	}
	return onKey("LOCK.CANCEL", s.keys[0], append([]string{owner, "RELEASE"}, s.release...)...)
}

// releaseOne is the command that releases one of several keys, of which another was lost.
func (s *spec) releaseOne(i int, owner string) transport.Command {
	cmd := onKey("LOCK.RELEASE", s.keys[i], owner)
	if s.modes != nil {
		cmd.Args = append(cmd.Args, s.modes[i])
	}
	return cmd
}

// renewCommand renews the leases of all keys, or none. The lease 0 is the server's default, which sessions have.
func (s *spec) renewCommand(owner string, lease time.Duration) transport.Command {
	name := "LOCK.RENEW"
	if s.multi {
		name = "LOCK.MRENEW"
	}
	cmd := s.named(name, owner, nil)
	if lease == 0 {
		return cmd
	}
	cmd.Args = append(cmd.Args, "PX", millis(lease))
	return s.replicated(cmd)
}

// bindCommand binds a session to the connection on which it is sent.
func (s *spec) bindCommand(owner string) transport.Command {
	cmd := s.renewCommand(owner, 0)
	cmd.Args = append(cmd.Args, "SESSION")
	return cmd
}

func watchCommand(key, owner string, block time.Duration) transport.Command {
	cmd := onKey("LOCK.WATCH", key, owner, "BLOCK", millis(block))
	cmd.Waits = true
	return cmd
}

// named is a command on all keys of the lock; the keys of a multi-key lock are preceded by their number, and their modes,
// if there are any, follow the owner.
func (s *spec) named(name, owner string, modes []string) transport.Command {
	if !s.multi {
		return onKey(name, s.keys[0], owner)
	}
	args := append([]string{name, strconv.Itoa(len(s.keys))}, s.keys...)
	args = append(args, owner)
	if modes != nil {
		args = append(append(args, "MODES"), modes...)
	}
	return transport.Command{Args: args, First: 2, Count: len(s.keys)}
}

func (s *spec) replicated(cmd transport.Command) transport.Command {
	if s.replicas > 0 {
		cmd.Args = append(cmd.Args, "REPLICAS", strconv.Itoa(s.replicas), millis(s.within))
		cmd.Waits, cmd.Takes = true, s.within
	}
	return cmd
}

func onKey(name, key string, args ...string) transport.Command {
	return transport.Command{Args: append([]string{name, key}, args...), First: 1, Count: 1}
}

// millis rounds up, so that the rest of a wait never becomes 0, which would mean no limit.
func millis(d time.Duration) string {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return strconv.FormatInt(max(1, ms), 10)
}
