"""Readers whose leases have expired do not count, however many they are, although their fields are still in the key.

The module removes 64 of them whenever it opens the lock; in these tests there are more, and readers that are alive.
"""

import pytest

from harness import scaled_ms, wait_for, wait_for_sync
from harness.schedule import as_map

LONG = 600_000
SHORT = scaled_ms(300)
DEAD = 300


def many(server, *commands):
    pipeline = server.control.pipeline(transaction=False)
    for words in commands:
        pipeline.execute_command(*words)
    return pipeline.execute()


@pytest.fixture
def dead(server):
    """dead(): the leases of `count` readers have expired, and those of `alive` have not. No command has run since."""

    def make(*alive, count=DEAD):
        for owner in alive:
            server.control.execute_command("LOCK.RWREAD", "k", owner, "PX", LONG)
        many(server, *(("LOCK.RWREAD", "k", f"d{number}", "PX", SHORT) for number in range(count)))
        server.let_pass(SHORT + 1)
        assert server.control.hlen("k") > count, "the module has opened the lock"

    return make


def ends(server):
    return server.info("lock")["lock_lease_ends"]


def test_live_reader_upgrades_without_a_wait(server, dead):
    before = ends(server)
    dead("a")
    assert server.control.execute_command("LOCK.RWWRITE", "k", "a", "PX", LONG) == 1
    assert server.control.hgetall("k") == {"mode": "write", "a": "1", "a:write": "1"}
    assert set(server.control.zrange("lock:lease:{k}", 0, -1)) == {"a", "a:write"}
    assert ends(server) - before == DEAD
    assert server.control.execute_command("LOCK.RELEASE", "k", "a", "WRITE") == 0
    assert server.control.execute_command("LOCK.RELEASE", "k", "a", "READ") == 0
    assert not server.dump()


# The module removes 64 at once: one more, one fewer, and multiples.
each_count = pytest.mark.parametrize("count", [63, 64, 65, 127, 128, 129, 192])


@each_count
def test_expired_readers_are_removed_and_live_readers_remain(server, dead, count):
    before = ends(server)
    dead("a", "b", count=count)
    assert server.control.execute_command("LOCK.RWWRITE", "k", "w") is None
    assert server.control.execute_command("LOCK.RELEASE", "k", "b") == 0
    assert server.control.execute_command("LOCK.RWWRITE", "k", "a", "PX", LONG) == 1
    assert server.control.hgetall("k") == {"mode": "write", "a": "1", "a:write": "1"}
    assert set(server.control.zrange("lock:lease:{k}", 0, -1)) == {"a", "a:write"}
    assert server.control.pttl("k") > LONG / 2
    assert ends(server) - before == count


@each_count
def test_release_of_the_last_live_reader_removes_expired_readers(server, dead, count):
    dead("a", count=count)
    assert server.control.execute_command("LOCK.RELEASE", "k", "a") == 0
    assert not server.dump()


def test_lock_is_free_when_the_last_live_reader_releases_it(server, dead):
    dead("a")
    assert server.control.execute_command("LOCK.RELEASE", "k", "a") == 0
    assert not server.dump()


def test_lock_is_free_when_the_session_of_the_last_live_reader_ends(server, dead, actor):
    server.control.config_set("lock.session-grace", 0)
    a = actor("a")
    assert a.call("LOCK.RWREAD", "k", "a", "SESSION") == 1
    dead()
    a.close()
    wait_for(lambda: not server.dump(), 10, "the lock to be free")


def test_writer_waits_for_live_readers_only(server, dead, actor):
    dead("a", "b")
    writer = actor("w")
    writer.send("LOCK.RWWRITE", "k", "w", "PX", LONG, "BLOCK", 0)
    writer.wait_blocked()
    assert server.control.execute_command("LOCK.RELEASE", "k", "a") == 0
    assert writer.is_blocked()
    assert server.control.execute_command("LOCK.RELEASE", "k", "b") == 0
    assert writer.reply() == 1
    assert server.control.hgetall("k") == {"mode": "write", "w:write": "1"}


def test_live_reader_keeps_a_writer_out_and_reading_is_granted(server, dead):
    dead("a")
    assert server.control.execute_command("LOCK.RWWRITE", "k", "w") is None
    assert server.control.execute_command("LOCK.RWREAD", "k", "b", "PX", LONG) == 1
    holders = as_map(server.control.execute_command("LOCK.INFO", "k"))["holders"]
    assert {as_map(holder)["owner"] for holder in holders} == {"a", "b"}


@pytest.mark.parametrize("words", [("LOCK.RELEASE", "k", "d299"), ("LOCK.RENEW", "k", "d299", "PX", LONG)])
def test_expired_readers_hold_nothing(server, dead, words):
    dead("a")
    with pytest.raises(Exception, match="^NOTHELD "):
        server.control.execute_command(*words)
    assert server.control.execute_command("LOCK.GUARD", "k", "a", "SET", "x", "1") in (True, "OK")
    with pytest.raises(Exception, match="^NOTHELD "):
        server.control.execute_command("LOCK.GUARD", "k", "d298", "SET", "x", "2")


def test_expired_reader_that_reads_again_has_one_hold(server, dead):
    dead("a")
    assert server.control.execute_command("LOCK.RWREAD", "k", "d299", "PX", LONG) == 1


def test_expired_readers_are_removed_while_a_client_waits(server, dead, actor):
    dead("a")
    writer = actor("w")
    writer.send("LOCK.RWWRITE", "k", "w", "PX", LONG, "BLOCK", 0)
    writer.wait_blocked()
    wait_for(lambda: server.control.hgetall("k") == {"mode": "read", "a": "1"}, 10, "the expired readers to be removed")
    assert server.control.zrange("lock:lease:{k}", 0, -1) == ["a"]
    assert server.control.execute_command("LOCK.RELEASE", "k", "a") == 0
    assert writer.reply() == 1


def test_release_of_the_last_live_reader_hands_off_to_a_plain_waiter(server, actor):
    """While clients are paused no expired reader is removed; after the pause the release runs first."""
    a, other, soon = actor("a"), actor("other"), 10 * SHORT
    assert a.call("LOCK.RWREAD", "k", "a", "PX", LONG) == 1
    many(server, *(("LOCK.RWREAD", "k", f"d{number}", "PX", soon) for number in range(DEAD)))
    other.send("LOCK.ACQUIRE", "k", "o", "PX", LONG, "BLOCK", 0)
    other.wait_blocked()
    server.control.execute_command("CLIENT", "PAUSE", LONG, "WRITE")
    a.send("LOCK.RELEASE", "k", "a")
    a.wait_blocked()
    server.let_pass(soon + 1)
    assert server.control.hlen("k") > DEAD, "the module has opened the lock"
    server.control.execute_command("CLIENT", "UNPAUSE")
    assert a.reply() == 0
    assert other.reply() == 1
    assert server.control.hgetall("k") == {"o": "1"}


def test_replica_has_the_same_data(make_server):
    server = make_server()
    replica = server.start_replica()
    server.control.execute_command("LOCK.RWREAD", "k", "a", "PX", LONG)
    many(server, *(("LOCK.RWREAD", "k", f"d{number}", "PX", SHORT) for number in range(DEAD)))
    server.let_pass(SHORT + 1)
    for words in (("RWREAD", "k", "b", "PX", LONG), ("RELEASE", "k", "b"), ("RWWRITE", "k", "a", "PX", LONG)):
        server.control.execute_command("LOCK." + words[0], *words[1:])
        wait_for_sync(server, replica)
        assert replica.dump() == server.dump()
