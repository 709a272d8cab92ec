package goredis

// How go-redis uses the options of own and ownCluster: backend.Do and conn.Do promise that a command is sent once, but
// go-redis sends a command again after the reply NOREPLICAS, as after a lost connection. A ClusterClient does so
// although MaxRetries is off; the client of a node, which MasterForKey returns, does not.

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockso"
	"lockso/internal/servertest"
)

func TestACommandIsSentOnce(t *testing.T) {
	nodes := servertest.Cluster(t)
	for name, row := range map[string]struct {
		rdb     redis.UniversalClient
		servers []*redis.Client
	}{
		"one server": {redis.NewClient(&redis.Options{Addr: servertest.Address}), []*redis.Client{servertest.Server}},
		"a cluster":  {redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Options().Addr}}), nodes},
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
			cmd := lockso.Command{Args: []string{"LOCK.ACQUIRE", t.Name(), "me", "REPLICAS", "1", "100"}, First: 1, Count: 1}
			for _, do := range []func(context.Context, lockso.Command) (any, error){b.Do, conn.Do} {
				for _, server := range row.servers {
					server.ConfigResetStat(ctx)
				}
				_, err := do(ctx, cmd)
				if reply, ok := errors.AsType[redis.Error](err); !ok || !redis.HasErrorPrefix(reply, "NOREPLICAS") {
					t.Error(err)
				}
				sent := 0
				for _, server := range row.servers {
					sent += servertest.Count(t, server, "commandstats", "cmdstat_lock.acquire:calls")
				}
				if sent != 1 {
					t.Errorf("sent %d times", sent)
				}
			}
		})
	}
}
