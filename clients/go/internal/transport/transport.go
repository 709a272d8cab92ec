// Package transport is the interface between lockso and its packages for client libraries, goredis and rueidis.
package transport

import (
	"context"
	"time"
)

const (
	// ShortWithin is how long a short command may take before it is sent again on another connection.
	ShortWithin = 3 * time.Second
	// Longest is how long it may take to connect if nobody waits for it any more, and MostLate how many connections to a
	// server are then being opened.
	Longest  = 5 * time.Second
	MostLate = 16
	// Brief is what a time-out must last to say something about the server: a shorter one is the caller's own limit.
	Brief = time.Second
)

// Command is one command for the server: its arguments, and which of them are keys.
type Command struct {
	Args  []string
	First int           // the index of the first key in Args
	Count int           // how many keys there are, starting at First; 0 if there is none
	Waits bool          // whether the server may block the command before it replies
	Takes time.Duration // how long it then waits for replicas
	Once  bool          // whether it must not be sent again if it may have been executed
}

// Key is the key by which the command is routed in a cluster, or "".
func (c Command) Key() string {
	if c.Count == 0 {
		return ""
	}
	return c.Args[c.First]
}

// Backend has connections that are used for locks only.
//
// A reply is nil, an int64, a string, an array or a map. An error reply of the server is a [ServerError].
// Every other error means that the connection is lost, and that the command may or may not have been executed.
type Backend interface {
	// Do sends a short command to the master that serves its key. It is not queued behind a wait, and is sent once.
	// It ends at the deadline of ctx, which is always set.
	Do(ctx context.Context, cmd Command) (any, error)
	// Conn returns a connection for one wait, to the node at this address, or to the master of the key if it is "". It
	// is established if none is idle, until ctx ends and for within at most; after an error no command was sent. When
	// Conn returns, a connection is open on which Do can send commands for the key.
	Conn(ctx context.Context, within time.Duration, key, address string) (Conn, error)
	// Address is the address of the server that serves the key, for messages, as far as it is known.
	Address(key string) string
	// Server is the name of the server, for the order in which the locks of several servers are acquired, and whether it is
	// a cluster.
	Server() (name string, cluster bool)
	// Close closes all connections.
	Close() error
}

// Conn is a connection that serves one caller at a time. In the end, exactly one of Close and Keep must be called.
type Conn interface {
	// Do sends a command, once, and waits for its reply until the deadline of ctx, which is always set.
	// After an error that is no ServerError the connection cannot be used any more.
	Do(ctx context.Context, cmd Command) (any, error)
	// Close closes the connection, also during a Do of another goroutine. It may be called again, and after Keep.
	Close()
	// Keep gives the connection back, so that another wait can use it.
	Keep()
	// Number is different for each connection, or, where the library does not show which one this is, after each connection
	// that is made.
	Number() int64
}

// ServerError is an error reply of the server.
type ServerError struct{ Reply error }

func (e *ServerError) Error() string { return e.Reply.Error() }
func (e *ServerError) Unwrap() error { return e.Reply }

// Await calls a function that connects, or that may not regard its context, and waits for it until ctx ends. Then it
// continues in the background until within has elapsed, and its result is given to late, if it succeeds: a try on a slow
// network has no time to connect, and the next one needs what it began. If there is no room, its context ends too.
func Await[T any](ctx context.Context, within time.Duration, room chan struct{}, call func(context.Context) (T, error), late func(T)) (T, error) {
	type result struct {
		value T
		err   error
	}
	long, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	done := make(chan result, 1)
	go func() {
		value, err := call(long)
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		cancel()
		return r.value, r.err
	case <-ctx.Done():
	}
	go func() {
		defer cancel()
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
		default:
			cancel()
		}
		if r := <-done; r.err == nil {
			late(r.value)
		}
	}()
	var none T
	return none, ctx.Err()
}
