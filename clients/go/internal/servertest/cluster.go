package servertest

import (
	"fmt"
	"strings"
	"testing"
)

// Cluster starts a cluster of three masters, and stops it at the end of the test.
func Cluster(t *testing.T) []Node {
	t.Helper()
	nodes, buses := make([]Node, 3), make([]int, 3)
	for i := range nodes {
		address, bus, stop, err := start("--cluster-enabled", "yes", "--dir", t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		nodes[i], buses[i] = Node{address}, bus
		nodes[i].Val("CLUSTER", "SET-CONFIG-EPOCH", fmt.Sprint(i+1))
		nodes[i].Val("CLUSTER", "ADDSLOTSRANGE", fmt.Sprint(i*16384/3), fmt.Sprint((i+1)*16384/3-1))
		if i > 0 {
			host, port, _ := strings.Cut(nodes[0].Address, ":")
			nodes[i].Val("CLUSTER", "MEET", host, port, fmt.Sprint(buses[0]))
		}
	}
	Eventually(t, "the cluster to cover all slots", func() bool {
		for _, node := range nodes {
			slots, _ := node.Val("CLUSTER", "SLOTS").([]any)
			info, _ := node.Val("CLUSTER", "INFO").(string)
			if len(slots) != 3 || !strings.Contains(info, "cluster_state:ok") {
				return false
			}
		}
		return true
	})
	return nodes
}
