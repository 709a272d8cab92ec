package lockso

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lock-so.invalid/lock-so/clients/go/internal/transport"
)

// The kinds of errors, for errors.Is. Every error of this package is an [Error], and one of these. In a switch, test
// ErrModuleMissing before ErrRefused, and ErrNotAcquired before ErrConnection.
var (
	// ErrOption means that an option of the lock is invalid. Nothing was sent.
	ErrOption = errors.New("invalid option")
	// ErrNotAcquired means that the lock could not be acquired in time. If [Wait] or the deadline of the context was the
	// limit, the error is context.DeadlineExceeded too, and if the context was cancelled, context.Canceled and its cause.
	// If the last attempt failed because of the connection, it is ErrConnection too.
	ErrNotAcquired = errors.New("not acquired")
	// ErrNotHeld means that the hold was lost before it was released, or that it was released before. If it was lost,
	// another owner may have held the lock since then.
	ErrNotHeld = errors.New("not held")
	// ErrDeadlock means that the wait would have closed a cycle of owners. The text of the error names the cycle. Each acquisition
	// has an owner of its own, so the server sees no cycle of two acquisitions: they wait until the end of [Wait] or the context.
	ErrDeadlock = errors.New("deadlock")
	// ErrNoReplicas means that too few replicas have acknowledged the grant. The lock is not held.
	ErrNoReplicas = errors.New("not enough replicas")
	// ErrRefused means that the server replied with another error, whose first word is Error.Code.
	ErrRefused = errors.New("refused by the server")
	// ErrModuleMissing means that the server does not know the commands, because lock.so is not loaded. It is ErrRefused too.
	ErrModuleMissing = errors.New("lock.so is not loaded")
	// ErrConnection means that no server replied in time, or that it accepts no more clients. It wraps the error of the
	// client library.
	ErrConnection = errors.New("no connection")
	// ErrClosed means that the client has been closed.
	ErrClosed = errors.New("these locks are closed")
)

// Error is the type of every error that concerns a lock, for errors.As.
type Error struct {
	Keys    []string      // the keys of the lock
	Code    string        // the first word of the server's error, or ""
	Waited  time.Duration // of ErrNotAcquired: for how long
	Holders []string      // of ErrNotAcquired: the owners that hold the lock, if they are known

	text string
	is   []error // one of the values above, and what caused it
}

// Error returns which lock it is, what went wrong, and why.
func (e *Error) Error() string { return e.text }

// Unwrap returns the kind of the error and its cause, for errors.Is and errors.As.
func (e *Error) Unwrap() []error { return e.is }

// String is how messages name the lock: its kind and its keys.
func (s *spec) String() string {
	keys := make([]string, len(s.keys))
	for i, key := range s.keys {
		keys[i] = strconv.Quote(key)
	}
	return s.kind + " " + strings.Join(keys, ", ")
}

func (s *spec) fail(text string, is ...error) *Error {
	return &Error{Keys: slices.Clone(s.keys), text: text, is: is}
}

func (s *spec) closed() *Error { return s.fail(s.String()+": "+ErrClosed.Error(), ErrClosed) }

// notHeld is the error for a lock that is not held any more, and why.
func (s *spec) notHeld(why string, cause ...error) *Error {
	return s.fail(s.String()+" is not held: "+why, append([]error{ErrNotHeld}, cause...)...)
}

// wrap makes an Error of an error of the backend, on the server with this address.
func (s *spec) wrap(err error, address string) *Error {
	code, text := codeOf(err), err.Error()
	kind := ErrRefused
	switch code {
	case "":
		kind = ErrConnection
		text = "no connection: " + text
	case "NOTHELD":
		e := s.notHeld(reported, err)
		e.Code = code
		return e
	case "DEADLOCK":
		kind = ErrDeadlock
	case "NOREPLICAS":
		kind = ErrNoReplicas
	}
	is := []error{kind, err}
	if code == "ERR" && unknown.MatchString(text) {
		text = "unknown command: is lock.so loaded on " + address + "?"
		is = append(is, ErrModuleMissing)
	}
	e := s.fail(s.String()+": "+text, is...)
	e.Code = code
	return e
}

