package servers

import (
	"context"
	"time"

	"torture/clients"
	"torture/history"
)

const (
	period = 20 * time.Millisecond
	slow   = 100 * time.Millisecond // longer than a server that gets a processor ever takes for a PING
)

// WatchPings sends PINGs to the server, not through the proxies, and records in Slow when the reply was late: the server
// was stopped, or did not get a processor. It returns when the context ends.
func (s *Server) WatchPings(ctx context.Context, clock *history.Clock) {
	var conn *clients.Conn
	for ctx.Err() == nil {
		time.Sleep(period)
		sent := clock.Now()
		if conn == nil {
			if conn, _ = clients.Dial(s.address(), replyTimeout); conn == nil {
				continue // it is being restarted
			}
		}
		if _, err := conn.Do(replyTimeout, "PING"); err != nil {
			conn.Close()
			conn = nil
		}
		if now := clock.Now(); time.Duration(now-sent) > slow {
			s.Slow.Add(sent, now, "slow")
		}
	}
	if conn != nil {
		conn.Close()
	}
}
