package lockso

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Hold is a granted lock, until it is released or lost. Many goroutines may use it at once.
//
// Keep it until you call Unlock: a hold that is no longer reachable is released, with a warning in the log. This does not
// concern a hold whose Lost or Context was called, and one with [NoRenew].
type Hold struct {
	client    *Client // so that it is not collected; nil for several holds
	held      anyHold
	entry     *entry
	ctx       context.Context
	forgotten runtime.Cleanup
}

// entry is one of the acquisitions that share a hold, of which there are several if it is reentrant.
type entry struct {
	left atomic.Bool
	end  func() // of its context
}

// anyHold is what is held: a lock, or several.
type anyHold interface {
	state() *fate
	whose() (owner string, token int64)
	parts() []*Hold
	watchKeys(handle *Hold)
	renewNow(ctx context.Context, lease time.Duration) error
	guard(ctx context.Context, command []string) (any, error)
	unlock(ctx context.Context) error
	forget()
}

// newHandle makes what the caller gets, with this context. When it is collected, the hold is released, unless its lease
// ends it anyway.
func newHandle(c *Client, h anyHold, ctx context.Context) *Hold {
	handle := &Hold{client: c, held: h, entry: &entry{end: func() {}}, ctx: ctx}
	if !h.state().spec.expires() {
		entry := handle.entry
		handle.forgotten = runtime.AddCleanup(handle, func(h anyHold) {
			if h.state().leave(entry) {
				h.forget()
			}
		}, h)
	}
	return handle
}

// Owner is the name of the owner, host:pid:random: LOCK.INFO shows it, and it is an argument of LOCK.GUARD. Of several
// holds, see [Hold.Holds], it is that of the first.
func (h *Hold) Owner() string {
	owner, _ := h.held.whose()
	return owner
}

// Keys are the keys of the lock. The slice must not be changed.
func (h *Hold) Keys() []string { return h.held.state().spec.keys }

// Token is the fencing token, or 0 without [Fenced].
func (h *Hold) Token() int64 {
	_, token := h.held.whose()
	return token
}

// Holds are the holds that this one consists of: of a lock that [Combine] made, and of a multi-key lock with keys of
// several slots, in the order of their acquisition, each with an owner of its own. They are released with this one, which is
// lost when one of them is. Otherwise there are none.
func (h *Hold) Holds() []*Hold { return h.held.parts() }

// Lost makes the server report a loss within milliseconds, for which the hold uses a connection for each key from then
// on, as [Hold.Context] and [Lock.Do] do; otherwise a loss is noticed by the next renewal. The channel is closed when the
// hold is known to be lost, or when its lease has expired and the server could not be reached. Unlock does not close it.
func (h *Hold) Lost() <-chan struct{} {
	h.held.watchKeys(h)
	return h.held.state().lost
}

// Context makes the server report a loss, as [Hold.Lost] does. The context ends when the hold is lost, with [ErrNotHeld] as
// its cause, and when it is released. It has the values of the context that was given to Lock, but neither the deadline
// nor the end of that context. With [Reentrant] it is the context with which the lock is entered again.
func (h *Hold) Context() context.Context {
	h.held.watchKeys(h)
	return h.ctx
}

// Unlock releases the lock, and the server hands it to the next waiter. It does so even if ctx has ended already. If
// ctx has ended, or ends meanwhile, Unlock waits two seconds at most, and the release continues in the background.
//
// The error is an [Error]: [ErrNotHeld] if the hold was lost or released before; [ErrConnection] if no server has
// replied for as long as the lease lasts, so that the lease expires.
func (h *Hold) Unlock(ctx context.Context) error {
	err := h.exit(ctx)
	h.forgotten.Stop() // not before, because the next owner waits; h is kept until here
	runtime.KeepAlive(h)
	return err
}

// forget reports the loss of a hold that the program cannot release any more, and releases it.
func forget(client *core, h anyHold) {
	forgotten := h.state().lose(neverReleased)
	client.background(func() {
		if forgotten {
			client.warn(h.state().spec.String() + " was never released; it is released now")
		}
		h.unlock(context.Background())
	})
}

// exit ends the entry, and releases the lock if it was the last one.
func (h *Hold) exit(ctx context.Context) error {
	f := h.held.state()
	switch {
	case h.entry.left.Swap(true):
		return f.spec.notHeld(releasedBefore)
	case f.leave(h.entry):
		return h.held.unlock(ctx)
	}
	return f.ended()
}

