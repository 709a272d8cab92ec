package lockso

import "context"

// Command is one command for the server: its words, and which of them are keys.
type Command struct {
	Args  []string
	First int  // the index of the first key in Args
	Count int  // how many keys follow each other from there; 0 if there is none
	Waits bool // whether the server may take its time to answer
}

// Key is the key by which the command is routed in a cluster, or "".
func (c Command) Key() string {
	if c.Count == 0 {
		return ""
	}
	return c.Args[c.First]
}

// Backend is what a package for a client library gives to [New]: connections that nobody else uses.
//
// A reply is nil, an int64 or a string. An error that the server answered is wrapped by [ServerError]; every other error
// means that the connection is lost, and that the command may have been carried out or not.
type Backend interface {
	// Do sends a short command to the master that has its key. No wait is in its way, and it is sent once.
	// It ends at the deadline of ctx, which is always set.
	Do(ctx context.Context, cmd Command) (any, error)
	// Conn names a connection for one wait, to the node at this address, or to the master of the key if it is "".
	// It is not made before its first Do.
	Conn(key, address string) Conn
	// Close closes all connections.
	Close() error
}

// Conn is a connection that serves one caller at a time. Exactly one of Close and Keep has to be called in the end.
type Conn interface {
	// Do sends a command, once, and waits for its reply until the deadline of ctx, which is always set. While the
	// connection is not made yet, it ends with ctx.
	// After an error that is no ServerError the connection is of no more use.
	Do(ctx context.Context, cmd Command) (any, error)
	// Close cuts the connection, also under a Do of another goroutine. It may be called again, and after Keep.
	Close()
	// Keep gives the connection back, so that another wait can use it.
	Keep()
}

// ServerError wraps an error that the server answered, so that a lock can tell it from a lost connection.
func ServerError(err error) error { return &serverError{err} }

type serverError struct{ error }

func (e *serverError) Unwrap() error { return e.error }
