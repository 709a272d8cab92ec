package lockso

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

// ownerLength is the length of what rand.Text returns. No other argument has this length.
const ownerLength = 26

var errCut = errors.New("the connection was cut")

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
	closed bool
}

type hang struct{}

func newFake(t *testing.T, answer func(string) (any, error)) (*fake, *Client) {
	f := &fake{t: t, owners: map[string]bool{}, answer: answer}
	c := New(f)
	t.Cleanup(func() { c.Close() })
	return f, c
}

// answered records a command, and returns the test's answer to it.
func (f *fake) answered(cmd Command) (any, error) {
	words := make([]string, len(cmd.Args))
	f.mu.Lock()
	for i, word := range cmd.Args {
		if len(word) == ownerLength {
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

func (f *fake) Do(ctx context.Context, cmd Command) (any, error) {
	if _, ok := ctx.Deadline(); !ok || cmd.Waits {
		f.t.Errorf("%v has no deadline, or it waits", cmd.Args)
	}
	reply, err := f.answered(cmd)
	if _, ok := reply.(hang); ok {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return reply, err
}

func (f *fake) Conn(key, address string) Conn {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &fakeConn{fake: f, address: address, over: make(chan struct{}), null: make(chan struct{})}
	f.conns = append(f.conns, c)
	return c
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
	over    chan struct{} // closed by Close
	null    chan struct{} // wakes a wait
	mu      sync.Mutex
	state   string // "kept" or "closed"
}

func (c *fakeConn) Do(ctx context.Context, cmd Command) (any, error) {
	reply, err := c.fake.answered(cmd)
	if _, ok := reply.(hang); !ok {
		return reply, err
	}
	select {
	case <-c.null:
		return nil, nil
	case <-c.over:
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
		close(c.over)
	}
}

func (c *fakeConn) Keep() { c.end("kept") }

// refuse is an error reply of the server.
func refuse(text string) error { return ServerError(errors.New(text)) }

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
