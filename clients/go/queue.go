package lockso

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"lock-so.invalid/lock-so/clients/go/internal/transport"
)

// DelayedQueue is a list to which the server pushes values when their time has come. Many goroutines may use it at once.
//
// The errors of its methods are [Error]: [ErrOption], [ErrRefused], [ErrConnection] if no server replied within two seconds,
// [ErrClosed].
type DelayedQueue struct {
	client *Client
	spec   *spec
}

// DelayedQueue is the queue of this list, which is an ordinary list. In a cluster its name needs a hash tag, or must contain
// no }.
func (c *Client) DelayedQueue(list string) *DelayedQueue {
	return &DelayedQueue{client: c, spec: &spec{kind: "delayed queue", keys: []string{list}}}
}

// Pending is a value that has not been delivered yet.
type Pending struct {
	ID    string
	Left  time.Duration // until it is due
	Value []byte
}

// stored is an element with the number of its tries, which a consumer has written.
var stored = regexp.MustCompile(`^lock-so:([0-9]+):`)

// Push makes the server push the value to the list after this time, and returns the id of the pending value. After
// [ErrConnection] it may have been pushed: it is not sent again.
func (q *DelayedQueue) Push(ctx context.Context, value []byte, delay time.Duration) (id string, err error) {
	return q.push(ctx, "*", value, delay)
}

// PushID is Push with an id, in place of the pending value that has this id, if there is one. So it can be repeated.
func (q *DelayedQueue) PushID(ctx context.Context, id string, value []byte, delay time.Duration) error {
	if id == "" || id == "*" {
		return q.spec.fail(fmt.Sprintf("id must not be %q", id), ErrOption)
	}
	_, err := q.push(ctx, id, value, delay)
	return err
}

func (q *DelayedQueue) push(ctx context.Context, id string, value []byte, delay time.Duration) (string, error) {
	switch {
	case delay < 0:
		return "", q.spec.fail(fmt.Sprintf("delay must not be negative, not %v", delay), ErrOption)
	case stored.Match(value):
		return "", q.spec.fail("value must not begin with lock-so:, a number and a colon, as a consumer's elements do", ErrOption)
	}
	cmd := q.pushCommand(id, string(value), delay)
	cmd.Once = id == "*"
	reply, err := q.client.core.request(ctx, q.spec, cmd)
	id, _ = reply.(string)
	return id, err
}

// Cancel removes a pending value. It returns false if it has been delivered, or is not known.
func (q *DelayedQueue) Cancel(ctx context.Context, id string) (bool, error) {
	reply, err := q.client.core.request(ctx, q.spec, q.command("DELAY.CANCEL", id))
	return reply == int64(1), err
}

// List returns the pending values that are due first, at most count of them; with 0 as many as the server shows by default,
// which is 10.
func (q *DelayedQueue) List(ctx context.Context, count int) (all []Pending, err error) {
	if count < 0 {
		return nil, q.spec.fail(fmt.Sprintf("count must not be negative, not %d", count), ErrOption)
	}
	cmd := q.command("DELAY.LIST")
	if count > 0 {
		cmd.Args = append(cmd.Args, "COUNT", strconv.Itoa(count))
	}
	reply, err := q.client.core.request(ctx, q.spec, cmd)
	elements, _ := reply.([]any)
	for _, element := range elements {
		fields, _ := element.([]any)
		if len(fields) < 3 {
			continue
		}
		id, _ := fields[0].(string)
		left, _ := fields[1].(int64)
		value, _ := fields[2].(string)
		all = append(all, Pending{ID: id, Left: time.Duration(left) * time.Millisecond, Value: []byte(value)})
	}
	return all, err
}

func (q *DelayedQueue) command(name string, args ...string) transport.Command {
	return onKey(name, q.spec.keys[0], args...)
}

func (q *DelayedQueue) pushCommand(id, value string, delay time.Duration) transport.Command {
	ms := "0"
	if delay > 0 {
		ms = millis(delay)
	}
	return q.command("DELAY.PUSH", id, ms, value)
}
