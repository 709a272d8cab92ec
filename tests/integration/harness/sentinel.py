"""Servers that Sentinels monitor: one master, its replicas, and which one the Sentinels consider to be the master.

Each server is behind a proxy, and the Sentinels, the other servers and the clients know only the proxy. To isolate a
server, its proxy swallows all bytes. A client that connects to `server.port`, the server's own port, is on the side of
the isolated server.
"""

import os
import signal
import tempfile
from pathlib import Path

from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError
from redis.retry import Retry
from redis.sentinel import Sentinel as SentinelClient

from .connect import HOST, new_client
from .ports import free_port
from .process import PORT_TAKEN, Process
from .proxy import Proxy
from .replication import wait_for_sync
from .server import ServerDied
from .waiting import scaled, scaled_ms, wait_for

NAME = "locks"
DOWN_AFTER_MS = 2000
# By default a Sentinel does these things every ten seconds or every two: then a group takes half a minute to start and
# to stop.
PERIODS_MS = {"INFO-PERIOD": 500, "PING-PERIOD": 250, "ASK-PERIOD": 250, "PUBLISH-PERIOD": 300}


class SentinelProcess(Process):
    ready, options = "+monitor", ("--sentinel",)


class Sentinel:
    """One Sentinel, in a folder of its own."""

    def __init__(self, launch, master_port, quorum):
        self._folder = Path(tempfile.mkdtemp(dir=launch.root, prefix="sentinel"))
        for _ in range(10):
            self.port = free_port()
            self._process = self._start(launch, master_port, quorum)
            if self._process.wait_ready():
                break
            if PORT_TAKEN not in self._process.log():
                raise ServerDied(f"the Sentinel did not start:\n{self._process.last_words()}")
        self.control = new_client(self.port)
        wait_for(self.control.ping, what="the Sentinel to answer PING")
        self.control.execute_command("SENTINEL", "DEBUG", *(word for pair in PERIODS_MS.items() for word in pair))

    def _start(self, launch, master_port, quorum):
        conf = self._folder / "sentinel.conf"
        lines = [
            f"port {self.port}",
            f"bind {HOST}",
            f"dir {self._folder}",
            f"sentinel monitor {NAME} {HOST} {master_port} {quorum}",
            f"sentinel down-after-milliseconds {NAME} {scaled_ms(DOWN_AFTER_MS)}",
            f"sentinel failover-timeout {NAME} {scaled_ms(4000)}",
            f"sentinel parallel-syncs {NAME} 2",
        ]
        conf.write_text("\n".join(lines) + "\n")
        return SentinelProcess(launch, conf, self._folder / "sentinel.log", "sentinel")

    def state(self):
        return self.control.sentinel_master(NAME)

    def last_words(self):
        return self._process.last_words()

    def end(self):
        self.control.close()
        ended = self._process.has_ended()
        self._process.kill()
        return [f"a Sentinel had ended before it was stopped:\n{self._process.last_words()}"] if ended else []


class SentinelGroup:
    """Three servers, the first of which is the master, and three Sentinels with a quorum of two."""

    def __init__(self, launch, make_server, **config):
        self.servers, self.sentinels, self._proxies, self._stopped = [], [], {}, set()
        try:
            for _ in range(3):
                self._add(make_server(**config))
            master, *replicas = self.servers
            for replica in replicas:
                self._follow(replica, master)
            for _ in range(3):
                self.sentinels.append(Sentinel(launch, self.port_of(master), 2))
            wait_for(self._all_know_all, 30, "the Sentinels to find each other and the servers")
        except BaseException:
            self.end()
            raise

    def _add(self, server):
        proxy = self._proxies[server] = Proxy(server.port)
        self.servers.append(server)
        # Also in the configuration file after a restart.
        server.config |= {"replica-announce-ip": HOST, "replica-announce-port": proxy.port}
        for option in ("replica-announce-ip", "replica-announce-port"):
            server.control.config_set(option, server.config[option])

    def _follow(self, replica, master):
        replica.control.execute_command("REPLICAOF", HOST, self.port_of(master))
        wait_for_sync(master, replica)

    def _all_know_all(self):
        for sentinel in self.sentinels:
            state = sentinel.state()
            known = state["num-slaves"], state["num-other-sentinels"], state["flags"]
            assert known == (2, 2, "master"), f"a Sentinel knows {known}"
            replicas = sentinel.control.sentinel_slaves(NAME)
            assert all(replica["master-link-status"] == "ok" for replica in replicas)
        return True

    # Master and replicas

    def port_of(self, server):
        """The port at which all others connect to it."""
        return self._proxies[server].port

    def master(self):
        """The server that all Sentinels name as the master; fails while they do not agree."""
        named = {sentinel.state()["port"] for sentinel in self.sentinels}
        assert len(named) == 1, f"the Sentinels name {named}"
        return next(server for server in self.servers if self.port_of(server) in named)

    def wait_failover(self, old, timeout=60):
        """Waits until all Sentinels name another master, which has this role and has a replica; returns it."""

        def promoted():
            new = self.master()
            assert new is not old, "the old one is still the master"
            info = self._replication_of(new)
            assert info["role"] == "master" and info["connected_slaves"] > 0, info
            return new

        try:
            return wait_for(promoted, timeout, "a failover")
        except AssertionError as error:
            logs = [sentinel.last_words() for sentinel in self.sentinels]
            raise AssertionError("\n".join([str(error), *logs])) from None

    def wait_follows(self, server, master, timeout=60):
        """Waits until this server, the old master, is a replica of the new one and has its data."""

        def follows():
            info = self._replication_of(server)
            assert info["role"] == "slave" and info["master_port"] == self.port_of(master), info
            return info["master_link_status"] == "up"

        wait_for(follows, timeout, f"{server} to follow {master}")

    def _replication_of(self, server):
        try:
            return server.info("replication")
        except ConnectionError as error:
            # A Sentinel closes all client connections when it makes a server a master or a replica.
            raise AssertionError(f"{server}: {error}") from None

    def client(self, **options):
        """A redis.Redis that asks the Sentinels for the master each time that it connects. It does not retry."""
        # A pool counts all connections that it has made, also those that have been given up.
        retry = {"retry": Retry(NoBackoff(), 0), "socket_timeout": scaled(1.5), "max_connections": 1 << 30, **options}
        sentinels = SentinelClient([(HOST, sentinel.port) for sentinel in self.sentinels], **retry)
        return sentinels.master_for(NAME, decode_responses=True)

    # Failures of a server

    def stop(self, server):
        """SIGSTOP: the server does nothing, and its connections stay open."""
        self._stopped.add(server)
        os.kill(server.pid, signal.SIGSTOP)

    def resume(self, server):
        self._stopped.discard(server)
        os.kill(server.pid, signal.SIGCONT)

    def isolate(self, server):
        """The server runs, but only clients that connect to its own port reach it."""
        self._proxies[server].swallow()

    def heal(self, server):
        self._proxies[server].heal()

    def end(self):
        """Ends the Sentinels; the code that has made the servers stops them. Returns the faults."""
        found = [text for sentinel in self.sentinels for text in sentinel.end()]
        for server in list(self._stopped):
            self.resume(server)
        for proxy in self._proxies.values():
            proxy.__exit__()
        return found
