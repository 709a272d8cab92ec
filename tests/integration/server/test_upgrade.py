"""An upgrade as docs/install.md describes it: a restart with a new file, and one server after the other, under load.

With --old-module, the module that is replaced is an older one: `make check-upgrade` builds it. Without it, it is a copy of
the same build, and the tests are about the procedure.
"""

import shutil
import time
from pathlib import Path

import pytest
from redis.exceptions import ConnectionError, TimeoutError

from harness import scaled, scaled_ms, wait_for
from harness.connect import HOST, new_connection
from harness.schedule import as_map
from model.sentinel_scene import Scene

HOUR = 3_600_000


@pytest.fixture
def modules(request, tmp_path, launch):
    """The old module and the new one, as files next to each other."""
    old = Path(request.config.getoption("--old-module") or launch.module)
    assert old.exists(), f"{old} does not exist"
    return shutil.copy2(old, tmp_path / "lock-1.so"), shutil.copy2(launch.module, tmp_path / "lock-2.so")


def runs(server, path):
    """Whether the process has this file mapped: Redis 7.0 does not show the path of a module."""
    with open(f"/proc/{server.pid}/maps") as maps:
        return str(path) in maps.read()


# What persists

FILL = (
    ("LOCK.ACQUIRE", "plain", "oa", "PX", HOUR),
    ("LOCK.ACQUIRE", "plain", "oa", "PX", HOUR),
    ("LOCK.RWREAD", "read", "oa", "PX", HOUR),
    ("LOCK.RWREAD", "read", "ob", "PX", 2 * HOUR),
    ("LOCK.RWWRITE", "write", "oa", "PX", HOUR),
    ("LOCK.SEMAPHORE", "permits", "oa", 5, "PERMITS", 2, "PX", HOUR),
    ("LOCK.SEMAPHORE", "permits", "ob", 5, "PX", 2 * HOUR),
    ("LOCK.MACQUIRE", 2, "one", "two", "oa", "MODES", "READ", "WRITE", "PX", HOUR),
    ("LOCK.FAIR", "fair", "oa", "PX", HOUR),
    ("LOCK.ACQUIRE", "fenced", "oa", "PX", HOUR, "FENCED"),
    ("LATCH.SET", "latch", 3),
    ("LATCH.DOWN", "latch"),
    ("DELAY.PUSH", "list", "later", HOUR, "v"),
)
LOCKS = ("plain", "read", "write", "permits", "one", "two", "fair", "fenced")


def fill(server):
    """Makes holds of all kinds, positions, a latch, delayed elements."""
    for words in FILL:
        server.control.execute_command(*words)
    for owner in ("ob", "oc"):
        waiter = server.actor(owner)
        waiter.send("LOCK.FAIR", "fair", owner, "BLOCK", 0)
        waiter.wait_blocked()


