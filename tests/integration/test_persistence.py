"""What a lock command changes reaches replicas, AOF and RDB, as plain commands with absolute times.

What each command is comes from the table in test_multi_lua.py.
"""

import io
import os
import re
import signal
from functools import cache
from itertools import count

import pytest

from harness import scaled_ms, wait_for, wait_for_sync
from test_acquire import HOUR, end_of
from test_multi_lua import MUTATIONS, TAKE, WAIT, each_mutation, in_lua, in_multi

DB = 3  # not the one that clients begin in


def aof_of(server):
    """What its AOF holds behind the base: the increments that the manifest names, in order."""
    folder = server.folder / "appendonlydir"
    manifest = (folder / "appendonly.aof.manifest").read_text()
    names = re.findall(r"^file (\S+) seq \d+ type i", manifest, re.M)
    return b"".join((folder / name).read_bytes() for name in names)


def commands_in(stream):
    """The commands in a stream of RESP, as lists of texts, without SELECT."""
    lines, commands = io.BytesIO(stream), []
    while head := lines.readline():
        lengths_and_words = (lines.read(int(lines.readline()[1:]) + 2)[:-2] for _ in range(int(head[1:])))
        commands.append([word.decode() for word in lengths_and_words])
    return [words for words in commands if words[0] != "SELECT"]


REWRITTEN = "Background AOF rewrite finished successfully"


def rewrite_aof(server):
    rewrites = server.log().count(REWRITTEN)
    server.control.bgrewriteaof()
    wait_for(lambda: server.log().count(REWRITTEN) > rewrites, what="the AOF to be rewritten")


# Replicas


@cache
def replicas_of(server):
    """A replica of the file's server, and a replica of that one."""
    replica = server.start_replica()
    return replica, replica.start_replica()


@pytest.fixture
def chain(server):
    """A master, its replica, and that one's replica; the master is `server`."""
    return server, *replicas_of(server)


def assert_in_step(chain):
    master, replica, sub = chain
    wait_for_sync(master, replica)
    wait_for_sync(replica, sub)
    assert replica.dump() == master.dump()
    assert sub.dump() == master.dump()


@each_mutation
def test_replicas_hold_the_same(chain, server, mutation):
    mutation.perform(server, DB)
    assert_in_step(chain)


@pytest.mark.parametrize("say", [in_multi, in_lua])
@each_mutation
def test_replicas_hold_the_same_after_multi_and_lua(chain, server, actor, say, mutation):
    waiter = mutation.arrange(server)
    assert say(actor(), "SET before 1", mutation.says, "SET behind 1") == ["OK", mutation.hears, "OK"]
    mutation.has_answered(waiter)
    assert_in_step(chain)


@pytest.mark.parametrize("cause", ["lease end", "DEL k", "FLUSHDB", "EXPIRE k 0", "RENAME k l"])
def test_replicas_hold_the_same_after_a_grant_by_the_drain(chain, server, actor, cause):
    client = server.client(db=DB)
    client.execute_command("LOCK.ACQUIRE", "k", "o", "PX", scaled_ms(300) if cause == "lease end" else HOUR)
    dead, waiter = actor("dead", db=DB), actor("waiter", db=DB)
    dead.send(*WAIT.replace("w", "dead").split())
    dead.wait_blocked()
    waiter.send(*WAIT.split())
    waiter.wait_blocked()
    dead.kill_socket()
    if cause != "lease end":
        client.execute_command(*cause.split())
    assert waiter.reply() == 1
    assert_in_step(chain)
    assert server.client(db=DB).hgetall("k") == {"w": "1"}


def test_replicas_hold_the_same_when_a_lease_has_ended(chain, server):
    # Nobody deletes the key meanwhile: the command itself finds it expired.
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    server.control.execute_command("LOCK.ACQUIRE", "k", "o", "PX", scaled_ms(30))
    end = end_of(server.control)
    wait_for(lambda: server.now_ms() > end, what="the lease to end")
    server.control.execute_command("LOCK.ACQUIRE", "k", "other", "PX", HOUR)
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 1)
    assert_in_step(chain)
    assert server.control.hgetall("k") == {"other": "1"}


# AOF and RDB: every mutation in one server, in a database of its own


def perform_all(server):
    for db, mutation in enumerate(MUTATIONS.values()):
        mutation.perform(server, db)


def held(server):
    """What the server holds, by the name of the mutation that left it."""
    return {(list(MUTATIONS)[db], key): entry for (db, key), entry in server.dump().items()}


@pytest.fixture
def make_large_server(make_server):
    """make_server for servers with a database for each mutation."""
    return lambda **config: make_server(databases=len(MUTATIONS), **config)


@pytest.mark.parametrize("preamble", ["no", "yes"], ids=["plain base", "RDB base"])
def test_aof_brings_all_back_after_a_crash(make_large_server, preamble):
    server = make_large_server(appendonly="yes", appendfsync="always", aof_use_rdb_preamble=preamble)
    perform_all(server)
    before = held(server)
    server.kill()
    server.start()
    assert held(server) == before
    server.control.bgrewriteaof()
    done = "Background AOF rewrite finished successfully"
    wait_for(lambda: done in server.log(), what="the AOF to be rewritten")
    assert held(server) == before
    server.kill()
    server.start()
    assert held(server) == before


