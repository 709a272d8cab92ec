"""Three masters with a replica each, and a proxy in front of every node, so that a node can be isolated.

The nodes announce the address of a node's proxy to each other and to their clients. A client on the side of an isolated
node uses the node's own port.
"""

import os
import signal
from contextlib import ExitStack, contextmanager

from harness import wait_for, wait_for_sync
from harness.conffile import option_name
from harness.proxy import Proxy
from model.cluster_scene import HOST, LAST, Node
from model.replicas_scene import online

THIRD = LAST // 3
RANGES = [(0, THIRD), (THIRD + 1, 2 * THIRD), (2 * THIRD + 1, LAST)]
SENDER = slice(40, 80)  # the node's id in a message on the cluster bus


def begins_with_ping(first):
    """The link of a replica does."""
    return b"PING" in first.upper()


class Member(Node):
    """A node behind its proxies."""

    def __init__(self, server, stack):
        super().__init__(server)
        bus = int(server.control.config_get("cluster-port")["cluster-port"])
        self.proxy, self.bus = stack.enter_context(Proxy(server.port)), stack.enter_context(Proxy(bus))
        server.control.config_set("cluster-announce-port", self.proxy.port)
        server.control.config_set("cluster-announce-bus-port", self.bus.port)

    @property
    def port(self):
        return self.proxy.port

    def restart(self):
        self.server.start(
            cluster_announce_port=self.proxy.port, cluster_announce_bus_port=self.bus.port, cluster_port=self.bus.target
        )
        self.actor = self.server.actor()

    def sets(self, **config):
        """Sets options, also for the next start."""
        for keyword, value in config.items():
            self.server.control.config_set(option_name(keyword), value)
            self.server.config[option_name(keyword)] = value

    def knows(self, other, what):
        lines = [line for line in self.cluster("NODES").splitlines() if line.startswith(other.id)]
        return any("handshake" not in line and what in line for line in lines)

    def is_master(self):
        return self.server.info("replication")["role"] == "master"


class FailingCluster:
    def __init__(self, make_server, stack, **config):
        config = dict(cluster_enabled="yes", cluster_node_timeout=2000, cluster_require_full_coverage="no") | config
        self.members = [Member(make_server(**config), stack) for _ in range(6)]
        self.masters, self.replicas = self.members[:3], self.members[3:]
        for number, (master, slots) in enumerate(zip(self.masters, RANGES, strict=True)):
            master.cluster("ADDSLOTSRANGE", *slots)
            master.cluster("SET-CONFIG-EPOCH", number + 1)
        for member in self.members[1:]:
            self.members[0].cluster("MEET", HOST, member.port, member.bus.port)
        self._all_know(self.members, "", "to meet")
        for master, replica in zip(self.masters, self.replicas, strict=True):
            wait_for(lambda replica=replica, master=master: replica.cluster("REPLICATE", master.id) == "OK", what="a replica")
        self._all_know(self.replicas, "slave", "to know the replicas")
        for master, replica in zip(self.masters, self.replicas, strict=True):
            wait_for(lambda master=master: online(master.server) == 1, 20, "a master to know its replica")
            wait_for_sync(master.server, replica.server)
            wait_for(master.is_up, 20, "the cluster to be whole")
        for replica in self.replicas[1:]:
            # Only one of the masters may be replaced, also on a slow machine.
            replica.server.control.config_set("cluster-replica-no-failover", "yes")

    def _all_know(self, others, what, why):
        for member in self.members:
            wait_for(lambda member=member: all(member.knows(other, what) for other in others), 20, f"the nodes {why}")

    @property
    def ports(self):
        return [member.port for member in self.members]

    def tags_of(self, number):
        """Hash tags of slots of this master."""
        first, last = RANGES[number]
        master = self.masters[number]
        return (tag for tag in map(str, range(10_000)) if first <= master.cluster("KEYSLOT", tag) <= last)

    def without_replication(self, master):
        """Grants of this master reach no replica."""
        return master.proxy.swallowing(begins_with_ping)

    @contextmanager
    def isolated(self, member):
        """Nothing reaches it, and nothing from it reaches the others, except clients that use its own port."""
        with ExitStack() as stack:
            for proxy in (member.proxy, member.bus):
                stack.enter_context(proxy.swallowing())
            for other in self.members:
                if other is not member:
                    stack.enter_context(other.bus.swallowing(lambda first: first[SENDER] == member.id.encode()))
            yield

    @contextmanager
    def stopped(self, member):
        os.kill(member.server.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(member.server.pid, signal.SIGCONT)

    @contextmanager
    def killed(self, member):
        member.server.kill()
        yield
        member.restart()

