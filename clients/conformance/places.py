"""Where a scenario is played: one server, one behind a proxy, one with a replica, a cluster, or servers with Sentinels."""

import os
import signal
import socket

from harness import scaled, scaled_ms, wait_for, wait_for_sync
from harness.cluster import ClusterClient
from harness.connect import HOST
from harness.proxy import CommandProxy
from harness.sentinel import NAME, SentinelGroup

LAST_SLOT = 16383


def _map(flat):
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _info(answer):
    """LOCK.INFO's RESP2 reply as a dict, or None."""
    if answer is None:
        return None
    info = _map(answer)
    return {**info, "holders": [_map(one) for one in info["holders"]], "waiters": [_map(one) for one in info["waiters"]]}


def _single(server):
    return {"kind": "single", "port": server.port}


class Wire(CommandProxy):
    """A proxy that can also swallow what single connections carry, as a network that has lost their state."""

    def __init__(self, port):
        self._lost, self._delayed, self._heals_after, self._commands = set(), None, None, {}
        super().__init__(port)

    def lose(self, command):
        """Nothing gets through any more of the connections whose last request was this command, or of `all`."""
        self._lost |= {link for link, last in list(self._commands.items()) if command in (last, "all")}

    def delay(self, command):
        """The same of the connection that sends this command next, from that request on."""
        self._delayed = command

    def heal_after(self, command):
        """Delivers everything late as soon as a reply to this command has been delivered."""
        self._heals_after = command

    def has_healed(self):
        return self._heals_after is None

    def heal(self, late=False):
        self._lost, self._delayed, self._heals_after = set(), None, None
        super().heal(late)

    def wait_open(self, link):
        def is_open():
            return not self._swallows and link not in self._lost

        with self._changed:
            return not is_open() and self._changed.wait_for(is_open)

    def _carry_request(self, link, raw, words, sink):
        command = words[0].decode("latin-1").upper()
        self._commands[link] = command
        if command == self._delayed:
            self._lost, self._delayed = self._lost | {link}, None
        super()._carry_request(link, raw, words, sink)

    def _carry_reply(self, link, raw, sink):
        super()._carry_reply(link, raw, sink)
        if self._heals_after and self._commands.get(link) == self._heals_after:
            self.heal(late=True)


class Place:
    """One server, without a proxy."""

    def __init__(self, make_server, launch, config):
        self.servers, self.wires, self._stopped = [make_server(**config)], [], set()
        self.to = _single(self.servers[0])

    def key(self, name):
        return name

    def key_elsewhere(self, name):
        """A key of another node, if there are several."""
        return self.key(name)

    def keys_in_order(self, name):
        """Three keys; in a cluster one of each node, in the order of their slots."""
        return [self.key(f"{name}-{number}") for number in (1, 2, 3)]

    def factories(self):
        """The lock factories that each process begins with: what each is connected to."""
        return {"main": self.to}

    def to_server(self, number):
        """What a lock factory on this one server is connected to."""
        return _single(self.servers[number])

    def say(self, server, command):
        return server.control.execute_command(*command)

    def lock_info(self, key, server):
        return _info(self.say(server, ["LOCK.INFO", key]))

    def lock_infos(self, key):
        """LOCK.INFO of each server that may have the key."""
        return [self.lock_info(key, server) for server in self.servers[:1]]

    def live(self):
        return [server for server in self.servers if server.is_running()]

    def masters(self):
        """The servers on which the test checks that nothing is left."""
        return [server for server in self.live() if server.info("replication")["role"] == "master"]

    def in_step(self):
        """Waits until all replicas have received everything from the first server."""
        for server in self.replicas():
            wait_for_sync(self.servers[0], server)

    def replicas(self):
        return self.servers[1:]

    def life(self, server, what):
        if what == "stop":
            self._stopped.add(server)
            os.kill(server.pid, signal.SIGSTOP)
        elif what == "go_on":
            self._stopped.discard(server)
            os.kill(server.pid, signal.SIGCONT)
        else:
            getattr(server, what)()

    def heal(self):
        for server in list(self._stopped):
            self.life(server, "go_on")
        for server in self.live():
            server.control.config_set("maxclients", 1000)

    def end(self):
        self.heal()


class Bare(Place):
    """One server that has not loaded the module."""

    def __init__(self, make_server, launch, config):
        super().__init__(lambda **settings: make_server(load_module=False, **settings), launch, config)

    def lock_info(self, key, server):
        return None

    def masters(self):
        return []


class Nothing(Bare):
    """A port on which no process listens. It is bound, so that no server of another test gets it meanwhile."""

    def __init__(self, make_server, launch, config):
        self.servers, self.wires, self._stopped = [], [], set()
        self._bound = socket.socket()
        self._bound.bind((HOST, 0))
        self.to = {"kind": "single", "port": self._bound.getsockname()[1]}

    def end(self):
        self._bound.close()


class Wired(Place):
    """One server that clients reach only through a proxy."""

    def __init__(self, make_server, launch, config):
        super().__init__(make_server, launch, config)
        self.wires = [Wire(self.servers[0].port)]
        self.to = _single(self.wires[0])

    def heal(self):
        super().heal()
        for wire in self.wires:
            wire.heal()

    def end(self):
        super().end()
        for wire in self.wires:
            wire.__exit__()


class Addressed(Wired):
    """A master and its replica, of which clients only know the address of the master."""

    def __init__(self, make_server, launch, config):
        super().__init__(make_server, launch, config)
        self.servers.append(self.servers[0].start_replica())
        self._master = self.servers[0]

    def lock_info(self, key, server):
        return super().lock_info(key, self._master)

    def life(self, server, what):
        if what != "promote":
            super().life(server, what)
            return
        old, self._master = self._master, server
        wait_for_sync(old, server)
        self.say(server, ["REPLICAOF", "NO", "ONE"])
        self.wires[0].target = server.port
        self.say(old, ["REPLICAOF", HOST, server.port])


