"""The delayed queue when the replica of a cluster's node takes its place: it finds all queues, and delivers."""

import pytest

from harness import wait_for, wait_for_sync
from model.cluster_scene import HALF, HOST, LAST, Node
from model.delay_scene import HOUR, fall_due, pending, push, queues, stuck, wait_delivered

NAMES = ("b", "{j}", "2")  # in a slot of the first node's each


def _bus(node):
    return node.server.control.config_get("cluster-port")["cluster-port"]


def _knows(node, other):
    return any(line.startswith(other.id) and "handshake" not in line for line in node.cluster("NODES").splitlines())


@pytest.fixture
def pair(make_server):
    """A master and its replica, in a cluster of three masters, so that there is a majority without it."""
    nodes = [Node(make_server(cluster_enabled="yes", cluster_node_timeout=3000)) for _ in range(4)]
    *masters, replica = nodes
    for number, slots in enumerate([(0, HALF), (HALF + 1, LAST - 1), (LAST, LAST)]):
        masters[number].cluster("ADDSLOTSRANGE", *slots)
        masters[number].cluster("SET-CONFIG-EPOCH", number + 1)
    for node in nodes[1:]:
        nodes[0].cluster("MEET", HOST, node.server.port, _bus(node))
    for node in nodes:
        wait_for(lambda node=node: all(_knows(node, other) for other in nodes), 20, "the nodes to meet")
        wait_for(node.is_up, 20, "the cluster to be whole")
    assert replica.cluster("REPLICATE", masters[0].id) == "OK"
    wait_for_sync(masters[0].server, replica.server)
    for node in nodes:
        wait_for(lambda node=node: _replicates(node, replica), 20, "all to know of the replica")
    return masters[0], replica


def _replicates(node, replica):
    return any(line.startswith(replica.id) and "slave" in line for line in node.cluster("NODES").splitlines())


def arrange(master, replica):
    """Each queue has two elements that are overdue, one that is due in hours, and a list that takes nothing."""
    for name in NAMES:
        client = master.server.control
        assert client.execute_command("CLUSTER", "KEYSLOT", name) <= HALF
        client.set(name, "no list")
        for id_ in ("b", "a", "later"):
            push(client, id_, HOUR, name=name)
        fall_due(client, "a", "b", name=name)
    wait_for(lambda: stuck(master.server) == 2 * len(NAMES), what="the overdue ones to be tried")
    wait_for_sync(master.server, replica.server)
    assert queues(replica.server) == 0


def plan(_, replica):
    assert replica.cluster("FAILOVER") == "OK"


def kill(master, _):
    master.server.kill()


def kill_and_take_over(master, replica):
    master.server.kill()
    assert replica.cluster("FAILOVER", "TAKEOVER") == "OK"


def take_over(_, replica):
    assert replica.cluster("FAILOVER", "TAKEOVER") == "OK"


@pytest.mark.parametrize("fail", [plan, kill, kill_and_take_over, take_over])
def test_promoted_replica_delivers(pair, fail):
    master, replica = pair
    arrange(master, replica)
    fail(master, replica)
    there = replica.server.control
    wait_for(lambda: replica.server.info("replication")["role"] == "master", 60, "the promotion")
    wait_for(lambda: queues(replica.server) == len(NAMES), 2, "all queues to be found")
    wait_for(lambda: stuck(replica.server) == 2 * len(NAMES), 20, "the overdue ones to be tried")
    for name in NAMES:
        there.delete(name)
        wait_delivered(there, "va", "vb", name=name)
        assert pending(there, name) == ["later"]
        fall_due(there, "later", name=name)
        wait_delivered(there, "va", "vb", "vlater", name=name)
    wait_for(lambda: queues(replica.server) == 0, what="memory to be without queues")
    if not master.server.is_running():
        master.server.start()
    wait_for(lambda: master.server.info("replication")["role"] == "slave", 20, "the old master to follow")
    wait_for(lambda: queues(master.server) == stuck(master.server) == 0, what="the old master to forget")
    wait_for_sync(replica.server, master.server)
    old = master.server.actor()
    old.call("READONLY")
    assert sorted(old.call("KEYS", "*")) == sorted(NAMES)
    assert [old.call("LRANGE", name, 0, -1) for name in NAMES] == [["va", "vb", "vlater"]] * len(NAMES)
