//go:build go1.25

package lockso

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// voter is a server with one lock, for one owner at a time.
type voter struct {
	mu    sync.Mutex
	held  bool
	token int64
	run   string
	fails func(command string) (any, error, bool) // a reply, an error, and whether it is used; or nil
	fake  *fake
}

func (v *voter) set(held bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held = held
}

func (v *voter) failWith(fails func(command string) (any, error, bool)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.fails = fails
}

func (v *voter) isHeld() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.held
}

func (v *voter) answer(command string) (any, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.fails != nil {
		if reply, err, fails := v.fails(command); fails {
			return reply, err
		}
	}
	name, _, _ := strings.Cut(command, " ")
	switch {
	case name == "HELLO":
		return []any{"role", "master", "mode", "standalone"}, nil
	case name == "INFO":
		return "# Server\r\nrun_id:" + v.run + "\r\n", nil
	case name == "LOCK.ACQUIRE" && v.held:
		return nil, nil
	case name == "LOCK.ACQUIRE":
		v.held = true
		v.token++
		return v.token, nil
	case v.held && name == "LOCK.RELEASE":
		v.held = false
		return int64(0), nil
	case v.held && name == "LOCK.RENEW":
		return int64(1), nil
	}
	return nil, refuse("NOTHELD x")
}

// silent makes a server not reply to commands that begin so.
func silent(prefix string) func(string) (any, error, bool) {
	return func(command string) (any, error, bool) { return hang{}, nil, strings.HasPrefix(command, prefix) }
}

// failing makes it reply with an error, or lose the connection.
func failing(prefix string, err error) func(string) (any, error, bool) {
	return func(command string) (any, error, bool) { return nil, err, strings.HasPrefix(command, prefix) }
}

func newVoters(t *testing.T, n int) (*RedLock, []*voter) {
	t.Helper()
	var voters []*voter
	var clients []*Client
	for i := range n {
		v := &voter{run: fmt.Sprintf("%040x", i+1), token: int64(10 * i)}
		var c *Client
		v.fake, c = newFake(t, v.answer)
		c.core.name = fmt.Sprintf("server-%d:1", i)
		voters, clients = append(voters, v), append(clients, c)
	}
	return NewRedLock(clients...), voters
}

func heldBy(voters []*voter) (which string) {
	for i, v := range voters {
		if v.isHeld() {
			which += fmt.Sprint(i)
		}
	}
	return which
}

func wantHeld(t *testing.T, voters []*voter, want string) {
	t.Helper()
	if got := heldBy(voters); got != want {
		t.Errorf("held on %q, not %q", got, want)
	}
}

