package servertest

import (
	"net"
	"sync"
	"testing"
)

// Wire is a proxy before the server, which can keep answers back.
type Wire struct {
	Address string

	mu     sync.Mutex
	may    *sync.Cond
	silent bool
	lose   bool
	over   bool
}

// NewWire begins a proxy that lasts as long as the test.
func NewWire(t *testing.T) *Wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &Wire{Address: listener.Addr().String()}
	w.may = sync.NewCond(&w.mu)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go w.serve(client)
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		w.set(func() { w.over = true })
	})
	return w
}

// Silence keeps back all that the server says from now on.
func (w *Wire) Silence() { w.set(func() { w.silent = true }) }

// Lose closes the connection that is to bring the server's next answer, in place of it.
func (w *Wire) Lose() { w.set(func() { w.lose = true }) }

func (w *Wire) set(what func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	what()
	w.may.Broadcast()
}

// pass waits until an answer may go on, and says whether it does.
func (w *Wire) pass() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.silent && !w.over {
		w.may.Wait()
	}
	lost := w.lose
	w.lose = false
	return !lost && !w.over
}

func (w *Wire) serve(client net.Conn) {
	server, err := net.Dial("tcp", Address)
	if err != nil {
		client.Close()
		return
	}
	go func() {
		carry(client, server, func() bool { return true })
		server.Close()
	}()
	carry(server, client, w.pass)
	client.Close()
	server.Close()
}

func carry(from, to net.Conn, may func() bool) {
	some := make([]byte, 4096)
	for {
		n, err := from.Read(some)
		if err != nil || !may() {
			return
		}
		if _, err := to.Write(some[:n]); err != nil {
			return
		}
	}
}
