"""LOCK.WATCH that does not block: what it replies and refuses, and that it changes nothing."""

import pytest

from harness import code_of, scaled_ms
from harness.schedule import as_map
from model.bad_arguments import OTHER_TYPES
from model.lock_scene import FOREIGN
from model.mutations import each_way
from model.watch_scene import HOLDS, HOUR, Scene, watchers, watches

WATCH = ("LOCK.WATCH", "k", "o")
each_hold = pytest.mark.parametrize("hold", HOLDS.values(), ids=HOLDS)


@each_hold
def test_reply_is_lost_or_null_by_the_hold(server, resp, actor, hold):
    client = actor()
    assert client.call(*WATCH) == client.call(*WATCH, "WANTED") == client.call(*WATCH, "BLOCK", 0) == "LOST"
    assert client.call(*hold.format(HOUR=HOUR).split()) in (1, 2)
    assert client.call(*WATCH) is None
    assert client.call(*WATCH, "wanted") is None
    assert client.call("LOCK.WATCH", "k", "other", "WANTED", "BLOCK", 0) == "LOST"
    assert client.call("LOCK.FORCE", "k") == 1
    assert client.call(*WATCH) == "LOST"


def test_reply_is_wanted_while_another_owner_waits(server, resp, actor):
    client, waiter = actor(), actor()
    client.call("LOCK.ACQUIRE", "k", "o")
    waiter.send("LOCK.ACQUIRE", "k", "p", "BLOCK", 0)
    waiter.wait_blocked()
    assert client.call(*WATCH) is None
    assert client.call(*WATCH, "WANTED") == client.call(*WATCH, "BLOCK", 0, "WANTED") == "WANTED"
    assert client.call("LOCK.WATCH", "k", "p", "WANTED") == "LOST"
    client.call("LOCK.RELEASE", "k", "o")
    assert waiter.reply() == 1
    assert client.call(*WATCH, "WANTED") == "LOST"
    assert client.call("LOCK.WATCH", "k", "p", "WANTED") is None


def test_reply_is_lost_only_when_no_hold_is_left(server, actor):
    client = actor()
    for command in ("LOCK.RWWRITE k o", "LOCK.RWREAD k o", "LOCK.RWREAD k o"):
        client.call(*command.split())
    for mode in ("WRITE", "READ"):
        client.call("LOCK.RELEASE", "k", "o", mode)
        assert client.call(*WATCH) is None
    client.call("LOCK.RELEASE", "k", "o")
    assert client.call(*WATCH) == "LOST"


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_foreign_hash_is_lost(server, some_client, content):
    some_client.hset("k", mapping=content)
    assert some_client.execute_command(*WATCH, "BLOCK", 0) == "LOST"


@pytest.mark.parametrize("content", OTHER_TYPES.values(), ids=OTHER_TYPES)
def test_key_of_another_type_is_refused(server, some_resp, actor, content):
    server.control.execute_command(*content.split())
    assert code_of(actor().attempt(*WATCH, "BLOCK", 0)) == "WRONGTYPE"
    assert watchers(server) == 0


@pytest.mark.parametrize("words", [
    "WANTED WANTED", "BLOCK", "BLOCK 1 BLOCK 1", "PX 1", "READ", "SESSION", "more", "WANTED 1", "COUNT 1",
])  # fmt: skip
def test_bad_syntax_is_refused(server, resp, actor, words):
    server.control.execute_command("LOCK.ACQUIRE", "k", "o")
    before = server.dump()
    assert str(actor().attempt(*WATCH, *words.split())) == "ERR syntax error"
    assert (server.dump(), watchers(server)) == (before, 0)


@pytest.mark.parametrize("hold", [HOLDS["plain"], HOLDS["read"]])
@pytest.mark.parametrize("words", [(), ("WANTED",), ("BLOCK", 1)])
def test_watching_changes_nothing(server, actor, hold, words):
    client = actor()
    client.call(*hold.format(HOUR=HOUR).split())
    client.call("WATCH", "k")
    before = server.dump()
    assert server.actor().call(*WATCH, *words) is None
    assert server.dump() == before
    client.call("MULTI")
    client.call("PING")
    assert client.call("EXEC") == ["PONG"]


@each_way
def test_watch_does_not_block_in_multi_and_lua(server, some_resp, actor, say):
    replies = say(actor(), "LOCK.WATCH k o BLOCK 0", "LOCK.ACQUIRE k o", "LOCK.WATCH k o WANTED BLOCK 0")
    # Lua converts a status reply to a table; a client receives it as a status again.
    assert [str(replies[0]).removeprefix("{'ok': '").removesuffix("'}"), *replies[1:]] == ["LOST", 1, None]
    assert watchers(server) == 0


def test_replica_replies_by_its_keys_and_does_not_block(make_server):
    """The reply depends on the keys of the replica only."""
    master = make_server()
    replica = master.start_replica()
    master.control.execute_command("LOCK.ACQUIRE", "k", "o", "PX", HOUR)
    master.control.execute_command("LOCK.RWREAD", "r", "o", "PX", HOUR)
    waiter = master.actor()
    waiter.send("LOCK.ACQUIRE", "k", "p", "BLOCK", 0)
    waiter.wait_blocked()
    master.control.execute_command("WAIT", 1, 0)
    client = replica.actor()
    for key in ("k", "r"):
        assert client.call("LOCK.WATCH", key, "o", "WANTED", "BLOCK", 0) is None
        assert client.call("LOCK.WATCH", key, "p", "BLOCK", 0) == "LOST"


def test_info_counts_the_watches_of_the_lock(server, actor):
    scene = Scene(server)
    other = watches(server, "o", "WANTED")
    scene.do("LOCK.ACQUIRE l o")
    watches(server, key="l")
    client = actor()
    assert as_map(client.call("LOCK.INFO", "k"))["watchers"] == 3
    assert as_map(client.call("LOCK.INFO", "l"))["watchers"] == 1
    info = server.info("lock")
    assert (info["lock_watchers"], info["lock_waiters"], info["lock_contended_locks"]) == (4, 0, 0)
    other.close()
    scene.do("LOCK.FORCE k")
    assert [watcher.reply() for watcher in scene.waiters] == ["LOST", "LOST"]
    assert server.info("lock")["lock_watchers"] == 1


def test_watch_times_out(server, resp, actor):
    client = actor()
    client.call("LOCK.ACQUIRE", "k", "o")
    assert client.call(*WATCH, "BLOCK", scaled_ms(20)) is None
    assert watchers(server) == 0


def test_watch_works_without_memory_and_while_writes_are_refused(server, actor):
    client = actor()
    client.call("LOCK.ACQUIRE", "k", "o")
    server.control.config_set("min-replicas-to-write", 1)
    assert client.call(*WATCH) is None
    server.control.config_set("min-replicas-to-write", 0)
    server.control.config_set("maxmemory", 1)
    assert client.call(*WATCH) is None


def test_watch_above_max_waiters_is_refused(server, actor):
    server.control.config_set("lock.max-waiters", 2)
    Scene(server)
    assert str(actor().attempt(*WATCH, "BLOCK", 0)) == "ERR too many waiters, see lock.max-waiters"
    assert str(actor().attempt("LOCK.ACQUIRE", "k", "p", "BLOCK", 0)) == "ERR too many waiters, see lock.max-waiters"
    assert actor().call(*WATCH) is None
