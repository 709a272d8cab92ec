package clients

import "sync"

// Master is where clients believe the master to be.
type Master struct {
	Server  int
	Address string
	Term    int // how many masters there have been
}

// View is what somebody who asks is told: by the coordinator.
type View struct {
	mu     sync.Mutex
	master Master
	heard  chan struct{} // closed when there is another one
}

// NewView begins with a master.
func NewView(master Master) *View { return &View{master: master, heard: make(chan struct{})} }

// Master is the answer.
func (v *View) Master() (Master, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.master, v.heard
}

// Set tells whoever asks from now on.
func (v *View) Set(server int, address string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.master = Master{server, address, v.master.Term + 1}
	close(v.heard)
	v.heard = make(chan struct{})
}
