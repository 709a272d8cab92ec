package servertest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
)

// Node is a server, as the tests themselves use it, independently of the client libraries.
type Node struct{ Address string }

// Do sends a command on a connection of its own, and returns its reply: nil, an int64, a string or an []any.
func (n Node) Do(words ...string) (any, error) {
	conn, err := net.Dial("tcp", n.Address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	text := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return nil, err
	}
	return parse(bufio.NewReader(conn))
}

// Val is Do for a command that succeeds.
func (n Node) Val(words ...string) any {
	reply, err := n.Do(words...)
	if err != nil {
		panic(fmt.Sprint(words, ": ", err))
	}
	return reply
}

// parse reads a reply of RESP2.
func parse(from *bufio.Reader) (any, error) {
	line, err := from.ReadString('\n')
	if err != nil {
		return nil, err
	}
	kind, rest := line[0], line[1:len(line)-2]
	n, _ := strconv.ParseInt(rest, 10, 64)
	switch {
	case kind == '-':
		return nil, errors.New(rest)
	case kind == ':':
		return n, nil
	case kind == '+':
		return rest, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		text := make([]byte, n+2)
		_, err := io.ReadFull(from, text)
		return string(text[:n]), err
	}
	list := make([]any, n)
	for i := range list {
		if list[i], err = parse(from); err != nil {
			return nil, err
		}
	}
	return list, nil
}
