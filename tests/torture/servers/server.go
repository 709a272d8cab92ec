// Package servers runs servers that can be killed, stopped and isolated.
package servers

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"torture/clients"
	"torture/history"
)

// Program is what is started.
type Program struct {
	Server, Module string
	Folder         string
	Config         []string // further arguments of the command line
}

// Server is a process, which may be restarted, and the proxies in front of it: one for clients, one for its replicas.
type Server struct {
	ID                int
	Name              string
	Clients, Replicas *Proxy
	// When the server or its network failed: then no client can receive a reply in time.
	Failures *history.Spans
	Slow     *history.Spans // when its reply to a PING was late: WatchPings

	program Program
	port    string
	log     *os.File
	mu      sync.Mutex
	process *exec.Cmd
	ended   chan struct{} // closed when the process has ended
	wanted  bool          // it is meant to end
	Crash   string        // how a process ended that was not killed
}

// New starts a server.
func New(id int, name string, program Program) (*Server, error) {
	s := &Server{ID: id, Name: name, program: program, Failures: &history.Spans{}, Slow: &history.Spans{}}
	if err := os.MkdirAll(s.folder(), 0o755); err != nil {
		return nil, err
	}
	var err error
	if s.port, err = freePort(); err != nil {
		return nil, err
	}
	if s.log, err = os.Create(filepath.Join(s.folder(), "log")); err != nil {
		return nil, err
	}
	if s.Clients, err = NewProxy(s.address()); err != nil {
		return nil, err
	}
	if s.Replicas, err = NewProxy(s.address()); err != nil {
		return nil, err
	}
	return s, s.Start()
}

func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = listener.Close() }()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}

func (s *Server) folder() string  { return filepath.Join(s.program.Folder, s.Name) }
func (s *Server) address() string { return "127.0.0.1:" + s.port }

// Start starts the process, without data, and waits until it replies.
func (s *Server) Start() error {
	words := append([]string{"--port", s.port, "--bind", "127.0.0.1", "--dir", s.folder(), "--save", "",
		"--appendonly", "no", "--daemonize", "no", "--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0",
		"--repl-ping-replica-period", "1", "--maxmemory-policy", "noeviction",
		"--loadmodule", s.program.Module}, s.program.Config...)
	process := exec.Command(s.program.Server, words...)
	process.Stdout, process.Stderr = s.log, s.log
	// It ends with this process, however that ends.
	process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := process.Start(); err != nil {
		return err
	}
	s.mu.Lock()
	s.process, s.ended, s.wanted = process, make(chan struct{}), false
	ended := s.ended
	s.mu.Unlock()
	go s.watch(process, ended)
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if reply, err := s.Command("PING"); err == nil && reply == "PONG" {
			return nil
		}
	}
	return fmt.Errorf("%s does not reply: see %s", s.Name, s.log.Name())
}

func (s *Server) watch(process *exec.Cmd, ended chan struct{}) {
	err := process.Wait()
	s.mu.Lock()
	if !s.wanted {
		s.Crash = fmt.Sprintf("%s ended by itself (%v): see %s", s.Name, err, s.log.Name())
	}
	s.mu.Unlock()
	close(ended)
}

// Crashed returns how a process ended that was not killed, or "".
func (s *Server) Crashed() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Crash
}

// Kill kills the process, by SIGKILL.
func (s *Server) Kill() {
	s.mu.Lock()
	s.wanted = true
	process, ended := s.process, s.ended
	s.mu.Unlock()
	_ = process.Process.Kill()
	<-ended
}

// Stop stops the process, by SIGSTOP, until Continue.
func (s *Server) Stop() { _ = s.process.Process.Signal(syscall.SIGSTOP) }

// Continue ends a Stop.
func (s *Server) Continue() { _ = s.process.Process.Signal(syscall.SIGCONT) }

// Close ends the server.
func (s *Server) Close() {
	s.Kill()
	s.Clients.Close()
	s.Replicas.Close()
	_ = s.log.Close()
}

// replyTimeout is how long to wait for a reply: longer than a busy machine takes.
const replyTimeout = 5 * time.Second

// Command sends a command to the server, not through the proxies. It tries again if there is no reply in time, because
// this process may have been stalled.
func (s *Server) Command(words ...interface{}) (reply interface{}, err error) {
	for tries := 0; tries < 3; tries++ {
		var timeout net.Error
		if reply, err = s.commandOnce(words...); !errors.As(err, &timeout) || !timeout.Timeout() {
			break
		}
	}
	return reply, err
}

func (s *Server) commandOnce(words ...interface{}) (interface{}, error) {
	conn, err := clients.Dial(s.address(), replyTimeout)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	reply, err := conn.Do(replyTimeout, words...)
	if failed, is := reply.(clients.Error); is {
		return nil, failed
	}
	return reply, err
}

// Received returns how much of its master's data a replica has received.
func (s *Server) Received() (int64, error) {
	info, err := s.Command("INFO", "replication")
	if err != nil {
		return 0, err
	}
	got := clients.Field(info, "slave_repl_offset")
	if got < 0 {
		return 0, fmt.Errorf("%s is no replica", s.Name)
	}
	return got, nil
}

// Follow makes it a replica of another server.
func (s *Server) Follow(master *Server) error { return s.replicaOf(master.Replicas.Address) }

// Leave makes it a replica of an address without a server: it keeps the data that it has received.
func (s *Server) Leave() error { return s.replicaOf("127.0.0.1:1") }

func (s *Server) replicaOf(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	_, err = s.Command("REPLICAOF", host, port)
	return err
}

// Promote makes it a master.
func (s *Server) Promote() error {
	_, err := s.Command("REPLICAOF", "NO", "ONE")
	return err
}
