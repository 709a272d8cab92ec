package servers

import (
	"net"
	"sync"
)

// Proxy stands before a server. It may swallow what comes, as a network does that drops everything: connections stay
// open, and nothing arrives, in either direction.
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

// copy ends when one side has closed, and then closes the other; that one has closed is swallowed too.
func (p *Proxy) copy(from, to net.Conn) {
	buffer := make([]byte, 16*1024)
	for {
		n, err := from.Read(buffer)
		p.pass()
		if n > 0 {
			if _, failed := to.Write(buffer[:n]); failed != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	p.drop(from)
	p.drop(to)
}

func (p *Proxy) drop(conn net.Conn) {
	_ = conn.Close()
	p.mu.Lock()
	delete(p.links, conn)
	p.mu.Unlock()
}

// pass waits while the proxy swallows.
func (p *Proxy) pass() {
	p.mu.Lock()
	for p.shut {
		p.opened.Wait()
	}
	p.mu.Unlock()
}

// Swallow begins.
func (p *Proxy) Swallow() {
	p.mu.Lock()
	p.shut = true
	p.mu.Unlock()
}

// Heal ends it: what was swallowed arrives now.
func (p *Proxy) Heal() {
	p.mu.Lock()
	p.shut = false
	p.mu.Unlock()
	p.opened.Broadcast()
}

// Cut closes all connections; what was swallowed is lost.
func (p *Proxy) Cut() {
	p.mu.Lock()
	var all []net.Conn
	for conn := range p.links {
		all = append(all, conn)
	}
	p.mu.Unlock()
	for _, conn := range all {
		_ = conn.Close()
	}
}

// Close ends the proxy.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.Cut()
	p.Heal()
}
