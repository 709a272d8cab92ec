package clients

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Conn is a connection that uses RESP2.
type Conn struct {
	socket net.Conn
	reader *bufio.Reader
}

// Error is an error reply.
type Error string

func (e Error) Error() string { return string(e) }

// Code returns its first word.
func (e Error) Code() string { return strings.SplitN(string(e), " ", 2)[0] }

// Dial connects.
func Dial(address string, limit time.Duration) (*Conn, error) {
	socket, err := net.DialTimeout("tcp", address, limit)
	if err != nil {
		return nil, err
	}
	return &Conn{socket, bufio.NewReader(socket)}, nil
}

// Close closes it.
func (c *Conn) Close() { _ = c.socket.Close() }

// Do sends a command and returns the reply: an int64, a string, nil, a list, or an Error. If the second result is not
// nil, the connection has failed, and cannot be used any more.
func (c *Conn) Do(limit time.Duration, words ...interface{}) (interface{}, error) {
	if err := c.socket.SetDeadline(time.Now().Add(limit)); err != nil {
		return nil, err
	}
	if _, err := c.socket.Write(encode(words)); err != nil {
		return nil, err
	}
	return c.reply()
}

func encode(words []interface{}) []byte {
	b := []byte(fmt.Sprintf("*%d\r\n", len(words)))
	for _, word := range words {
		text := fmt.Sprint(word)
		b = append(b, fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)...)
	}
	return b
}

func (c *Conn) reply() (interface{}, error) {
	line, err := c.reader.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return nil, errors.New("an empty line")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return Error(rest), nil
	case ':':
		return strconv.ParseInt(rest, 10, 64)
	}
	n, err := strconv.Atoi(rest)
	if err != nil || n < 0 {
		return nil, err
	}
	if kind == '*' {
		return c.list(n)
	}
	text := make([]byte, n+2)
	_, err = io.ReadFull(c.reader, text)
	return string(text[:n]), err
}

func (c *Conn) list(n int) (interface{}, error) {
	list := make([]interface{}, n)
	for i := range list {
		var err error
		if list[i], err = c.reply(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Field returns a number from an INFO text, or -1.
func Field(info interface{}, name string) int64 {
	text, _ := info.(string)
	for _, line := range strings.Split(text, "\n") {
		if value := strings.TrimPrefix(line, name+":"); value != line {
			if n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); err == nil {
				return n
			}
		}
	}
	return -1
}
