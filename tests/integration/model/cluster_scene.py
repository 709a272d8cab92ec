"""A cluster of two nodes, and waiters on one of them."""

from collections import deque

from redis.exceptions import ResponseError

from harness import Servers, code_of, fewer, wait_for

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
        """The port of the node that serves this slot, according to this node."""
        for first, last, master, *_ in self.cluster("SLOTS"):
            if first <= slot <= last:
                return master[1]
        return None


def begin_nodes(make_server, **config):
    """Two masters that begin to meet each other: the first serves the slots up to HALF, the second the rest."""
    one, two = (Node(make_server(cluster_enabled="yes", cluster_node_timeout=3000, **config)) for _ in range(2))
    one.cluster("ADDSLOTSRANGE", 0, HALF)
    two.cluster("ADDSLOTSRANGE", HALF + 1, LAST)
    one.cluster("SET-CONFIG-EPOCH", 1)
    two.cluster("SET-CONFIG-EPOCH", 2)
    bus = two.server.control.config_get("cluster-port")["cluster-port"]
    one.cluster("MEET", HOST, two.server.port, bus)
    return one, two


def wait_whole(one, two):
    for node in (one, two):
        wait_for(node.is_up, 20, "the cluster to be whole")
        wait_for(lambda node=node: node.port_of(LAST) == two.server.port, 20, "the nodes to agree")
    return one, two


def make_nodes(make_server, **config):
    return wait_whole(*begin_nodes(make_server, **config))


class Pairs:
    """Pairs of nodes that are started some tests before they are needed: a new node serves no slot for two seconds."""

    AHEAD = 5

    def __init__(self, launch):
        self._launch, self._begun = launch, deque()

    def take(self):
        """The servers, and the nodes on them."""
        while len(self._begun) <= fewer(self.AHEAD):
            servers = Servers(self._launch)
            self._begun.append((servers, begin_nodes(servers.make)))
            self._are_in_use(self._begun[-1][1], False)
        servers, nodes = self._begun.popleft()
        self._are_in_use(nodes, True)
        return servers, wait_whole(*nodes)

    @staticmethod
    def _are_in_use(nodes, state):
        """Whether their logs are shown when a test fails."""
        for node in nodes:
            node.server.in_use = state

    def end(self):
        return [problem for servers, _ in self._begun for problem in servers.end()]


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

    def both_receive(self, expected):
        for waiter in (self.b, self.c):
            reply = waiter.outcome(timeout=5)
            assert expected(reply), f"{waiter} received {reply!r}"
        info = self.node.server.info("lock")
        assert (info["lock_waiters"], info["lock_contended_locks"]) == (0, 0)

    def both_still_wait(self):
        self.node.server.settle(30)
        for waiter in (self.b, self.c):
            assert not waiter.has_reply(), f"{waiter} was to wait, but received {waiter.outcome()!r}"
            assert waiter.is_blocked()


def is_redirection(reply):
    return isinstance(reply, ResponseError) and code_of(reply) in REDIRECTIONS


def is_moved(slot, node):
    text = f"MOVED {slot} {HOST}:{node.server.port}"
    return lambda reply: isinstance(reply, ResponseError) and str(reply) == text


def begin_move(slot, source, target):
    target.cluster("SETSLOT", slot, "IMPORTING", source.id)
    source.cluster("SETSLOT", slot, "MIGRATING", target.id)


def migrate(key, source, target):
    assert source.actor.call("MIGRATE", HOST, target.server.port, key, 0, 5000) == "OK"


# Ways for a replica to replace its master; the caller waits for the end of the failover


def plan(_, replica):
    assert replica.cluster("FAILOVER") == "OK"


def kill(master, _):
    master.server.kill()


def kill_and_take_over(master, replica):
    master.server.kill()
    assert replica.cluster("FAILOVER", "TAKEOVER") == "OK"


def take_over(_, replica):
    assert replica.cluster("FAILOVER", "TAKEOVER") == "OK"


FAILOVERS = (plan, kill, kill_and_take_over, take_over)
