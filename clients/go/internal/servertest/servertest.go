// Package servertest starts a server with the module for the tests that need one.
package servertest

import (
	"bufio"
	"cmp"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Address is the server's address.
var (
	Address string
	Server  Node
)

// Run starts a server for the tests of a package and runs them: the program SERVER, by default redis-server, with the
// module at the path MODULE. Without MODULE it runs no tests, and writes a message.
func Run(m *testing.M) {
	if os.Getenv("MODULE") == "" {
		fmt.Fprintln(os.Stderr, "MODULE is not set to the path of lock.so: no tests with a server")
		os.Exit(0)
	}
	address, _, stop, err := start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	Address, Server = address, Node{address}
	code := m.Run()
	stop()
	os.Exit(code)
}

// start starts a server, and tries other ports if it ends: another process may have taken one of them meanwhile.
func start(settings ...string) (address string, bus int, stop func(), err error) {
	for range 10 {
		var port int
		if port, err = freePort(); err != nil {
			break
		}
		if bus, err = freePort(); err != nil {
			break
		}
		if stop, err = startAt(port, bus, settings); err == nil {
			return fmt.Sprintf("127.0.0.1:%d", port), bus, stop, nil
		}
	}
	return "", 0, nil, err
}

// startAt waits until the server logs that it accepts connections, which it does not if another process has the port.
func startAt(port, bus int, settings []string) (stop func(), err error) {
	program := cmp.Or(os.Getenv("SERVER"), "redis-server")
	server := exec.Command(program, append([]string{"--port", fmt.Sprint(port), "--cluster-port", fmt.Sprint(bus),
		"--bind", "127.0.0.1", "--save", "", "--loadmodule", os.Getenv("MODULE")}, settings...)...)
	output, err := server.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := server.Start(); err != nil {
		return nil, err
	}
	var log []string
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if log = append(log, lines.Text()); strings.Contains(lines.Text(), "Ready to accept connections") {
			go func() { // its later output is not needed, but must be read
				for lines.Scan() {
				}
			}()
			return func() { server.Process.Kill(); server.Wait() }, nil
		}
	}
	server.Wait()
	return nil, fmt.Errorf("%s did not start:\n%s", program, strings.Join(log, "\n"))
}

// freePort returns a port on which no process listens now.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
