package lockso

import (
	"context"
	"time"
)

// until is a context whose deadline is an entry in the agenda of its client. A timer for each command would cost a good
// part of the time that a release takes: it would be the next timer to fire, and the runtime wakes a thread for that.
type until struct {
	context.Context // ends at the deadline
	end             time.Time
}

// within returns a context that ends after this time, and not with ctx. cancel must be called.
func (c *core) within(ctx context.Context, d time.Duration) (_ context.Context, cancel func()) {
	inner, end := context.WithCancel(context.WithoutCancel(ctx))
	u, entry := until{inner, time.Now().Add(d)}, &date{index: -1}
	c.agenda.set(entry, u.end, end)
	return u, func() {
		c.agenda.drop(entry)
		end()
	}
}

func (u until) Deadline() (time.Time, bool) { return u.end, true }

func (u until) Err() error {
	err := u.Context.Err()
	if err != nil && !time.Now().Before(u.end) {
		return context.DeadlineExceeded
	}
	return err
}
