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

// Address is where the server listens.
var Address string

// Run runs the tests of a package beside a server of their own: the program SERVER, redis-server if that is not set, with
// the module at the path MODULE. Without MODULE it runs none, and says so.
func Run(m *testing.M) {
	module := os.Getenv("MODULE")
	if module == "" {
		fmt.Fprintln(os.Stderr, "MODULE is not set to the path of lock.so: no tests with a server")
		os.Exit(0)
	}
	stop, err := start(cmp.Or(os.Getenv("SERVER"), "redis-server"), module)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	stop()
	os.Exit(code)
}

func start(program, module string) (stop func(), err error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	Address = fmt.Sprintf("127.0.0.1:%d", port)
	server := exec.Command(program, "--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--save", "", "--loadmodule", module)
	said, err := server.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := server.Start(); err != nil {
		return nil, err
	}
	var log []string
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if log = append(log, lines.Text()); strings.Contains(lines.Text(), "Ready to accept connections") {
			go func() { // what it says later is not needed, but has to be read
				for lines.Scan() {
				}
			}()
			return func() { server.Process.Kill(); server.Wait() }, nil
		}
	}
	server.Wait()
	return nil, fmt.Errorf("%s did not start:\n%s", program, strings.Join(log, "\n"))
}

// freePort is one that nobody listens at just now.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
