"""A command that acquires or frees a due lock does the pending work of that lock.

An outside event marks a lock as due, and the drain processes it a moment later. In these tests the next command is in
the same packet, so it runs before the drain.
"""

import time

import pytest

from harness import scaled, scaled_ms, wait_for
from model.waiting_scene import assert_handed_off

LONG = 600_000
SHORT = scaled_ms(100)


@pytest.fixture
def waits(server):
    """waits("LOCK.RWREAD k o"): an actor that waits."""

    def wait(command):
        actor = server.actor()
        actor.send(*command.split(), "PX", LONG, "BLOCK", 0)
        return actor.wait_blocked()

    return wait


def test_waiter_joins_a_reader_granted_before_dead_writer_is_pruned(server, waits, at_once):
    server.control.execute_command("LOCK.RWREAD", "k", "h")
    writer, reader = waits("LOCK.RWWRITE k w"), waits("LOCK.RWREAD k r")
    assert at_once(f"CLIENT KILL ID {writer.client_id}", "LOCK.RWREAD k o") == [1, 1]
    assert reader.reply() == 1


@pytest.mark.parametrize("loss", ["DEL k", "FLUSHALL", "RENAME k l"])
def test_waiter_joins_a_reader_granted_before_lock_loss_is_noticed(server, waits, at_once, loss):
    server.control.execute_command("LOCK.RWWRITE", "k", "w")
    reader = waits("LOCK.RWREAD k r")
    assert at_once(loss, "LOCK.RWREAD k o")[1] == 1
    assert reader.reply() == 1


def test_reader_is_granted_when_the_reserved_position_before_it_ends(server, waits):
    """No race: o acquires a read hold ahead of its own reserved position, which ends then."""
    server.control.config_set("lock.fair-reserve", LONG)
    server.control.execute_command("LOCK.ACQUIRE", "k", "x")
    waits("LOCK.FAIR k o").kill_socket()
    wait_for(lambda: server.info("lock")["lock_waiters"] == 0, what="the position to have no client")
    server.control.execute_command("LOCK.RELEASE", "k", "x")
    reader = waits("LOCK.RWREAD k r")
    assert server.control.execute_command("LOCK.RWREAD", "k", "o") == 1
    assert reader.reply() == 1


def test_positions_are_rewritten_by_the_first_grant_after_a_flush(server, waits, at_once):
    server.control.config_set("lock.fair-reserve", LONG)
    server.control.execute_command("LOCK.FAIR", "k", "x")
    first = waits("LOCK.FAIR k a")
    # In a transaction: otherwise newer servers flush in the background and run other commands meanwhile.
    assert at_once("MULTI", "FLUSHALL", "LOCK.ACQUIRE k z", "EXEC")[-1][1] == 1
    assert server.control.zrange("lock:queue:{k}", 0, -1) == ["a"]
    waits("LOCK.FAIR k b").kill_socket()
    wait_for(lambda: server.info("lock")["lock_waiters"] == 1, what="the second position to have no client")
    server.settle()
    assert server.control.zrange("lock:queue:{k}", 0, -1) == ["a", "b"]
    assert first.is_blocked()


def test_owner_that_was_written_directly_reenters_at_the_next_release(server, waits, at_once):
    server.control.execute_command("LOCK.RWREAD", "k", "x")
    first, second = waits("LOCK.RWWRITE k a"), waits("LOCK.RWWRITE k b")
    assert at_once("HSET k b 1", "LOCK.RELEASE k x") == [1, 0]
    assert second.reply() == 1
    assert first.is_blocked()


def test_waiting_owner_that_a_swap_makes_the_holder_reenters(server, waits):
    server.client(db=1).execute_command("LOCK.ACQUIRE", "k", "b")
    server.control.execute_command("LOCK.ACQUIRE", "k", "x")
    first, second = waits("LOCK.ACQUIRE k a"), waits("LOCK.ACQUIRE k b")
    server.control.swapdb(0, 1)
    assert second.reply() == 2
    assert first.is_blocked()


@pytest.mark.parametrize("session", [True, False])
def test_session_that_ends_hands_off_to_another_wait_of_its_owner(server, session):
    """The wait is on another connection, which may bind the hold to its own session."""
    server.control.config_set("lock.session-grace", SHORT)
    server.control.config_set("lock.default-lease", 3 * SHORT)
    server.control.execute_command("LOCK.ACQUIRE", "j", "x", "PX", LONG)
    other, closes = server.actor(), server.actor()
    bind = ["SESSION"] if session else ["PX", LONG]
    other.send("LOCK.MACQUIRE", 2, "k", "j", "o", *bind, "BLOCK", 0)
    other.wait_blocked()
    closes.call("LOCK.RWREAD", "k", "o", "SESSION")
    server.control.execute_command("LOCK.RELEASE", "j", "x")
    closes.kill_socket()
    assert other.reply() == 2
    server.let_pass(9 * SHORT)
    assert server.control.hgetall("k") == server.control.hgetall("j") == {"o": "1"}
    assert server.info("lock")["lock_sessions"] == (2 if session else 0)


