package clients

import "sync"

// Master is the server that clients take for the master.
type Master struct {
	Server  int
	Address string
	Term    int // how many changes of the master there have been
}

// View is what clients know of the master. The coordinator sets it.
type View struct {
	mu      sync.Mutex
	master  Master
	changed chan struct{} // closed when there is another one
}

// NewView creates a view with the first master.
func NewView(master Master) *View { return &View{master: master, changed: make(chan struct{})} }

// Master returns the master, and a channel that is closed when there is another one.
func (v *View) Master() (Master, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.master, v.changed
}

// Set sets the master that clients see from now on.
func (v *View) Set(server int, address string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.master = Master{server, address, v.master.Term + 1}
	close(v.changed)
	v.changed = make(chan struct{})
}