def test_rdb_brings_all_back(make_large_server):
    server = make_large_server()
    perform_all(server)
    before = held(server)
    server.control.execute_command("DEBUG", "RELOAD")
    assert held(server) == before
    server.restart(save=True)
    assert held(server) == before


def test_server_without_the_module_understands_the_aof(make_large_server):
    server, plain = make_large_server(appendonly="yes"), make_large_server(load_module=False)
    perform_all(server)
    # The base is that of an empty server.
    stream = aof_of(server)
    assert b"LOCK." not in stream.upper()
    feed = plain.raw_connection()
    feed.sendall(stream + b"ECHO end\r\n")
    answers = list(iter(feed.makefile("rb").readline, b"end\r\n"))
    assert [answer for answer in answers if answer.startswith(b"-")] == []
    assert held(plain) == held(server)


# What is written

RENEWED = ["PEXPIREAT", "k", "END"]
GRANTED = [["HSET", "k", "w", "1"], RENEWED]
RENEWED_L = ["PEXPIREAT", "l", "END"]  # the same end
GRANTED_L = [["HSET", "l", "w", "1"], RENEWED_L]
WRITTEN = {
    "acquire": [["MULTI"], ["HSET", "k", "o", "1"], RENEWED, ["EXEC"]],
    "acquire again": [["MULTI"], ["HSET", "k", "o", "2"], RENEWED, ["EXEC"]],
    "acquire again, shorter": [["HSET", "k", "o", "2"]],
    "release": [["DEL", "k"]],
    "release one of two": [["HSET", "k", "o", "1"]],
    "release, hand on": [["MULTI"], ["DEL", "k"], *GRANTED, ["EXEC"]],
    "renew, shorter": [RENEWED],
    "force": [["DEL", "k"]],
    "force, hand on": [["MULTI"], ["DEL", "k"], *GRANTED, ["EXEC"]],
    "cancel": [],
    "several": [["MULTI"], ["HSET", "k", "o", "1"], RENEWED, ["HSET", "l", "o", "1"], RENEWED_L, ["EXEC"]],
    "release several": [["MULTI"], ["DEL", "k"], ["DEL", "l"], ["EXEC"]],
    "release several, hand on": [["MULTI"], ["DEL", "k"], ["DEL", "l"], *GRANTED, *GRANTED_L, ["EXEC"]],
    "cancel, several": [],
}


@pytest.mark.parametrize("interop", ["no", "yes"], ids=["", "redisson"])
def test_plain_commands_in_one_transaction(make_large_server, interop):
    # What is published for Redisson is not for the AOF.
    server = make_large_server(appendonly="yes", lock_redisson_interop=interop)
    written = {}
    for db, name in enumerate(WRITTEN):
        waiter = MUTATIONS[name].arrange(server, db)
        client, start = server.client(db=db), len(aof_of(server))
        client.execute_command(*MUTATIONS[name].says.split())
        MUTATIONS[name].has_answered(waiter)
        end = str(end_of(client))
        commands = commands_in(aof_of(server)[start:])
        written[name] = [["END" if word == end else word for word in words] for words in commands]
    assert written == WRITTEN


def test_one_script_that_hands_on_twice_is_one_transaction(make_server):
    server = make_server(appendonly="yes")
    client, waiter = server.actor(), MUTATIONS["release, hand on"].arrange(server)
    start = len(aof_of(server))
    in_lua(client, "LOCK.RELEASE k o", "LOCK.FORCE k")
    assert waiter.reply() == 1
    commands = [words[0] for words in commands_in(aof_of(server)[start:])]
    assert commands == ["MULTI", "DEL", "HSET", "PEXPIREAT", "DEL", "EXEC"]


@pytest.mark.parametrize("listeners", ["replica", "AOF", "nobody"])
def test_save_points_count_the_change(make_large_server, listeners):
    server = make_large_server(appendonly="yes" if listeners == "AOF" else "no")
    if listeners == "replica":
        server.start_replica(databases=len(MUTATIONS))

    def changes():
        return server.info("persistence")["rdb_changes_since_last_save"]

    counted = {}
    for db, (name, mutation) in enumerate(MUTATIONS.items()):
        waiter, client = mutation.arrange(server, db), server.client(db=db)
        before = changes()
        client.execute_command(*mutation.says.split())
        mutation.has_answered(waiter)
        counted[name] = changes() > before
    assert counted == {name: m.changes_key or m.changes_queue for name, m in MUTATIONS.items()}


# Whoever begins to listen later


def assert_survives_a_crash(server):
    """What the server holds now is there again after SIGKILL and a start from the AOF."""
    before = server.dump()
    server.kill()
    server.start(appendonly="yes")
    assert server.dump() == before


