package lockso

import (
	"errors"
	"strings"
)

// The kinds of errors, for errors.Is. Every error of this package is an [Error], and one of these.
var (
	// ErrNotAcquired means that the lock could not be acquired in time. If the context ended the wait, the error is
	// context.Canceled or context.DeadlineExceeded too.
	ErrNotAcquired = errors.New("not acquired")
	// ErrNotHeld means that the hold was lost before it was released: another owner may have held the lock since then.
	ErrNotHeld = errors.New("no longer held")
	// ErrDeadlock means that the wait would have closed a cycle. The text of the error names the cycle.
	ErrDeadlock = errors.New("deadlock")
	// ErrNoReplicas means that too few replicas have acknowledged the grant. The lock is not held.
	ErrNoReplicas = errors.New("not enough replicas")
	// ErrRefused means that the server replied with another error, whose first word is Error.Code.
	ErrRefused = errors.New("refused by the server")
	// ErrConnection means that no server replied in time. It wraps the error of the client library.
	ErrConnection = errors.New("no answer from the server")
	// ErrClosed means that the client has been closed.
	ErrClosed = errors.New("the client is closed")
)

// Error is the type of every error that concerns a lock, for errors.As.
type Error struct {
	Keys []string // the keys of the lock
	Code string   // the first word of the server's error, or ""

	kind  error // one of the values above
	cause error // the error of the client library or of the context, or nil
}

// Error returns the keys of the lock, what went wrong, and why.
func (e *Error) Error() string {
	text := "lockso: " + strings.Join(e.Keys, ", ") + ": " + e.kind.Error()
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

// Unwrap returns the kind of the error and its cause, for errors.Is and errors.As.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return []error{e.kind}
	}
	return []error{e.kind, e.cause}
}

// wrap makes an Error of an error of a Backend.
func (s *spec) wrap(err error) error {
	code := codeOf(err)
	kind := ErrRefused
	switch code {
	case "":
		kind = ErrConnection
	case "NOTHELD":
		kind = ErrNotHeld
	case "DEADLOCK":
		kind = ErrDeadlock
	case "NOREPLICAS":
		kind = ErrNoReplicas
	}
	return s.fail(kind, code, err)
}

func (s *spec) fail(kind error, code string, cause error) error {
	return &Error{Keys: s.keys, Code: code, kind: kind, cause: cause}
}

// codeOf is the first word of an error reply of the server, or "" for any other error.
func codeOf(err error) string {
	answered, ok := errors.AsType[*serverError](err)
	if !ok {
		return ""
	}
	code, _, _ := strings.Cut(answered.Error(), " ")
	if code == "" || strings.ToUpper(code) != code {
		return "ERR" // which rueidis leaves out
	}
	return code
}

// passing returns whether the error is transient, as during a failover, a restart or the move of a slot. Then the
// command is sent again.
func passing(err error) bool {
	switch codeOf(err) {
	case "", "READONLY", "UNBLOCKED", "LOADING", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "MOVED", "ASK":
		return true
	}
	return false
}

// lost returns whether the command may or may not have been executed.
func lost(err error) bool { return err != nil && codeOf(err) == "" }

// route is where a redirection sends a command: an address of the cluster, or "" for the master of the key.
type route struct {
	address string
	asking  bool
}

// redirection parses "MOVED slot host:port" and "ASK slot host:port". Any other error leads to the master of the key.
func redirection(err error) route {
	code := codeOf(err)
	if code != "MOVED" && code != "ASK" {
		return route{}
	}
	words := strings.Fields(err.Error())
	if len(words) != 3 || strings.HasPrefix(words[2], ":") {
		return route{}
	}
	return route{address: words[2], asking: code == "ASK"}
}
