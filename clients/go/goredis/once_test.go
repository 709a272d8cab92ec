package goredis

// How go-redis uses the options of own and ownCluster: backend.Do and conn.Do promise that a command is sent once, but
// go-redis sends a command again after the reply NOREPLICAS, as after a lost connection. A ClusterClient does so
// although MaxRetries is off; the client of a node, which MasterForKey returns, does not.

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lock-so.invalid/lock-so/clients/go/internal/servertest"
	"lock-so.invalid/lock-so/clients/go/internal/transport"
)

func TestACommandIsSentOnce(t *testing.T) {
	nodes := servertest.Cluster(t)
	for name, row := range map[string]struct {
		rdb     redis.UniversalClient
		servers []servertest.Node
	}{
		"one server": {redis.NewClient(&redis.Options{Addr: servertest.Address}), []servertest.Node{servertest.Server}},
		"a cluster":  {redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Address}}), nodes},
	} {
		t.Run(name, func(t *testing.T) {
			defer row.rdb.Close()
			b, err := newBackend(row.rdb)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			conn, err := b.Conn(ctx, time.Minute, t.Name(), "")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			cmd := transport.Command{Args: []string{"LOCK.ACQUIRE", t.Name(), "me", "REPLICAS", "1", "100"}, First: 1, Count: 1}
			for _, do := range []func(context.Context, transport.Command) (any, error){b.Do, conn.Do} {
				for _, server := range row.servers {
					server.Val("CONFIG", "RESETSTAT")
				}
				_, err := do(ctx, cmd)
				if err == nil || !strings.HasPrefix(err.Error(), "NOREPLICAS") {
					t.Error(err)
				}
				sent := 0
				for _, server := range row.servers {
					sent += servertest.Count(server, "commandstats", "cmdstat_lock.acquire:calls")
				}
				if sent != 1 {
					t.Errorf("sent %d times", sent)
				}
			}
		})
	}
}
