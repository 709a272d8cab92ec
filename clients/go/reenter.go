package lockso

import (
	"context"
	"time"
)

// enclosing is the key of a context's value: the reentrant holds that it is inside of, as *inside.
type enclosing struct{}

// inside is a list of holds, the innermost first.
type inside struct {
	hold  *hold
	outer *inside
}

func insideOf(ctx context.Context) *inside {
	in, _ := ctx.Value(enclosing{}).(*inside)
	return in
}

// enclose returns a context that is inside of the hold, if it is reentrant.
func (h *hold) enclose(ctx context.Context, s *spec) context.Context {
	if !s.again {
		return ctx
	}
	return context.WithValue(ctx, enclosing{}, &inside{h, insideOf(ctx)})
}

// reenter enters a hold of the lock again that ctx is inside of. It returns nil if there is none.
func (l *single) reenter(ctx context.Context) (*Hold, error) {
	if !l.spec.again || l.spec.wrong != "" {
		return nil, nil
	}
	for in := insideOf(ctx); in != nil; in = in.outer {
		h := in.hold
		if h.client != l.client.core || !l.spec.sameLock(h.spec) {
			continue
		}
		if !h.client.enter(nil) {
			return nil, l.spec.closed()
		}
		defer h.client.end()
		if entered, err := h.enter(l.spec); err != nil {
			return nil, err
		} else if !entered {
			continue
		}
		// What is inside of ctx is inside of this hold, which also ends with this entry.
		own, end := context.WithCancelCause(context.WithoutCancel(ctx))
		handle := newHandle(l.client, h, own)
		stop := context.AfterFunc(h.ctx, func() { end(context.Cause(h.ctx)) })
		handle.entry.end = func() {
			stop()
			end(context.Canceled)
		}
		return handle, nil
	}
	return nil, nil
}

// enter counts an entry, unless the hold has been released, or its last entry has ended, with which the release begins.
func (h *hold) enter(s *spec) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.unlocked, h.entries == 0:
		return false, nil
	case h.why != "": // the code around it still believes to hold the lock
		return false, s.notHeld(h.why)
	case !time.Now().Before(h.ends): // it is about to be lost
		return false, s.notHeld(expired)
	case s.fenced && !h.spec.fenced:
		return false, s.fail("Fenced: the hold that is entered again has no fencing token", ErrOption)
	}
	h.entries++
	return true, nil
}

// sameLock returns whether two locks are of the same kind, and have the same keys with the same modes, in any order.
func (s *spec) sameLock(other *spec) bool {
	return s.command == other.command && s.covers(other) && other.covers(s)
}

func (s *spec) covers(other *spec) bool {
	mode := func(s *spec, i int) string {
		if s.modes == nil {
			return ""
		}
		return s.modes[i]
	}
	modes := map[string]string{}
	for i, key := range s.keys {
		modes[key] = mode(s, i)
	}
	for i, key := range other.keys {
		if has, found := modes[key]; !found || has != mode(other, i) {
			return false
		}
	}
	return true
}