// unknown is the error of a server without the module. That for an unknown command in LOCK.GUARD is another one.
var unknown = regexp.MustCompile(`^ERR unknown command .(LOCK\.|LATCH\.|DELAY\.|BLMOVE)`)

const (
	reported       = "the server reported its loss"
	releasedBefore = "it was released before"
	neverReleased  = "it was never released"
	expired        = "its lease expired"
)

// unanswered is the error for a short request whose context ended before its reply was received.
func (s *spec) unanswered(ctx context.Context) *Error {
	return s.fail(s.String()+": no reply: "+context.Cause(ctx).Error(), ErrConnection, ctx.Err(), context.Cause(ctx))
}

// notAcquired is the error for a wait of this time, or for a try if it is 0. why is the cause that is shown, or nil.
func (s *spec) notAcquired(waited time.Duration, why error, is ...error) *Error {
	text := s.String() + " " + cmp.Or(s.outcome, "was not acquired")
	if waited > 0 {
		text += " within " + strconv.FormatFloat(waited.Round(time.Millisecond).Seconds(), 'f', -1, 64) + " s"
	}
	if why != nil {
		text += ": " + why.Error()
		is = append(is, why)
	}
	e := s.fail(text, append([]error{ErrNotAcquired}, is...)...)
	e.Waited, e.Code = waited, codeOf(why)
	return e
}

// cancelled is the error for a context that has ended: its error, and its cause if it has another one.
func (s *spec) cancelled(waited time.Duration, ctx context.Context) *Error {
	return s.notAcquired(waited, context.Cause(ctx), ctx.Err())
}

// heldBy adds the holders, if they are known.
func (e *Error) heldBy(owners []string) *Error {
	e.Holders = owners
	names := slices.Clone(owners)
	for i, name := range names {
		if strings.HasPrefix(name, owner()) {
			names[i] += " (this process)" // which may wait for itself
		}
	}
	switch n := len(names); {
	case n == 1:
		e.text += ": held by " + names[0]
	case n == 2:
		e.text += ": held by " + names[0] + " and " + names[1]
	case n == 3:
		e.text += fmt.Sprintf(": held by %s, %s and 1 other", names[0], names[1])
	case n > 3:
		e.text += fmt.Sprintf(": held by %s, %s and %d others", names[0], names[1], n-2)
	}
	return e
}

// codeOf is the first word of an error reply of the server, or "" for any other error, and for that of a full server,
// with which there is no connection.
func codeOf(err error) string {
	var server *transport.ServerError
	if !errors.As(err, &server) || full(server) {
		return ""
	}
	code, _, _ := strings.Cut(server.Error(), " ")
	if code == "" || strings.ToUpper(code) != code {
		return "ERR"
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

// full returns whether the server has as many clients as it accepts. It replies so to a new connection.
func full(err error) bool { return strings.Contains(err.Error(), "max number of clients") }

// lost returns whether the command may or may not have been executed. It was not sent if the connection could not be
// made, or if the server had as many clients as it accepts.
func lost(err error) bool {
	return err != nil && codeOf(err) == "" && !full(err) && networkError(err).Op != "dial"
}

// networkError is the error of the operation on the network that failed, or an empty one.
func networkError(err error) *net.OpError {
	failed := &net.OpError{}
	errors.As(err, &failed)
	return failed
}

// addressOf is the address to which a connection failed, or otherwise the one that is known.
func addressOf(err error, known string) string {
	if failed := networkError(err); failed.Addr != nil {
		return failed.Addr.String()
	}
	return known
}

// route is where a redirection sends a command: an address of the cluster, or "" for the master of the key.
type route struct {
	address string
	asking  bool
}

// redirection parses "MOVED slot host:port" and "ASK slot host:port", where an IPv6 address has no brackets. Any other error
// leads to the master of the key.
func redirection(err error) route {
	code := codeOf(err)
	if code != "MOVED" && code != "ASK" {
		return route{}
	}
	words := strings.Fields(err.Error())
	if len(words) != 3 {
		return route{}
	}
	end := strings.LastIndex(words[2], ":")
	if end <= 0 {
		return route{}
	}
	host, port := strings.Trim(words[2][:end], "[]"), words[2][end+1:]
	return route{address: net.JoinHostPort(host, port), asking: code == "ASK"}
}