def test_locks_that_share_their_side_keys_are_released_together(server):
    acquire, release = (server.control.execute_command for _ in range(2))
    for name in ("a", "{a}"):
        assert acquire("LOCK.RWREAD", name, "o") == 1
    assert acquire("LOCK.MACQUIRE", 2, "a", "{a}", "p") is None
    assert release("LOCK.MRELEASE", 2, "a", "{a}", "o") == 2
    assert server.control.keys() == []


@pytest.mark.parametrize("command", ["LOCK.ACQUIRE", "LOCK.RWWRITE"])
def test_longest_lease_does_not_overflow_when_granted_later(make_server, command):
    """The lease would overflow if it were added to the time of the grant."""
    server = make_server(appendonly="yes")
    server.control.execute_command("LOCK.RWREAD" if "RW" in command else "LOCK.ACQUIRE", "k", "x")
    waiter = server.actor()
    waiter.send(command, "k", "o", "PX", 2**63 - 1 - server.now_ms() - 50, "BLOCK", 0)
    waiter.wait_blocked()
    server.let_pass(200)
    server.control.execute_command("LOCK.RELEASE", "k", "x")
    assert waiter.reply() == 1
    assert server.control.pttl("k") > 2**62
    before = server.dump()
    server.restart()
    assert server.dump() == before


def test_owner_on_hundreds_of_connections_is_one_owner_to_the_search(server):
    server.control.execute_command("LOCK.ACQUIRE", "k", "x")
    for owner in ["o"] * 300 + ["p"]:
        server.actor().send("LOCK.ACQUIRE", "k", owner, "BLOCK", 0)
    wait_for(lambda: server.info("lock")["lock_waiters"] == 301, what="all to wait")
    assert server.info("lock")["lock_deadlock_searches_cut"] == 0


def test_key_of_another_type_does_not_delay_locks_due_after_it(server, waits, at_once):
    for key in "klm":
        server.control.execute_command("LOCK.ACQUIRE", key, "x")
    first, *others = (waits(f"LOCK.ACQUIRE {key} o") for key in "klm")
    at_once("MULTI", "DEL k", "SET k v", "DEL l", "DEL m", "EXEC")
    assert [waiter.reply() for waiter in others] == [1, 1]
    assert first.is_blocked()
    server.control.delete("k")
    assert first.reply() == 1


def test_lock_that_is_due_while_writes_are_refused_is_handed_off_later(server, waits, at_once):
    """The drain checks again and again whether writes are accepted."""
    server.control.execute_command("LOCK.ACQUIRE", "k", "x")
    waiter = waits("LOCK.ACQUIRE k o")
    server.all_searched()
    at_once("DEL k", "CONFIG SET min-replicas-to-write 1")
    server.let_pass(scaled_ms(500))
    assert waiter.is_blocked() and not waiter.has_reply()
    server.control.config_set("min-replicas-to-write", 0)
    assert waiter.reply() == 1


def test_lock_deleted_just_before_the_server_sleeps_is_handed_off_at_once(make_server):
    """By a command behind one that has blocked. Redis 7.0 may already have decided to sleep for a second."""
    server, took = make_server(hz=1), []
    deletes, waiter = server.actor(), server.actor()
    for _ in range(7):
        server.control.execute_command("LOCK.ACQUIRE", "k", "x")
        waiter.send("LOCK.ACQUIRE", "k", "o", "BLOCK", 0)
        waiter.wait_blocked()
        server.all_searched()
        deletes.send("BLPOP", "list", 0)
        deletes.wait_blocked()
        deletes.send("DEL", "k")
        began = time.monotonic()
        server.control.lpush("list", "x")
        assert waiter.reply() == 1
        took.append(time.monotonic() - began)
        assert [deletes.reply(), deletes.reply()] == [["list", "x"], 1]
        assert waiter.call("LOCK.RELEASE", "k", "o") == 0
    assert min(took) < scaled(0.3), took


@pytest.mark.parametrize("field", [":write", "", "mode:write"])
def test_waiting_for_a_foreign_hash_does_not_change_it(server, actor, field):
    """The module checks whether the server accepts a write with a write that must not change any value."""
    content = {field: "1", "other": "2"}
    server.control.hset("h", mapping=content)
    waiter = actor()
    waiter.send("LOCK.ACQUIRE", "h", "o", "BLOCK", 0)
    waiter.wait_blocked()

    server.control.hset("h", "other", "3")  # makes the lock due
    assert_handed_off(server, actor)  # by the drain, which has checked for the other lock before
    assert server.control.hgetall("h") == {**content, "other": "3"}
    server.control.delete("h")
    assert waiter.reply() == 1