func TestRedLock(t *testing.T) {
	bubble(t, "on all servers", func(t *testing.T) {
		red, voters := newVoters(t, 3)
		hold := kept(t, red.Lock("k", Lease(9*time.Second)))
		time.Sleep(20 * time.Millisecond)
		wantHeld(t, voters, "012")
		if token := hold.Token(); token != 21 && token != 11 { // of the two or three that had replied
			t.Error(token)
		}
		time.Sleep(20 * time.Second)
		if err := hold.Renew(background); err != nil || isLost(hold) {
			t.Error(err)
		}
		_, err := hold.Guard(background, "PING")
		isErr(t, err, ErrOption)
		if err := hold.Unlock(background); err != nil {
			t.Error(err)
		}
		wantHeld(t, voters, "")
		isErr(t, hold.Unlock(background), ErrNotHeld)
		if sent := voters[0].fake.log(); !strings.HasPrefix(sent, "HELLO\nINFO server\nLOCK.ACQUIRE k # PX 9000 FENCED ONCE") || strings.Count(sent, "HELLO") != 1 {
			t.Error(sent)
		}
	})
	bubble(t, "a minority is away, and comes back", func(t *testing.T) {
		red, voters := newVoters(t, 5)
		voters[1].fails, voters[4].fails = silent(""), failing("", errCut)
		hold := kept(t, red.Lock("k", Lease(3*time.Second)))
		time.Sleep(10 * time.Second)
		for _, i := range []int{1, 4} {
			voters[i].failWith(nil)
		}
		time.Sleep(10 * time.Second) // they get the lock by renewals, and count
		wantHeld(t, voters, "01234")
		voters[0].set(false)
		voters[2].set(false)
		time.Sleep(2 * time.Second)
		if isLost(hold) {
			t.Error("lost")
		}
		if err := hold.Unlock(background); err != nil {
			t.Error(err)
		}
		wantHeld(t, voters, "")
	})
	bubble(t, "a majority is away", func(t *testing.T) {
		red, voters := newVoters(t, 3)
		voters[1].fails, voters[2].fails = failing("", errCut), silent("")
		start := time.Now()
		_, err := red.Lock("k").TryLock(background)
		isErr(t, err, ErrConnection)
		took(t, start, 0, tolerance)
		start = time.Now()
		_, err = red.Lock("k", Wait(time.Second)).Lock(background)
		isErr(t, err, ErrNotAcquired, ErrConnection, context.DeadlineExceeded)
		took(t, start, time.Second, time.Second+tolerance)
		start = time.Now()
		_, err = red.Lock("k").Lock(background)
		isErr(t, err, ErrConnection)
		took(t, start, 5*time.Second, 6*time.Second)
		time.Sleep(time.Second)
		wantHeld(t, voters, "")
	})
	bubble(t, "another client holds it", func(t *testing.T) {
		red, voters := newVoters(t, 3)
		voters[0].set(true)
		voters[1].set(true)
		voters[0].fake.info = []any{"holders", []any{[]any{"owner", "another"}}}
		voters[0].fails, voters[1].fails = failing("LOCK.RELEASE", refuse("NOTHELD x")), failing("LOCK.RELEASE", refuse("NOTHELD x"))
		start := time.Now()
		_, err := red.Lock("k", Wait(2*time.Second)).Lock(background)
		if isErr(t, err, ErrNotAcquired); err.Error() != `RedLock "k" was not acquired within 2 s: held by another` {
			t.Error(err)
		}
		took(t, start, 2*time.Second, 2*time.Second+tolerance)
		wantHeld(t, voters, "01")
		ctx, cancel := context.WithCancel(background)
		time.AfterFunc(time.Second, cancel)
		_, err = red.Lock("k").Lock(ctx)
		isErr(t, err, ErrNotAcquired, context.Canceled)
		another := voters[0].fails
		time.AfterFunc(time.Second, func() {
			voters[0].set(false)
			voters[0].failWith(nil)
		})
		if err := kept(t, red.Lock("k")).Unlock(background); err != nil {
			t.Error(err)
		}
		time.AfterFunc(time.Second, func() { red.clients[2].Close() })
		voters[0].failWith(another)
		voters[0].set(true)
		_, err = red.Lock("k").Lock(background)
		isErr(t, err, ErrClosed)
	})
	bubble(t, "another client holds it, and one server is away", func(t *testing.T) {
		red, voters := newVoters(t, 3)
		voters[0].fake.dial = func() error { return errCut }
		voters[2].fake.dial = func() error {
			time.Sleep(10 * time.Millisecond) // the first two have failed when it replies
			return nil
		}
		for _, v := range voters[1:] {
			v.set(true)
			v.fails, v.fake.info = failing("LOCK.RELEASE", refuse("NOTHELD x")), holders("another")
		}
		for text, wait := range map[string]time.Duration{"": 0, " within 7 s": 7 * time.Second} { // longer than ConnectTimeout
			_, err := red.Lock("k", Wait(wait)).Lock(background)
			isErr(t, err, ErrNotAcquired)
			if want := `RedLock "k" was not acquired` + text + `: held by another`; errors.Is(err, ErrConnection) || err.Error() != want {
				t.Errorf("%v, not %s", err, want)
			}
		}
	})
	bubble(t, "a server that does not respond has one connection of each waiter", func(t *testing.T) {
		red, voters := newVoters(t, 3)
		voters[0].set(true)
		voters[0].fails = failing("LOCK.RELEASE", refuse("NOTHELD x"))
		var dials atomic.Int32
		voters[2].fake.dial = func() error {
			dials.Add(1)
			return errSilent
		}
		_, err := red.Lock("k", Wait(4*time.Second)).Lock(background)
		isErr(t, err, ErrNotAcquired)
		if n := dials.Load(); n != 1 {
			t.Errorf("%d connections", n)
		}
	})
	bubble(t, "a server that does not respond has no connection of a lock that was released", func(t *testing.T) {
		red, voters := newVoters(t, 3)
		voters[2].fake.dial = func() error { return errSilent }
		for i := range 20 {
			start := time.Now()
			hold, err := red.Lock("k", Lease(time.Second)).TryLock(background)
			if err != nil {
				t.Fatal(err)
			}
			if err := hold.Unlock(background); err != nil {
				t.Error(err)
			}
			if i > 0 { // the first one waits for who the server is
				took(t, start, 0, time.Millisecond)
			}
		}
		synctest.Wait()
		if n := voters[2].fake.dials.Load(); n > 0 {
			t.Errorf("%d connections that nobody needs", n)
		}
	})
	bubble(t, "a majority refuses", func(t *testing.T) {
		red, voters := newVoters(t, 3)
		voters[1].fails = failing("LOCK.ACQUIRE", refuse("WRONGTYPE x"))
		kept(t, red.Lock("k")).Unlock(background)
		voters[2].fails = failing("LOCK.ACQUIRE", refuse("WRONGTYPE x"))
		_, err := red.Lock("k").Lock(background)
		isErr(t, err, ErrRefused)
		time.Sleep(time.Second)
		wantHeld(t, voters, "")
	})
	bubble(t, "the release follows a request that has not been answered", func(t *testing.T) {
		red, voters := newVoters(t, 3)
		voters[2].fails = silent("LOCK.ACQUIRE")
		hold := kept(t, red.Lock("k"))
		synctest.Wait() // until it has received the request: the majority did not wait for that
		if err := hold.Unlock(background); err != nil {
			t.Error(err)
		}
		if strings.Contains(voters[2].fake.log(), "LOCK.RELEASE") {
			t.Error("it was sent on another connection")
		}
		time.Sleep(6 * time.Second) // the connection is given up
		if !strings.Contains(voters[2].fake.log(), "LOCK.RELEASE k #") {
			t.Error(voters[2].fake.log())
		}
	})
	bubble(t, "a server that refuses connections delays nothing", func(t *testing.T) {
		red, voters := newVoters(t, 3)
		voters[2].fake.dial = func() error { return errCut }
		start := time.Now()
		if err := kept(t, red.Lock("k")).Unlock(background); err != nil {
			t.Error(err)
		}
		took(t, start, 0, time.Millisecond)
		voters[2].fake.dial = nil
		hold := kept(t, red.Lock("k"))
		synctest.Wait() // until all have granted it
		voters[2].failWith(failing("", errCut))
		start = time.Now()
		if err := hold.Unlock(background); err != nil {
			t.Error(err)
		}
		took(t, start, 0, time.Millisecond)
		voters[2].failWith(nil)
		time.Sleep(time.Second)
		wantHeld(t, voters, "")
	})
	bubble(t, "a server that is away during the release is released later, also after a longer lease", func(t *testing.T) {
		red, voters := newVoters(t, 3)
		hold := kept(t, red.Lock("k", Lease(3*time.Second)))
		if err := hold.RenewFor(background, time.Minute); err != nil {
			t.Error(err)
		}
		voters[2].failWith(failing("", errCut))
		if err := hold.Unlock(background); err != nil {
			t.Error(err)
		}
		time.Sleep(30 * time.Second)
		wantHeld(t, voters, "2")
		voters[2].failWith(nil)
		time.Sleep(time.Second)
		wantHeld(t, voters, "")
	})
	bubble(t, "lost on a majority", func(t *testing.T) {
		red, voters := newVoters(t, 3)
		hold := kept(t, red.Lock("k", Lease(9*time.Second)))
		time.Sleep(time.Second)
		voters[0].set(false)
		voters[1].set(false)
		start := time.Now()
		<-hold.Lost()
		took(t, start, 2*time.Second, 2100*time.Millisecond)
		isErr(t, context.Cause(hold.Context()), ErrNotHeld)
		isErr(t, hold.Unlock(background), ErrNotHeld)
		time.Sleep(time.Second)
		wantHeld(t, voters, "")
	})
	bubble(t, "restarts one after the other, each before a renewal without it", func(t *testing.T) {
		red, voters := newVoters(t, 3)
		hold := kept(t, red.Lock("k", Lease(9*time.Second)))
		time.Sleep(time.Second)
		voters[0].set(false)
		time.Sleep(3 * time.Second) // acquired again, and counts
		wantHeld(t, voters, "012")
		voters[1].set(false)
		time.Sleep(3 * time.Second)
		if isLost(hold) {
			t.Error("lost")
		}
		voters[1].set(false)
		voters[2].set(false)
		<-hold.Lost()
		hold.Unlock(background)
	})
	bubble(t, "a new grant does not count before a majority without it", func(t *testing.T) {
		red, voters := newVoters(t, 3)
		hold := kept(t, red.Lock("k", Lease(9*time.Second)))
		time.Sleep(time.Second)
		voters[0].set(false)
		voters[1].failWith(silent("LOCK.RENEW"))
		start := time.Now()
		<-hold.Lost() // only one has held it all the time and replies
		took(t, start, 7*time.Second, 8*time.Second)
		hold.Unlock(background)
	})
	bubble(t, "one has lost it while another one does not reply for a moment", func(t *testing.T) {
		red, voters := newVoters(t, 3)
		hold := kept(t, red.Lock("k", Lease(9*time.Second)))
		time.Sleep(time.Second)
		voters[0].set(false)
		voters[0].failWith(silent("LOCK.ACQUIRE"))
		voters[1].failWith(silent("LOCK.RENEW"))
		isErr(t, hold.Renew(background), ErrConnection)
		voters[1].failWith(nil)
		time.Sleep(20 * time.Second)
		if isLost(hold) {
			t.Error("lost")
		}
		hold.Unlock(background)
	})
	bubble(t, "a request that is late makes no connection", func(t *testing.T) {
		red, voters := newVoters(t, 3)
		c := &campaign{majority: red.Lock("k").target.(*majority), ctx: background}
		for range voters {
			c.turns = append(c.turns, make(chan struct{}, 1))
		}
		q := newQuorum(c)
		q.giveUp()
		time.Sleep(time.Second)
		v := q.votes[0]
		v.meet()
		v.request(time.Second, true)
		if len(voters[0].fake.conns) > 0 {
			t.Error("it has a connection")
		}
	})
	bubble(t, "no reply until the lease ends", func(t *testing.T) {
		red, voters := newVoters(t, 3)
		hold := kept(t, red.Lock("k", Lease(10*time.Second)))
		start := time.Now()
		for _, v := range voters {
			v.failWith(failing("", errCut))
		}
		isErr(t, hold.Renew(background), ErrConnection)
		<-hold.Lost()
		took(t, start, 9897*time.Millisecond, 9899*time.Millisecond)
		isErr(t, hold.Unlock(background), ErrNotHeld)
	})
	bubble(t, "who holds it, as a majority replies", func(t *testing.T) {
		red, voters := newVoters(t, 3)
		lock := red.Lock("k")
		for _, v := range voters[1:] {
			v.fake.info = holders("another")
			v.fails = func(command string) (any, error, bool) {
				return int64(1), nil, strings.HasPrefix(command, "LOCK.FORCE")
			}
		}
		voters[0].fake.info, voters[0].fails = hang{}, silent("")
		start := time.Now()
		if info, err := lock.Info(background); err != nil || len(info.Holders) != 2 {
			t.Error(info, err)
		}
		if forced, err := lock.Force(background); err != nil || !forced {
			t.Error(forced, err)
		}
		took(t, start, 0, 4*time.Second)
		voters[1].fake.info = hang{}
		voters[1].failWith(silent(""))
		start = time.Now()
		_, err := lock.Locked(background)
		isErr(t, err, ErrConnection)
		took(t, start, 0, 2*time.Second)
		_, err = lock.Force(background)
		isErr(t, err, ErrConnection)
	})
	bubble(t, "close", func(t *testing.T) {
		red, voters := newVoters(t, 3)
		hold := kept(t, red.Lock("k"))
		red.clients[1].Close()
		time.Sleep(time.Second)
		wantHeld(t, voters, "")
		isErr(t, hold.Unlock(background), ErrNotHeld)
	})
	bubble(t, "servers that are not independent", func(t *testing.T) {
		red, voters := newVoters(t, 3)
		voters[2].run = voters[0].run
		_, err := red.Lock("k").Lock(background)
		if isErr(t, err, ErrOption); !strings.Contains(err.Error(), "are the same server") {
			t.Error(err)
		}
		red, voters = newVoters(t, 3)
		voters[1].fails = func(command string) (any, error, bool) {
			return map[string]any{"role": "replica"}, nil, command == "HELLO"
		}
		_, err = red.Lock("k").Lock(background)
		if isErr(t, err, ErrOption); !strings.Contains(err.Error(), "is a replica") {
			t.Error(err)
		}
		red, voters = newVoters(t, 3)
		for _, i := range []int{1, 2} {
			voters[i].fails = func(command string) (any, error, bool) {
				switch command {
				case "HELLO":
					return map[any]any{"role": "master", "mode": "cluster"}, nil, true
				case "CLUSTER NODES":
					return strings.Repeat("a", 40) + " 127.0.0.1:1\n" + strings.Repeat("b", 40) + " 127.0.0.1:2\n", nil, true
				}
				return nil, nil, false
			}
		}
		_, err = red.Lock("k").Lock(background)
		if isErr(t, err, ErrOption); !strings.Contains(err.Error(), "are nodes of one cluster") {
			t.Error(err)
		}
		red, voters = newVoters(t, 3)
		for _, v := range voters {
			v.fails = failing("INFO", refuse("NOPERM x"))
			v.run = "0"
		}
		if _, err := red.Lock("k", NoRenew()).Lock(background); err != nil {
			t.Error(err)
		}
	})
	bubble(t, "a name that leads to another server since the last lock", func(t *testing.T) {
		red, voters := newVoters(t, 3)
		kept(t, red.Lock("k")).Unlock(background)
		voters[2].run = voters[0].run
		hold := kept(t, red.Lock("k"))
		time.Sleep(time.Second)
		wantHeld(t, voters, "01")
		hold.Unlock(background)
	})
	bubble(t, "options that cannot be", func(t *testing.T) {
		red, _ := newVoters(t, 3)
		for _, option := range []Option{Session(), Replicas(1, time.Second), Permits(1), Reentrant(), Lease(0)} {
			_, err := red.Lock("k", option).Lock(background)
			isErr(t, err, ErrOption)
		}
		_, err := Combine(red.Lock("k"), red.clients[0].Lock("l")).Lock(background)
		isErr(t, err, ErrOption)
		for _, clients := range [][]*Client{nil, red.clients[:2], {red.clients[0], red.clients[1], red.clients[0]}} {
			_, err := NewRedLock(clients...).Lock("k").Lock(background)
			isErr(t, err, ErrOption)
		}
		red.clients[0].core.cluster = true
		_, err = NewRedLock(red.clients...).Lock("k").Lock(background)
		isErr(t, err, ErrOption)
	})
}
