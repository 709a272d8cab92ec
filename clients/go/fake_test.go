//go:build go1.25

package lockso

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lock-so.invalid/lock-so/clients/go/internal/transport"
)

// anOwner is what an owner looks like. No other argument does.
var anOwner = regexp.MustCompile(`^[^:]+:[0-9]+:[0-9a-f]{16}$`)

var (
	errCut    = errors.New("the connection was cut")
	errSilent = errors.New("no reply")
)

// fake is a Backend whose replies come from a test.
type fake struct {
	t *testing.T

	mu     sync.Mutex
	sent   []string // all commands, in their order; "#" in place of the owner
	owners map[string]bool
	// answer is called for each command. After the reply hang, a wait lasts until it is cut, cancelled, or at its
	// deadline.
	answer func(command string) (any, error)
	conns  []*fakeConn
	dials  atomic.Int32 // how many are in progress
	closed bool
	dial   func() error // fails to connect; nil: connects at once
	info   any          // the reply of LOCK.INFO, which is not recorded; hang: none
	logged strings.Builder
}

type hang struct{}

// blocks is the reply of a server whose lock is held: null after the time of BLOCK.
type blocks struct{}

func newFake(t *testing.T, answer func(string) (any, error), options ...ClientOption) (*fake, *Client) {
	f := &fake{t: t, owners: map[string]bool{}, answer: answer}
	c, err := New(f, false, append(options, Logger(slog.New(slog.NewTextHandler(writer{f}, nil))))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return f, c
}

// writer collects what is logged.
type writer struct{ f *fake }

func (w writer) Write(text []byte) (int, error) {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	return w.f.logged.Write(text)
}

func (f *fake) warnings() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.logged.String()
}

// answered records a command, and returns the test's answer to it.
func (f *fake) answered(cmd transport.Command) (any, error) {
	words := make([]string, len(cmd.Args))
	f.mu.Lock()
	for i, word := range cmd.Args {
		if anOwner.MatchString(word) {
			f.owners[word] = true
			word = "#"
		}
		words[i] = word
	}
	text := strings.Join(words, " ")
	f.sent = append(f.sent, text)
	answer := f.answer
	f.mu.Unlock()
	return answer(text)
}

func (f *fake) Do(ctx context.Context, cmd transport.Command) (any, error) {
	if _, ok := ctx.Deadline(); !ok || cmd.Waits {
		f.t.Errorf("%v has no deadline, or it waits", cmd.Args)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if cmd.Args[0] == "LOCK.INFO" {
		if f.info == (hang{}) {
			<-ctx.Done()
		}
		return f.info, ctx.Err()
	}
	reply, err := f.answered(cmd)
	if _, ok := reply.(hang); ok {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return reply, err
}

func (f *fake) Server() (string, bool) { return "127.0.0.1:6379", false }

func (f *fake) Address(string) string { return "127.0.0.1:6379" }

func (f *fake) Conn(ctx context.Context, within time.Duration, key, address string) (transport.Conn, error) {
	if f.dial != nil {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		if err := f.dial(); err == errSilent {
			f.dials.Add(1)
			defer f.dials.Add(-1)
			<-ctx.Done()
			return nil, ctx.Err()
		} else if err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &fakeConn{fake: f, address: address, number: int64(len(f.conns)), cut: make(chan struct{}), null: make(chan struct{}, 1)}
	f.conns = append(f.conns, c)
	return c, nil
}

func (f *fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

func (f *fake) log() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.sent, "\n")
}

// wake replies with null to the waits that hang.
func (f *fake) wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		select {
		case c.null <- struct{}{}:
		default:
		}
	}
}

type fakeConn struct {
	fake    *fake
	address string
	number  int64
	cut     chan struct{} // closed by Close
	null    chan struct{} // wakes a wait
	mu      sync.Mutex
	state   string // "kept" or "closed"
}

func (c *fakeConn) Do(ctx context.Context, cmd transport.Command) (any, error) {
	reply, err := c.fake.answered(cmd)
	if _, number := reply.(int64); number && cmd.Args[0] == "LOCK.WATCH" {
		reply = blocks{} // the test is not about watches
	}
	switch reply.(type) {
	case hang:
	case blocks:
		if i := slices.Index(cmd.Args, "BLOCK"); i > 0 {
			ms, _ := strconv.Atoi(cmd.Args[i+1])
			time.AfterFunc(time.Duration(ms)*time.Millisecond, func() { c.null <- struct{}{} })
		} else if cmd.Args[0] == "BLMOVE" {
			time.AfterFunc(time.Second, func() { c.null <- struct{}{} })
		} else {
			return nil, nil
		}
	default:
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return reply, err
	}
	select {
	case <-c.null:
		return nil, nil
	case <-c.cut:
		return nil, errCut
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *fakeConn) end(state string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != "" {
		return false
	}
	c.state = state
	return true
}

// how returns what happened to the connection: "kept", "closed", or "" if neither.
func (c *fakeConn) how() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

func (c *fakeConn) Close() {
	if c.end("closed") {
		close(c.cut)
	}
}

func (c *fakeConn) Keep() { c.end("kept") }

func (c *fakeConn) Number() int64 { return c.number }

// refuse is an error reply of the server.
func refuse(text string) error { return &transport.ServerError{Reply: errors.New(text)} }

func isErr(t *testing.T, err error, wanted ...error) {
	t.Helper()
	for _, want := range wanted {
		if !errors.Is(err, want) {
			t.Errorf("%v is not %v", err, want)
		}
	}
}

func took(t *testing.T, since time.Time, low, high time.Duration) {
	t.Helper()
	if d := time.Since(since); d < low || d > high {
		t.Errorf("it took %v, not %v to %v", d, low, high)
	}
}

func wantLog(t *testing.T, f *fake, lines ...string) {
	t.Helper()
	if got, want := f.log(), strings.Join(lines, "\n"); got != want {
		t.Errorf("sent:\n%s\nnot:\n%s", got, want)
	}
}
