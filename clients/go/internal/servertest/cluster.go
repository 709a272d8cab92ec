package servertest

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Cluster starts a cluster of three masters, and stops it at the end of the test.
func Cluster(t *testing.T) []*redis.Client {
	t.Helper()
	nodes, buses := make([]*redis.Client, 3), make([]int, 3)
	for i := range nodes {
		address, bus, stop, err := start("--cluster-enabled", "yes", "--dir", t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		buses[i] = bus
		t.Cleanup(stop)
		nodes[i] = redis.NewClient(&redis.Options{Addr: address})
		t.Cleanup(func() { nodes[i].Close() })
		do := func(words ...any) {
			t.Helper()
			if err := nodes[i].Do(ctx, words...).Err(); err != nil {
				t.Fatal(err)
			}
		}
		do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		do("CLUSTER", "ADDSLOTSRANGE", i*16384/3, (i+1)*16384/3-1)
		if i == 0 {
			continue
		}
		host, port, _ := strings.Cut(nodes[0].Options().Addr, ":")
		do("CLUSTER", "MEET", host, port, buses[0])
	}
	Eventually(t, "the cluster to cover all slots", func() bool {
		for _, node := range nodes {
			slots, err := node.ClusterSlots(ctx).Result()
			info := node.ClusterInfo(ctx).Val()
			if err != nil || len(slots) != 3 || !strings.Contains(info, "cluster_state:ok") {
				return false
			}
		}
		return true
	})
	return nodes
}
