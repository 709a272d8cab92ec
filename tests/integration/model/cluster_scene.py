"""A cluster of two nodes, and waiters on one of them."""

import pytest
from redis.exceptions import ResponseError

from harness import code_of, wait_for

HOST = "127.0.0.1"
HALF, LAST = 8191, 16383
LONG = 600_000
REDIRECTIONS = ("MOVED", "ASK", "TRYAGAIN")


class Node:
    def __init__(self, server):
        self.server, self.actor = server, server.actor()
        self.id = self.cluster("MYID")

    def cluster(self, *words):
        return self.actor.call("CLUSTER", *words)

    def is_up(self):
        return "cluster_state:ok" in self.cluster("INFO")

    def port_of(self, slot):
        """Who serves this slot, as this node sees it."""
        for first, last, master, *_ in self.cluster("SLOTS"):
            if first <= slot <= last:
                return master[1]
        return None


@pytest.fixture
def nodes(make_server):
    """Two masters that know each other: the first serves the slots up to HALF, the second the rest."""
    return make_nodes(make_server)


def make_nodes(make_server, **config):
    one, two = (Node(make_server(cluster_enabled="yes", cluster_node_timeout=3000, **config)) for _ in range(2))
    one.cluster("ADDSLOTSRANGE", 0, HALF)
    two.cluster("ADDSLOTSRANGE", HALF + 1, LAST)
    one.cluster("SET-CONFIG-EPOCH", 1)
    two.cluster("SET-CONFIG-EPOCH", 2)
    bus = two.server.control.config_get("cluster-port")["cluster-port"]
    one.cluster("MEET", HOST, two.server.port, bus)
    for node in (one, two):
        wait_for(node.is_up, 20, "the cluster to be whole")
        wait_for(lambda node=node: node.port_of(LAST) == two.server.port, 20, "the nodes to agree")
    return one, two


@pytest.fixture
def key(nodes):
    """A key of the first node's, and its slot."""
    one, _ = nodes
    name = next(name for name in map(str, range(1000)) if one.cluster("KEYSLOT", name) <= HALF)
    return name, one.cluster("KEYSLOT", name)


class Scene:
    """oa holds the key on a node; ob and oc wait for it there."""

    def __init__(self, node, key, lease_ms=LONG):
        self.node, self.key = node, key
        self.a, self.b, self.c = (node.server.actor(name) for name in "abc")
        assert self.a.call("LOCK.ACQUIRE", key, "oa", "PX", LONG) == 1
        for waiter, owner in ((self.b, "ob"), (self.c, "oc")):
            waiter.send("LOCK.ACQUIRE", key, owner, "PX", LONG, "BLOCK", 0)
            waiter.wait_blocked()
        if lease_ms != LONG:
            assert self.a.call("PEXPIRE", key, lease_ms) == 1

    def both_hear(self, expected):
        for waiter in (self.b, self.c):
            heard = waiter.outcome(timeout=5)
            assert expected(heard), f"{waiter} heard {heard!r}"
        info = self.node.server.info("lock")
        assert (info["lock_waiters"], info["lock_contended_locks"]) == (0, 0)

    def both_wait_on(self):
        self.node.server.settle(30)
        for waiter in (self.b, self.c):
            assert not waiter.has_reply(), f"{waiter} was to wait, but heard {waiter.outcome()!r}"
            assert waiter.is_blocked()


def is_redirection(heard):
    return isinstance(heard, ResponseError) and code_of(heard) in REDIRECTIONS


def says_moved(slot, node):
    text = f"MOVED {slot} {HOST}:{node.server.port}"
    return lambda heard: isinstance(heard, ResponseError) and str(heard) == text


def begin_move(slot, source, target):
    target.cluster("SETSLOT", slot, "IMPORTING", source.id)
    source.cluster("SETSLOT", slot, "MIGRATING", target.id)


def migrate(key, source, target):
    assert source.actor.call("MIGRATE", HOST, target.server.port, key, 0, 5000) == "OK"