class Traffic:
    """Lock commands one after the other, each on a key of its own, so that none can be lost unseen."""

    def __init__(self, server):
        self._client, self._waiter = server.client(db=DB), server.actor("waiter", db=DB)
        self._numbers = count()

    def go_on(self, rounds=1):
        for _ in range(rounds):
            self._round(f"{next(self._numbers)}:")

    def _round(self, prefix):
        say = self._client.execute_command
        for name in ("taken", "twice", "twice", "renewed", "released", "forced", "handed", "drained"):
            say("LOCK.ACQUIRE", prefix + name, "o", "PX", HOUR)
        say("LOCK.RENEW", prefix + "renewed", "o", "PX", 2 * HOUR)
        say("LOCK.RELEASE", prefix + "released", "o")
        say("LOCK.FORCE", prefix + "forced")
        self._hand_on(prefix + "handed", "LOCK.RELEASE", "o")
        self._hand_on(prefix + "drained", "DEL")

    def _hand_on(self, key, command, *words):
        self._waiter.send("LOCK.ACQUIRE", key, "w", "PX", HOUR, "BLOCK", 0)
        self._waiter.wait_blocked()
        self._client.execute_command(command, key, *words)
        assert self._waiter.reply() == 1

    def go_on_until(self, condition):
        """Rounds until it is so, but at least one."""

        def so():
            self.go_on()
            return condition()

        wait_for(so, 30, "the end of the traffic")


SLOW_SNAPSHOT = {"rdb_key_save_delay": 300}  # µs a key, so that there is traffic meanwhile

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
def test_first_replica_gets_all(make_server, how):
    master, replica = make_server(**SLOW_SNAPSHOT), make_server()
    for server in (master, replica):
        configure_sync(server, **how)
    traffic = Traffic(master)
    traffic.go_on(100)
    attach(replica, master)
    traffic.go_on_until(lambda: master.info("persistence")["rdb_bgsave_in_progress"])
    traffic.go_on_until(lambda: is_attached(replica))
    assert_same(master, replica)


def test_replica_that_comes_during_a_save_gets_all(make_server):
    master, replica = make_server(**SLOW_SNAPSHOT, repl_diskless_sync="no"), make_server()
    traffic = Traffic(master)
    traffic.go_on(100)
    master.control.bgsave()
    attach(replica, master)
    traffic.go_on_until(lambda: is_attached(replica))
    assert_same(master, replica)


def test_replica_that_comes_when_all_had_left_gets_all(make_server):
    master, replica = make_server(repl_backlog_ttl=1), make_server()
    traffic = Traffic(master)
    attach(replica, master)
    traffic.go_on_until(lambda: is_attached(replica))
    replica.control.replicaof("NO", "ONE")
    traffic.go_on_until(lambda: not master.info("replication")["repl_backlog_active"])
    # Any change of the configuration makes the module ask again who listens.
    master.control.config_set("hz", 20)
    traffic.go_on(10)
    attach(replica, master)
    traffic.go_on_until(lambda: is_attached(replica))
    assert_same(master, replica)


def aof_is_complete(server):
    now = server.info("persistence")
    return not now["aof_rewrite_scheduled"] and not now["aof_rewrite_in_progress"]


@pytest.mark.parametrize("saving", [False, True], ids=["at rest", "during a save"])
def test_aof_switched_on_later_gets_all(make_server, saving):
    server = make_server(**SLOW_SNAPSHOT, appendfsync="always")
    traffic = Traffic(server)
    traffic.go_on(100)
    if saving:
        server.control.bgsave()
    server.control.config_set("appendonly", "yes")
    traffic.go_on_until(lambda: aof_is_complete(server))
    assert_survives_a_crash(server)


def test_aof_switched_off_and_on_gets_all(make_server):
    server = make_server(appendonly="yes", appendfsync="always")
    traffic = Traffic(server)
    for state in ("yes", "no", "yes"):
        server.control.config_set("appendonly", state)
        traffic.go_on_until(lambda: aof_is_complete(server))
    assert_survives_a_crash(server)


def test_promoted_replica_has_replicas(make_server):
    master, promoted, late = make_server(), make_server(), make_server()
    Traffic(master).go_on(5)
    attach(promoted, master)
    wait_for(lambda: is_attached(promoted), what="the replica")
    wait_for_sync(master, promoted)
    promoted.control.replicaof("NO", "ONE")
    promoted.control.flushall()
    traffic = Traffic(promoted)
    traffic.go_on(5)
    for replica in (late, master):
        attach(replica, promoted)
        traffic.go_on_until(lambda replica=replica: is_attached(replica))
    assert_same(promoted, late)
    assert_same(promoted, master)


def test_replica_that_was_away_catches_up(make_server):
    master = make_server(repl_timeout=3600)
    replica = master.start_replica()
    traffic = Traffic(master)
    os.kill(replica.pid, signal.SIGSTOP)
    master.control.execute_command("CLIENT", "KILL", "TYPE", "replica")
    traffic.go_on(5)
    os.kill(replica.pid, signal.SIGCONT)
    traffic.go_on_until(lambda: master.info("stats")["sync_partial_ok"] == 1)
    wait_for(lambda: is_attached(replica), what="the replica")
    assert_same(master, replica)
