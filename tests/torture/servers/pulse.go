package servers

import (
	"context"
	"time"

	"torture/clients"
	"torture/history"
)

const (
	beat = 20 * time.Millisecond
	slow = 100 * time.Millisecond // so long a server on a machine that has time for it never takes for a PING
)

// FeelPulse notes in Slow when the server was slow to answer a PING, past the proxies: stopped, or without a share of the
// machine. It returns when the context ends.
func (s *Server) FeelPulse(ctx context.Context, clock *history.Clock) {
	var conn *clients.Conn
	for ctx.Err() == nil {
		time.Sleep(beat)
		asked := clock.Now()
		if conn == nil {
			if conn, _ = clients.Dial(s.address(), askedFor); conn == nil {
				continue // it is being started again
			}
		}
		if _, err := conn.Do(askedFor, "PING"); err != nil {
			conn.Close()
			conn = nil
		}
		if now := clock.Now(); time.Duration(now-asked) > slow {
			s.Slow.Add(asked, now, "slow")
		}
	}
	if conn != nil {
		conn.Close()
	}
}
