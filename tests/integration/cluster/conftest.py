"""Two nodes, and a key on the first one; a master and its replica."""

import pytest

from harness import wait_for, wait_for_sync
from model.cluster_scene import HALF, HOST, LAST, Node, Pairs


def _end(servers):
    problems = servers.end()
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


@pytest.fixture(scope="module")
def _pairs(launch):
    pairs = Pairs(launch)
    yield pairs
    _end(pairs)


@pytest.fixture
def nodes(_pairs):
    """Two masters that know each other: the first serves the slots up to HALF, the second the rest."""
    servers, nodes = _pairs.take()
    yield nodes
    _end(servers)


@pytest.fixture
def key(nodes):
    """A key of the first node, and its slot."""
    one, _ = nodes
    name = next(name for name in map(str, range(1000)) if one.cluster("KEYSLOT", name) <= HALF)
    return name, one.cluster("KEYSLOT", name)


# A failover


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
        wait_for(lambda node=node: _knows_replica(node, replica), 20, "all nodes to know the replica")
    return masters[0], replica


def _knows_replica(node, replica):
    return any(line.startswith(replica.id) and "slave" in line for line in node.cluster("NODES").splitlines())
