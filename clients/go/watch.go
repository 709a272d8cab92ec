package lockso

import (
	"context"
	"time"

	"lock-so.invalid/lock-so/clients/go/internal/transport"
)

// unwatched is for how long after it was requested a watch does not begin.
const unwatched = 10 * time.Millisecond

// watcher waits for the server's notification that the lock is lost, on a connection of its own, until the hold ends.
//
// For a session it uses the connection to which the hold is bound: while it waits there, the end of the connection is
// noticed at once, and the hold is bound to another connection before lock.session-grace has elapsed.
type watcher struct {
	hold    *hold
	key     string
	session bool
	bound   bool           // the session is known to be bound to conn
	conn    transport.Conn // nil if there is none just now
	to      route
}

// watch runs until the hold is released or lost. conn is the connection of a session, or nil.
func (h *hold) watch(key string, conn transport.Conn, to route) {
	w := &watcher{hold: h, key: key, session: conn != nil, bound: conn != nil, conn: conn, to: to}
	ctx := h.ctx
loop:
	for p := (pause{}); ctx.Err() == nil; {
		lost, err := w.once()
		switch {
		case lost || codeOf(err) == "NOTHELD":
			h.lose(reported)
			break loop
		case err == nil:
			p = pause{}
		case passing(err):
			w.leave(err)
			w.to = redirection(err)
			p.sleep(ctx)
		default: // refused, for example NOPERM or too many waiters; a session is kept by renewals
			w.bound = false
			select {
			case <-time.After(h.spec.lease / 3):
			case <-ctx.Done():
			}
		}
	}
	h.mu.Lock()
	absent := h.absent || h.why == reported && !h.spec.multi
	h.mu.Unlock()
	if w.session && w.conn != nil && !absent { // the server ends the hold with its connection
		w.conn.Close()
	} else {
		w.leave(nil)
	}
}

// once waits for the loss, for a third of the lease at most.
func (w *watcher) once() (lost bool, err error) {
	h := w.hold
	if w.conn == nil {
		conn, err := h.client.backend.Conn(h.ctx, h.client.connectTimeout, w.key, w.to.address)
		if err != nil {
			return false, err
		}
		w.conn, w.bound = conn, false
	}
	if w.session && !w.bound {
		sent := time.Now()
		if err := h.sendRenewal(w.call, h.spec.bindCommand(h.owner)); err != nil {
			return false, err
		}
		w.bound = true
		h.confirm(sent, 0)
	}
	// When the hold ends, the server replies to the watch. If it does not, the connection is dead.
	conn := w.conn
	defer context.AfterFunc(h.ctx, func() { time.AfterFunc(slack, conn.Close) })()
	block := min(h.spec.maxBlock, h.spec.lease/3)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.ctx), block+slack)
	defer cancel()
	sent := time.Now()
	reply, _, err := w.call(ctx, watchCommand(w.key, h.owner, block))
	if w.session && err == nil && reply == nil {
		h.confirm(sent.Add(block-h.spec.lease/3), 0) // held then, and renewed by the server at most a third of the lease before
	}
	return reply == "LOST", err
}

func (w *watcher) call(ctx context.Context, cmd transport.Command) (any, bool, error) {
	reply, err := perform(ctx, w.conn, w.to, cmd)
	return reply, false, err
}

func (w *watcher) leave(err error) {
	switch {
	case w.conn == nil:
	case w.session && err != nil: // it may still be bound to the hold, or to one of its keys
		w.conn.Close()
	default:
		finish(w.conn, err)
	}
	w.conn = nil
}
