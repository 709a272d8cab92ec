// Package history records what was sent to the servers and what they replied, with the times of one monotonic clock.
package history

import (
	"fmt"
	"strings"
	"time"
)

// Kind is what an operation does.
type Kind uint8

const (
	Acquire Kind = iota
	Release
	Renew
	Guard // LOCK.GUARD: the owner held the lock at that moment
	Force
	Cancel
	Close // the connection of a SESSION hold has been closed
)

var kindNames = [...]string{"acquire", "release", "renew", "guard", "force", "cancel", "close"}

func (k Kind) String() string { return kindNames[k] }

// Mode is how a lock is held. Modes form sets: a renewal and a guard concern all holds of an owner, and succeed if there
// is one of them.
type Mode uint8

const (
	Exclusive Mode = 1 << iota
	Read
	Write
	Permits
)

var modeNames = map[Mode]string{Exclusive: "exclusive", Read: "read", Write: "write", Permits: "permits"}

func (m Mode) String() string {
	var names []string
	for _, one := range m.Each() {
		names = append(names, modeNames[one])
	}
	return strings.Join(names, "+")
}

// Each lists the modes of the set.
func (m Mode) Each() []Mode {
	var all []Mode
	for _, one := range [...]Mode{Exclusive, Read, Write, Permits} {
		if m&one != 0 {
			all = append(all, one)
		}
	}
	return all
}

// Key is a key that an operation names, and the mode in which it is named.
type Key struct {
	At   int // index into the family's keys
	Mode Mode
}

func (k Key) String() string { return strings.TrimSuffix(fmt.Sprintf("%d:%s", k.At, k.Mode), ":") }

// Outcome is what the client knows about an operation afterwards.
type Outcome uint8

const (
	Done    Outcome = iota // a number: it has been done
	Null                   // not acquired within the timeout
	NotHeld                // the error NOTHELD
	Failed                 // any other error: the module guarantees that nothing has changed
	Unknown                // no reply: it may have been done, or be done later
)

var outcomeNames = [...]string{"done", "null", "NOTHELD", "error", "unknown"}

func (o Outcome) String() string { return outcomeNames[o] }

// Never is the Return of an operation without a reply.
const Never = int64(1) << 62

// Op is one operation. Times are in ns since the run began.
type Op struct {
	Client  int
	Server  int
	Kind    Kind
	Keys    []Key
	Owner   string
	Permits int           `json:",omitempty"`
	Limit   int           `json:",omitempty"`
	Lease   time.Duration `json:",omitempty"`
	Block   time.Duration `json:",omitempty"` // 0: without BLOCK
	Fair    bool          `json:",omitempty"`
	Fenced  bool          `json:",omitempty"`
	Once    bool          `json:",omitempty"`
	Session bool          `json:",omitempty"`

	Call, Return int64
	Outcome      Outcome
	Value        int64  `json:",omitempty"`
	Text         string `json:",omitempty"` // of an error
}

func (op *Op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", op.Owner, op.Kind)
	switch one := len(op.Keys) == 1 && op.Keys[0].At == 0; {
	case one && op.Keys[0].Mode != 0:
		fmt.Fprintf(&b, " %s", op.Keys[0].Mode)
	case !one:
		fmt.Fprintf(&b, " keys %v", op.Keys)
	}
	if op.Permits > 0 {
		fmt.Fprintf(&b, " %d of %d", op.Permits, op.Limit)
	}
	if op.Session {
		b.WriteString(" SESSION")
	} else if op.Lease > 0 {
		fmt.Fprintf(&b, " PX %d", op.Lease.Milliseconds())
	}
	if op.Block > 0 {
		fmt.Fprintf(&b, " BLOCK %d", op.Block.Milliseconds())
	}
	for _, flag := range []struct {
		is   bool
		name string
	}{{op.Fair, "FAIR"}, {op.Fenced, "FENCED"}, {op.Once, "ONCE"}} {
		if flag.is {
			b.WriteString(" " + flag.name)
		}
	}
	return b.String()
}

// Reply returns the reply as text.
func (op *Op) Reply() string {
	switch op.Outcome {
	case Done:
		return fmt.Sprint(op.Value)
	case Failed:
		return op.Text
	default:
		return op.Outcome.String()
	}
}