class Replicated(Place):
    """A master and its replica."""

    def __init__(self, make_server, launch, config):
        super().__init__(make_server, launch, config)
        self.servers.append(self.servers[0].start_replica())


class Independent(Wired):
    """Servers `a`, `b`, … that know nothing of each other, each behind a proxy, and `main`, a further one without a proxy,
    which takes part in no lock."""

    COUNT = 3

    def __init__(self, make_server, launch, config):
        self.servers, self._stopped = [make_server(**config) for _ in range(self.COUNT + 1)], set()
        # In the order of the ports, which names the servers in the programs.
        self.wires = sorted((Wire(server.port) for server in self.servers[:-1]), key=lambda wire: wire.port)
        for wire, server in zip(self.wires, self.servers, strict=False):
            wire.target = server.port
        self.to = _single(self.servers[-1])

    def factories(self):
        return {"main": self.to, **{name: _single(wire) for name, wire in zip("abcde", self.wires, strict=False)}}

    def to_server(self, number):
        return _single(self.wires[number])

    def lock_infos(self, key):
        return [self.lock_info(key, server) for server in self.live()]

    def replicas(self):
        return []


class FiveIndependent(Independent):
    COUNT = 5


class Cluster(Place):
    """Three masters; the first has a replica, which can take over its slots. `node`: the node whose keys the scenario uses."""

    def __init__(self, make_server, launch, config):
        self.wires, self._stopped, self.node = [], set(), 0
        self.servers = [make_server(cluster_enabled="yes", cluster_node_timeout=scaled_ms(2000), **config) for _ in range(4)]
        self._ask_all("CONFIG", "SET", "cluster-allow-replica-migration", "no")
        self._begin()
        self._client = ClusterClient(self.servers[1].port)
        self.to = {"kind": "cluster", "ports": [server.port for server in self.servers[:3]]}

    def _ask_all(self, *words):
        return [server.control.execute_command(*words) for server in self.servers]

    def _begin(self):
        first, *others = self.servers
        third = LAST_SLOT // 3
        for number, server in enumerate(self.servers[:3]):
            last = LAST_SLOT if number == 2 else third * (number + 1) - 1
            server.control.execute_command("CLUSTER", "ADDSLOTSRANGE", third * number, last)
            server.control.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for server in others:
            bus = server.control.config_get("cluster-port")["cluster-port"]
            first.control.execute_command("CLUSTER", "MEET", HOST, server.port, bus)
        ids = self._ask_all("CLUSTER", "MYID")

        def all_met():
            return all(
                all(name in nodes and "handshake" not in nodes for name in ids)
                for nodes in (str(server.control.execute_command("CLUSTER", "NODES")) for server in self.servers)
            )

        wait_for(all_met, 30, "the nodes to meet")
        self.servers[3].control.execute_command("CLUSTER", "REPLICATE", ids[0])
        wait_for_sync(self.servers[0], self.servers[3])
        wait_for(lambda: all(_is_up(server) for server in self.servers), 30, "the cluster to cover all slots")

    def key(self, name):
        return self._key(name, self.node)

    def key_elsewhere(self, name):
        return self._key(name, 2 if self.node != 2 else 0)

    def keys_in_order(self, name):
        return [self._key(name, node) for node in (0, 1, 2)]

    def _key(self, name, node):
        keyslot = self.servers[1].control.execute_command
        third = LAST_SLOT // 3
        tag = next(
            tag for tag in range(1000) if min(int(keyslot("CLUSTER", "KEYSLOT", str(tag))) // third, 2) == node
        )
        return f"{{{tag}}}{name}"

    def say(self, server, command):
        return self._client.call(self.node, *command)

    def replicas(self):
        return self.servers[3:]

    def lock_info(self, key, server):
        return _info(self._client.call(key, "LOCK.INFO", key))

    def life(self, server, what):
        super().life(server, what)
        if what == "kill":
            # This client's connections are closed, and it would not learn where the slots are now.
            self._client.close()
            self._client = ClusterClient(self.servers[1].port)

    def end(self):
        super().end()
        self._client.close()


def _is_up(server):
    info = server.control.execute_command("CLUSTER", "INFO")
    text = info if isinstance(info, str) else "\n".join(f"{name}:{value}" for name, value in info.items())
    return "cluster_state:ok" in text and "cluster_slots_ok:16384" in text


class Sentinels(Place):
    """A master and two replicas, which three Sentinels monitor."""

    def __init__(self, make_server, launch, config):
        self._group, self.wires, self._stopped = SentinelGroup(launch, make_server, **config), [], set()
        self.servers = self._group.servers
        self._master, self.sentinels = self.servers[0], self._group.sentinels
        for sentinel in self.sentinels:
            sentinel.pid = sentinel.control.info("server")["process_id"]
        self.to = {"kind": "sentinel", "ports": [sentinel.port for sentinel in self._group.sentinels], "master": NAME}

    def say(self, server, command):
        return self._master.control.execute_command(*command)

    def masters(self):
        return [self._master]

    def wait_failover(self, old):
        self._master = self._group.wait_failover(old, scaled(60))

    def wait_follows(self, old):
        self._group.wait_follows(old, self._master, scaled(60))

    def end(self):
        super().end()
        problems = self._group.end()
        assert not problems, "\n".join(problems)


PLACES = {
    "single": Place,
    "bare": Bare,
    "nothing": Nothing,
    "wire": Wired,
    "address": Addressed,
    "replicas": Replicated,
    "cluster": Cluster,
    "sentinel": Sentinels,
    "servers": Independent,
    "five-servers": FiveIndependent,
}
