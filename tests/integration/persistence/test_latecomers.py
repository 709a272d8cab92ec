"""A replica that attaches, or an AOF that is switched on, during traffic on locks receives all changes."""

import os
import signal
from itertools import count

import pytest

from harness import wait_for, wait_for_sync
from model.lock_scene import HOUR

DB = 3  # not the one in which connections start


def assert_survives_a_crash(server):
    """Asserts that the present data is there again after SIGKILL and a start from the AOF."""
    before = server.dump()
    server.kill()
    server.start(appendonly="yes")
    assert server.dump() == before


class Traffic:
    """Lock commands one after another, each on its own key, so that a lost command shows."""

    def __init__(self, server):
        self._client, self._waiter = server.client(db=DB), server.actor("waiter", db=DB)
        self._numbers = count()

    def run_rounds(self, rounds=1):
        for _ in range(rounds):
            self._round(f"{next(self._numbers)}:")

    def _round(self, prefix):
        run = self._client.execute_command
        for name in ("taken", "twice", "twice", "renewed", "released", "forced", "handed", "drained"):
            run("LOCK.ACQUIRE", prefix + name, "o", "PX", HOUR)
        run("LOCK.RENEW", prefix + "renewed", "o", "PX", 2 * HOUR)
        run("LOCK.RELEASE", prefix + "released", "o")
        run("LOCK.FORCE", prefix + "forced")
        self._hand_off(prefix + "handed", "LOCK.RELEASE", "o")
        self._hand_off(prefix + "drained", "DEL")

    def _hand_off(self, key, command, *words):
        self._waiter.send("LOCK.ACQUIRE", key, "w", "PX", HOUR, "BLOCK", 0)
        self._waiter.wait_blocked()
        self._client.execute_command(command, key, *words)
        assert self._waiter.reply() == 1

    def run_until(self, condition):
        """Runs rounds until the condition is true, but at least one."""

        def round_and_check():
            self.run_rounds()
            return condition()

        wait_for(round_and_check, 30, "the end of the traffic")


SLOW_SNAPSHOT = {"rdb_key_save_delay": 300}  # µs for each key, so that there is traffic during the snapshot

FULL_SYNCS = {
    "disk": {"repl_diskless_sync": "no"},
    "diskless": {"repl_diskless_sync": "yes"},
    "diskless, a second later": {"repl_diskless_sync": "yes", "repl_diskless_sync_delay": 1},
    "rdb channel": {"repl_diskless_sync": "yes", "channel": "yes"},
}


def configure_sync(server, channel="no", **config):
    names = ("repl-rdb-channel", "dual-channel-replication-enabled")
    known = [name for name in names if server.control.config_get(name)]
    config.update(dict.fromkeys(known, channel))
    for name, value in config.items():
        server.control.config_set(name.replace("_", "-"), value)


def attach(replica, master):
    replica.control.replicaof("127.0.0.1", master.port)


def is_attached(replica):
    return replica.info("replication")["master_link_status"] == "up"


def assert_same(master, replica):
    wait_for_sync(master, replica)
    assert replica.dump() == master.dump()


@pytest.mark.parametrize("how", FULL_SYNCS.values(), ids=FULL_SYNCS)
def test_first_replica_receives_all_changes(make_server, how):
    master, replica = make_server(**SLOW_SNAPSHOT), make_server()
    for server in (master, replica):
        configure_sync(server, **how)
    traffic = Traffic(master)
    traffic.run_rounds(100)
    attach(replica, master)
    traffic.run_until(lambda: master.info("persistence")["rdb_bgsave_in_progress"] or is_attached(replica))
    traffic.run_until(lambda: is_attached(replica))
    assert_same(master, replica)


def test_replica_that_attaches_during_a_save_receives_all_changes(make_server):
    master, replica = make_server(**SLOW_SNAPSHOT, repl_diskless_sync="no"), make_server()
    traffic = Traffic(master)
    traffic.run_rounds(100)
    master.control.bgsave()
    attach(replica, master)
    traffic.run_until(lambda: is_attached(replica))
    assert_same(master, replica)


def test_replica_that_attaches_after_all_left_receives_all_changes(make_server):
    master, replica = make_server(repl_backlog_ttl=1), make_server()
    traffic = Traffic(master)
    attach(replica, master)
    traffic.run_until(lambda: is_attached(replica))
    replica.control.replicaof("NO", "ONE")
    traffic.run_until(lambda: not master.info("replication")["repl_backlog_active"])
    # Any change of the configuration makes the module check again whether there are replicas.
    master.control.config_set("hz", 20)
    traffic.run_rounds(10)
    attach(replica, master)
    traffic.run_until(lambda: is_attached(replica))
    assert_same(master, replica)


def aof_is_complete(server):
    now = server.info("persistence")
    return not now["aof_rewrite_scheduled"] and not now["aof_rewrite_in_progress"]


@pytest.mark.parametrize("saving", [False, True], ids=["at rest", "during a save"])
def test_aof_that_is_switched_on_later_has_all_changes(make_server, saving):
    server = make_server(**SLOW_SNAPSHOT, appendfsync="always")
    traffic = Traffic(server)
    traffic.run_rounds(100)
    if saving:
        server.control.bgsave()
    server.control.config_set("appendonly", "yes")
    traffic.run_until(lambda: aof_is_complete(server))
    assert_survives_a_crash(server)


def test_aof_that_is_switched_off_and_on_has_all_changes(make_server):
    server = make_server(appendonly="yes", appendfsync="always")
    traffic = Traffic(server)
    for state in ("yes", "no", "yes"):
        server.control.config_set("appendonly", state)
        traffic.run_until(lambda: aof_is_complete(server))
    assert_survives_a_crash(server)


def test_replicas_of_a_promoted_replica_receive_all_changes(make_server):
    master, promoted, late = make_server(), make_server(), make_server()
    Traffic(master).run_rounds(5)
    attach(promoted, master)
    wait_for(lambda: is_attached(promoted), what="the replica")
    wait_for_sync(master, promoted)
    promoted.control.replicaof("NO", "ONE")
    promoted.control.flushall()
    traffic = Traffic(promoted)
    traffic.run_rounds(5)
    for replica in (late, master):
        attach(replica, promoted)
        traffic.run_until(lambda replica=replica: is_attached(replica))
    assert_same(promoted, late)
    assert_same(promoted, master)


def test_replica_that_was_disconnected_receives_all_changes(make_server):
    master = make_server(repl_timeout=3600)
    replica = master.start_replica()
    traffic = Traffic(master)
    os.kill(replica.pid, signal.SIGSTOP)
    master.control.execute_command("CLIENT", "KILL", "TYPE", "replica")
    traffic.run_rounds(5)
    os.kill(replica.pid, signal.SIGCONT)
    traffic.run_until(lambda: master.info("stats")["sync_partial_ok"] == 1)
    wait_for(lambda: is_attached(replica), what="the replica")
    assert_same(master, replica)
