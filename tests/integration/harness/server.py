"""A real server in a folder of its own."""

import socket
import subprocess
import time
from contextlib import suppress
from signal import SIGKILL

from redis.exceptions import ConnectionError, RedisError, ResponseError

from .actor import Actor
from .conffile import option_name, write_conf
from .connect import HOST, new_client
from .dataset import dump
from .ports import free_port
from .process import PORT_TAKEN, Process
from .waiting import scaled, wait_for


class ServerDied(AssertionError):
    """A server ended without being stopped, or did not start."""


class Server:
    """One server: a folder, a configuration, and a process that can be restarted.

    `config` are configuration options by keyword: appendonly="yes", lock_default_lease=500
    (lock.default-lease), repl_timeout=5 (repl-timeout). `module_args` follow loadmodule.
    """

    live = []
    """All running servers: conftest.py shows their logs when a test fails."""

    def __init__(self, launch, folder, module_args=(), load_module=True, **config):
        self.launch, self.folder = launch, folder
        self.config = {option_name(keyword): value for keyword, value in config.items()}
        self.port, self.in_use = None, True
        self._module = launch.module if load_module else None
        self._module_args = module_args
        self._process = None
        self._lives = 0
        self._control = None
        self._actors, self._clients, self._sockets = [], [], []
        self._replicas = []
        folder.mkdir(parents=True)
        self.start()

    def __repr__(self):
        return f"Server(:{self.port}, {self.folder})"

    # Life

    def start(self, **config):
        """Starts it; `config` changes its configuration permanently."""
        assert self._process is None, "it runs already"
        self.config.update({option_name(keyword): value for keyword, value in config.items()})
        for _ in range(10):
            # After a restart the same port, so that replicas find their master again.
            self.port = self.port or free_port()
            process = self._launch()
            if process.wait_ready():
                break
            if PORT_TAKEN not in process.log():
                raise ServerDied(f"it did not start:\n{process.last_words()}")
            self.port = None
        else:
            raise ServerDied("found no free port")
        self._process = process
        Server.live.append(self)
        wait_for(self.control.ping, what=f"{self} to answer PING")
        return self

    def _launch(self):
        conf = self.folder / "redis.conf"
        options = {**self.launch.options, **self.config}
        if options.get("cluster-enabled") == "yes":
            # By default port + 10000, which may be taken.
            options.setdefault("cluster-port", free_port())
        write_conf(conf, self.port, self._module, self._module_args, options)
        self._lives += 1
        return Process(self.launch, conf, self.folder / "server.log", self._lives)

    def stop(self, save=False):
        """Shuts it down cleanly, with or without an RDB; fails if the server had faults."""
        if self._process is None:
            return
        process = self._forget_process()
        found = []
        if process.has_ended():
            found.append("it had ended before it was stopped")
        elif not self._shutdown(process, "SAVE" if save else "NOSAVE"):
            found.append(f"it did not shut down within {scaled(20):g} s")
        self._disconnect()
        found += process.problems(ended=not found)
        if found:
            raise ServerDied("\n".join([f"{self}:", *found, "its log ends with", process.last_words()]))

    def _shutdown(self, process, how):
        """Whether it ended in time; if not, it is killed."""
        # NOW: does not wait for replicas that lag.
        with suppress(ConnectionError), new_client(self.port) as client:
            client.execute_command("SHUTDOWN", how, "NOW")
        try:
            process.wait_end(20)
        except subprocess.TimeoutExpired:
            process.kill()
            return False
        return True

    def kill(self):
        """SIGKILL: all that the server has not written to a file is lost."""
        process = self._forget_process()
        if process.has_ended():
            raise ServerDied(f"{self} had ended before it was killed:\n{process.last_words()}")
        process.kill()
        self._disconnect()
        found = process.problems(ended=False)
        if found:
            raise ServerDied("\n".join([f"{self}:", *found]))

    def has_died(self, signal=SIGKILL):
        """Checks that it has ended by this signal, which no other process sent: it killed itself."""
        assert not self.is_running(), f"{self} is still running"
        process = self._forget_process()
        self._disconnect()
        found = process.problems(ended=False)
        if process.wait_end(0) != -signal:
            found.append(f"it did not end by signal {signal}:\n{process.last_words()}")
        if found:
            raise ServerDied("\n".join([f"{self}:", *found]))

    def restart(self, save=False, **config):
        """Stops and starts it in the same folder, on the same port if it is still free."""
        self.stop(save)
        return self.start(**config)

    def _forget_process(self):
        assert self._process is not None, "it does not run"
        process, self._process = self._process, None
        Server.live.remove(self)
        return process

    @property
    def pid(self):
        return self._process.pid

    def is_running(self):
        return self._process is not None and self._process.is_running()

    def log(self):
        """All that it has logged since its first start."""
        return (self.folder / "server.log").read_text(errors="replace")

    def problems(self):
        """Crashes and Valgrind errors of the current process so far (leaks are reported only at its end)."""
        return self._process.problems(ended=False)

    # Clients

    @property
    def control(self):
        """A client for queries of the harness and of the tests: str replies, RESP2."""
        if self._control is None:
            self._control = new_client(self.port, client_name="control")
        return self._control

    def client(self, protocol=2, **options):
        """A new redis.Redis; str replies unless decode_responses=False; closed by the harness."""
        client = new_client(self.port, protocol, **options)
        self._clients.append(client)
        return client

    def actor(self, name=None, protocol=2, **options):
        """An Actor: a connection whose commands and replies are handled separately."""
        actor = Actor(self, name, protocol, **options)
        self._actors.append(actor)
        return actor

    def raw_connection(self):
        """A bare TCP socket, for bytes that no client library would send."""
        sock = socket.create_connection((HOST, self.port), timeout=scaled(30))
        self._sockets.append(sock)
        return sock

    def disconnect_clients(self):
        """Closes every client, actor and socket that this object has made."""
        for closable in self._actors + self._clients + self._sockets:
            closable.close()
        self._actors, self._clients, self._sockets = [], [], []

    def _disconnect(self):
        self.disconnect_clients()
        if self._control is not None:
            self._control.close()
            self._control = None

    # What it reports about itself

    @property
    def version(self):
        """(7, 0, 15): Redis's version, or Valkey's own."""
        info = self.control.info("server")
        text = info.get("valkey_version", info["redis_version"])
        return tuple(int(part) for part in str(text).split("."))

    @property
    def is_valkey(self):
        return "valkey_version" in self.control.info("server")

    def info(self, section="lock"):
        """One section of INFO as a dict."""
        return self.control.info(section)

    def blocked_clients(self):
        """How many clients are in a blocking command."""
        return self.info("clients")["blocked_clients"]

    def all_searched(self, timeout=10.0):
        """Waits until the search for a cycle has been done from every wait that has begun."""
        wait_for(lambda: self.info("lock")["lock_waiters_unsearched"] == 0, timeout, "a search from every wait")

    def now_ms(self):
        """The server's clock, in unix ms."""
        seconds, micros = self.control.time()
        return seconds * 1000 + micros // 1000

    def settle(self, ms=5):
        """Lets the server's own timers run for `ms` of its time.

        Only to show that something does NOT happen; if something does happen, wait for it.
        """
        self.let_pass(scaled(ms))

    def let_pass(self, ms):
        """Waits until `ms` have passed on the server's clock: for a time that is already scaled, such as a lease."""
        end = self.now_ms() + ms
        # There is nothing to check before; the condition below is nevertheless the server's clock.
        time.sleep((ms + 1) / 1000)
        wait_for(lambda: self.now_ms() > end, what="the server's clock to move")

    def unloads(self):
        """Allows MODULE UNLOAD and sends it; whether it was accepted."""
        try:
            self.control.config_set("lock.allow-unload", "yes")
            return self.control.module_unload("lock")
        except ResponseError:
            return False

    def unload(self, timeout=5.0):
        """Repeats MODULE UNLOAD until it is accepted: for a moment after the last wait has ended it is refused."""
        wait_for(self.unloads, timeout, "MODULE UNLOAD to be accepted")

    def dump(self):
        """Its whole dataset, to compare with that of another server: see dataset.dump."""
        return dump(self)

    # Replicas

    def start_replica(self, **config):
        """Starts another server that replicates from this one; it has synced when this returns."""
        # Imported here and not at the top: replication.py uses servers.
        from .replication import wait_for_sync

        folder = self.folder.parent / f"{self.folder.name}-r{len(self._replicas) + 1}"
        loads_module = self._module is not None
        replica = Server(self.launch, folder, self._module_args, loads_module, **config)
        self._replicas.append(replica)
        # By command: a replica that has its master in the configuration file connects a second later.
        replica.control.execute_command("REPLICAOF", HOST, self.port)
        replica.config["replicaof"] = (HOST, self.port)
        wait_for_sync(self, replica)
        return replica

    @property
    def replicas(self):
        """The replicas that start_replica has started, in that order."""
        return tuple(self._replicas)

    def stop_all(self):
        """Stops it and its replicas; returns their faults, as a list of strings."""
        found = []
        for server in [*self._replicas, self]:
            try:
                server.stop()
            except (AssertionError, RedisError) as error:
                found.append(str(error))
        return found