// Renew renews the lease now, which is otherwise done after each third of it, unless [NoRenew] was given. For a session it
// checks that the lock is held.
//
// The error is an [Error]: [ErrNotHeld] if the hold was lost or released; others within two seconds, and then the lease
// that was confirmed last counts.
func (h *Hold) Renew(ctx context.Context) error { return h.renew(ctx, 0) }

// RenewFor is Renew with another lease, which the hold has from now on. A shorter one counts from the call on, even if its
// error is not nil. A session has no lease: [ErrOption].
func (h *Hold) RenewFor(ctx context.Context, lease time.Duration) error {
	option := &spec{}
	if Lease(lease).apply(option); option.wrong != "" {
		return h.held.state().spec.fail("RenewFor: "+option.wrong, ErrOption)
	}
	return h.renew(ctx, lease)
}

// renew is limited because it waits for a renewal that is in progress. A request that need not wait ends earlier.
func (h *Hold) renew(ctx context.Context, lease time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout+replyTolerance)
	defer cancel()
	return h.held.renewNow(ctx, lease)
}

// Guard is LOCK.GUARD: it runs a command, its name and its arguments, if the lock is held at that moment, for several keys
// the first of them. In a cluster the keys of the command must be in the slot of the lock. For several holds, call it for one
// of [Hold.Holds]. The reply is what the client
// library makes of it: nil, an int64, a string, an array, or a map of RESP3.
//
// The error is an [Error]: [ErrNotHeld], [ErrRefused], or [ErrConnection], after which the command may have been executed:
// it is not sent again.
func (h *Hold) Guard(ctx context.Context, command ...string) (any, error) {
	if len(command) == 0 {
		return nil, h.held.state().spec.fail("the command of Guard must not be empty", ErrOption)
	}
	return h.held.guard(ctx, command)
}

// fate is whether a hold is released or lost, and how the program is notified.
type fate struct {
	spec   *spec
	ctx    context.Context // of the work under the lock
	cancel context.CancelCauseFunc
	lost   chan struct{}
	rest   func() // ends the background work

	mu       sync.Mutex
	entries  int // how many acquisitions share it
	unlocked bool
	why      string  // why it is lost, or ""
	pinned   []*Hold // the handles without which the program may wait for the loss
}

func (f *fate) state() *fate { return f }

// begin is called with the context in which the lock was acquired, and with what ends the background work.
func (f *fate) begin(s *spec, ctx context.Context, rest func()) {
	f.spec, f.rest, f.entries, f.lost = s, rest, 1, make(chan struct{})
	f.ctx, f.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
}

// holding returns whether it is neither released nor lost. f.mu is locked.
func (f *fate) holding() bool { return !f.unlocked && f.why == "" }

// pin keeps a handle until the hold ends, and returns false if it has ended. f.mu is locked.
func (f *fate) pin(handle *Hold) bool {
	if f.holding() && !slices.Contains(f.pinned, handle) {
		f.pinned = append(f.pinned, handle)
	}
	return f.holding()
}

// leave ends an entry, and returns whether it was the last one, so that the lock is to be released.
func (f *fate) leave(e *entry) bool {
	e.end()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries--
	return f.entries == 0
}

// ended is the error for a hold that is released or lost, or nil.
func (f *fate) ended() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.why != "":
		return f.spec.notHeld(f.why)
	case f.unlocked:
		return f.spec.notHeld(releasedBefore)
	}
	return nil
}

// release begins the release, after which no loss is reported. It returns why the hold was lost, or "". There is an error
// if it was released before.
func (f *fate) release() (why string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unlocked {
		return "", f.spec.notHeld(releasedBefore)
	}
	f.unlocked = true
	return f.why, nil
}

// released ends what release began.
func (f *fate) released() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.finish(context.Canceled)
}

// lose reports the loss of the hold, once, and never after its release has begun. It returns whether it did.
func (f *fate) lose(why string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.holding() {
		return false
	}
	f.why = why
	f.finish(f.spec.notHeld(why))
	close(f.lost) // last: when a caller receives from it, the rest is done
	return true
}

// finish ends the background work of the hold. f.mu is locked.
func (f *fate) finish(cause error) {
	f.rest()
	f.pinned = nil
	f.cancel(cause) // the first cause counts
}
