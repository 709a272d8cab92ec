package servers

import (
	"net"
	"sync"
)

// Proxy forwards connections to a server. It can hold back all data, like a network that drops everything: connections
// stay open, and nothing arrives, in either direction.
type Proxy struct {
	Address string

	target   string
	listener net.Listener

	mu     sync.Mutex
	opened *sync.Cond
	shut   bool
	links  map[net.Conn]bool
}

// NewProxy forwards to the target.
func NewProxy(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{Address: listener.Addr().String(), target: target, listener: listener, links: map[net.Conn]bool{}}
	p.opened = sync.NewCond(&p.mu)
	go p.serve()
	return p, nil
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.link(client)
	}
}

func (p *Proxy) link(client net.Conn) {
	p.pass()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.links[client], p.links[server] = true, true
	p.mu.Unlock()
	go p.copy(client, server)
	p.copy(server, client)
}

// copy ends when one side has closed, and then closes the other. The closing is held back, too.
func (p *Proxy) copy(from, to net.Conn) {
	buffer := make([]byte, 16*1024)
	for {
		n, err := from.Read(buffer)
		p.pass()
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, end := range []net.Conn{from, to} {
		_ = end.Close()
		delete(p.links, end)
	}
}

// pass waits while the proxy holds data back.
func (p *Proxy) pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.shut {
		p.opened.Wait()
	}
}

func (p *Proxy) set(shut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = shut
	p.opened.Broadcast()
}

// HoldBack begins to hold data back.
func (p *Proxy) HoldBack() { p.set(true) }

// Heal ends it: what was held back arrives now.
func (p *Proxy) Heal() { p.set(false) }

// Cut closes all connections; what was held back is lost.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.links {
		_ = conn.Close()
	}
}

// Close stops the proxy.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.Cut()
	p.Heal()
}