def locks_of(server):
    """{lock: ([(owner, mode, holds, lease in hours, rounded up)], [waiting owners], token)}"""
    found = {}
    for key in LOCKS:
        info = as_map(server.control.execute_command("LOCK.INFO", key))
        holders = [
            (hold["owner"], hold["mode"], hold["holds"], -(-hold["pttl"] // HOUR)) for hold in map(as_map, info["holders"])
        ]
        found[key] = sorted(holders), [waiter["owner"] for waiter in map(as_map, info["waiters"])], info["token"]
    return found


def goes_on(server):
    """Uses all that there was, in the same way as before."""

    def call(*words):
        return server.control.execute_command(*words)

    assert [call("LOCK.RELEASE", "plain", "oa") for _ in range(2)] == [1, 0]
    assert call("LOCK.RWWRITE", "read", "oc") is None and call("LOCK.RELEASE", "read", "ob") == 0
    assert call("LOCK.GUARD", "read", "oa", "PING") in (b"PONG", "PONG", True)
    assert call("LOCK.RELEASE", "write", "oa", "WRITE") == 0 and call("LOCK.RWREAD", "write", "oc") == 1
    assert call("LOCK.SEMAPHORE", "permits", "oc", 5, "PERMITS", 3) is None
    assert call("LOCK.SEMAPHORE", "permits", "oc", 5, "PERMITS", 2) == 2
    assert call("LOCK.RWWRITE", "one", "oc") is None and call("LOCK.RWREAD", "one", "oc") == 1
    assert call("LOCK.RWREAD", "two", "oc") is None
    assert call("LOCK.MRELEASE", 2, "one", "two", "oa", "MODES", "READ", "WRITE") == 2
    # The position belongs to its owner, who is not there, and nobody passes it.
    assert call("LOCK.RELEASE", "fair", "oa") == 0 and call("LOCK.FAIR", "fair", "oc") is None
    assert call("LOCK.FAIR", "fair", "ob") == 1
    assert call("LOCK.RELEASE", "fenced", "oa") == 0 and call("LOCK.ACQUIRE", "fenced", "oc", "FENCED") > 0
    assert call("LATCH.WAIT", "latch") is None and [call("LATCH.DOWN", "latch") for _ in range(2)] == [1, 0]
    assert call("DELAY.CANCEL", "list", "later") == 1
    assert call("BLPOP", "list", scaled(20)) == ("list", "soon")


def rewritten(server):
    """A new AOF, which begins with all data as an RDB."""
    server.control.bgrewriteaof()
    wait_for(lambda: not server.info("persistence")["aof_rewrite_in_progress"], 20, "the AOF to be rewritten")
    assert server.info("persistence")["aof_last_bgrewrite_status"] == "ok"
    server.stop()


WAYS = {
    "AOF": ({"appendonly": "yes"}, lambda server: server.stop()),
    "AOF of a killed server": ({"appendonly": "yes", "appendfsync": "always"}, lambda server: server.kill()),
    "rewritten AOF": ({"appendonly": "yes"}, rewritten),
    "RDB": ({}, lambda server: server.stop(save=True)),
}


@pytest.mark.parametrize("way", WAYS)
def test_upgrade_by_a_new_file_and_a_restart(make_server, modules, way):
    old, new = modules
    config, stop = WAYS[way]
    server = make_server(load_module=False, loadmodule=str(old), lock_fair_reserve=HOUR, **config)
    assert runs(server, old)
    fill(server)
    before = locks_of(server)
    # It is due before the upgrade has ended or after it.
    server.control.execute_command("DELAY.PUSH", "list", "due", scaled_ms(500), "soon")
    stop(server)
    server.start(loadmodule=str(new))
    assert runs(server, new) and not runs(server, old)
    assert locks_of(server) == before
    goes_on(server)


# One server after the other


class Seeker:
    """In the place of a redis.Redis: each connection is to the server that says that it is the master."""

    def __init__(self, group):
        self._ports = [server.port for server in group.servers]
        self.connection_pool = self

    def make_connection(self):
        for port in self._ports:
            try:
                connection = new_connection(port, socket_timeout=scaled(3))
                connection.send_command("ROLE")
                if connection.read_response()[0] == "master":
                    return connection
                connection.disconnect()
            except (ConnectionError, TimeoutError):
                pass  # it is restarting
        raise ConnectionError("no server is the master")

    def close(self):
        pass


class Group:
    """A master and two replicas, without Sentinels."""

    def __init__(self, make_server, **config):
        self.servers = [make_server(**config) for _ in range(3)]
        for server in self.servers[1:]:
            self.follow(server, self.servers[0])

    def follow(self, server, master):
        server.control.execute_command("REPLICAOF", HOST, master.port)
        self.wait_follows(server, master)

    def wait_follows(self, server, master):
        def follows():
            info = server.info("replication")
            return info["role"] == "slave" and info["master_port"] == master.port and info["master_link_status"] == "up"

        wait_for(follows, 30, f"{server} to follow {master}")

    def restart(self, server, module, master):
        server.restart(loadmodule=str(module), replicaof=(HOST, master.port))
        self.wait_follows(server, master)
        assert runs(server, module)

    def master(self):
        return next(server for server in self.servers if server.info("replication")["role"] == "master")

    def client(self):
        return Seeker(self)

    def wait_failover(self, old):
        """FAILOVER first makes the old master a replica: for a moment there is no master."""

        def promoted():
            others = (server for server in self.servers if server is not old)
            return next((server for server in others if server.info("replication")["role"] == "master"), None)

        return wait_for(promoted, 30, "the failover")


def test_rolling_upgrade_under_load_loses_and_doubles_no_hold(make_server, modules):
    """The replicas are restarted with the new module, one of them becomes the master (FAILOVER), and the old master is
    restarted. Clients of all kinds work meanwhile, and record what they rely on."""
    old, new = modules
    config = {"lock_fair_reserve": HOUR, "lock_default_lease": HOUR}
    group = Group(make_server, load_module=False, loadmodule=str(old), **config)
    master, *replicas = group.servers
    scene = Scene(group, HOUR)
    try:
        scene.begin()
        for replica in replicas:
            group.restart(replica, new, master)
            scene.wait_served(scene.load, since=time.monotonic())
        scene.wait_failover(lambda server: server.control.execute_command("FAILOVER", "TO", HOST, replicas[0].port))
        assert scene.new is replicas[0]
        assert scene.check_kept() == len(scene.kept)
        scene.check_queue()
        scene.check_token()
        group.follow(replicas[1], replicas[0])
        group.restart(master, new, replicas[0])
        scene.wait_served(scene.load, since=time.monotonic())
        wait_for(scene.is_bound, 30, "the session to be bound again")
    finally:
        scene.end()
    scene.check_history()
    assert not scene.bound.lost
    print(f"\n{len(scene.terms.beliefs)} holds; seconds without service: {scene.without_service()}")

    def all_have_the_same():
        first, *others = [server.dump() for server in group.servers]
        return all(other == first for other in others)

    # Leases of the last holds still expire.
    wait_for(all_have_the_same, 30, "the three servers to have the same data")


def test_config_rewrite_writes_the_name_of_the_loaded_file(make_server, modules):
    """This is why the page requires a restart right after the edit."""
    old, new = modules
    server = make_server(load_module=False, loadmodule=str(old))
    conf = server.folder / "redis.conf"
    conf.write_text(conf.read_text().replace(str(old), str(new)))
    server.control.config_rewrite()
    assert str(old) in conf.read_text() and str(new) not in conf.read_text()
