"""LOCK.TOP: the locks that were waited for the most, for requests of every kind and every end of a wait."""

import time

import pytest

from harness import wait_for
from model.gone_scene import can_unblock

MOMENT = 50  # ms, at least
MOMENT_US = MOMENT * 1000
KINDS = {
    "plain": ("LOCK.ACQUIRE", "k", "{}"),
    "fair": ("LOCK.FAIR", "k", "{}"),
    "reader": ("LOCK.RWREAD", "k", "{}"),
    "writer": ("LOCK.RWWRITE", "k", "{}"),
    "semaphore": ("LOCK.SEMAPHORE", "k", "{}", 1),
    "multi-key": ("LOCK.MACQUIRE", 1, "k", "{}"),
    "multi-key reader": ("LOCK.MACQUIRE", 1, "k", "{}", "MODES", "READ"),
}
HOLDERS = {"reader": KINDS["writer"], "multi-key reader": KINDS["writer"], "writer": KINDS["reader"], "semaphore": KINDS["semaphore"]}


def request(words, owner, *more):
    return [str(word).format(owner) for word in words] + list(more)


def top(server, *words):
    return server.client(protocol=3).execute_command("LOCK.TOP", *words)


def only(server):
    (found,) = top(server)
    return found


def held_with_waiter(server, kind):
    """Two clients: one holds the lock, the other has waited for it for a moment."""
    holder, waiter = server.actor("h"), server.actor("w")
    holder.call(*request(HOLDERS.get(kind, KINDS["plain"]), "h", "PX", "3600000"))
    waiter.send(*request(KINDS[kind], "w", "PX", "3600000", "BLOCK", "0"))
    waiter.wait_blocked()
    server.let_pass(MOMENT)
    return holder, waiter


each_kind = pytest.mark.parametrize("kind", KINDS)


def test_nothing_is_counted_without_a_wait(make_server):
    server = make_server()
    actor = server.actor("a")
    actor.call("LOCK.ACQUIRE", "k", "a")
    assert actor.call("LOCK.ACQUIRE", "k", "b") is None
    actor.call("LOCK.RELEASE", "k", "a")
    assert top(server) == []


@each_kind
def test_wait_in_progress_is_shown(make_server, kind):
    server = make_server()
    held_with_waiter(server, kind)
    found = only(server)
    assert (found["lock"], found["db"], found["waits"], found["waiters"]) == ("k", 0, 1, 1)
    assert MOMENT_US <= found["usec"] <= found["usec_longest"]
    assert found["usec_per_wait"] == found["usec"]
    assert (found["usec_per_hold"], found["usec_error"]) == (None, 0)
    assert only(server)["usec"] > found["usec"]


@each_kind
def test_wait_that_ended_with_a_grant_is_shown(make_server, kind):
    server = make_server()
    holder, waiter = held_with_waiter(server, kind)
    holder.call("LOCK.RELEASE", "k", "h")
    waiter.outcome()
    found = only(server)
    assert (found["waits"], found["waiters"]) == (1, 0)
    assert MOMENT_US <= found["usec"] == found["usec_longest"]
    assert found["usec_per_hold"] == (None if kind == "semaphore" else found["usec"])
    assert only(server) == found  # it does not grow any more


def cancel(server, waiter):
    server.control.execute_command("LOCK.CANCEL", "k", "w")
    assert waiter.outcome() is None


def unblock(server, waiter, how="TIMEOUT"):
    if not can_unblock(server):
        pytest.skip("CLIENT UNBLOCK replies 0 on this server")
    assert server.control.execute_command("CLIENT", "UNBLOCK", waiter.client_id, how) == 1
    assert (waiter.outcome() is None) == (how == "TIMEOUT")


def fail(server, waiter):
    unblock(server, waiter, "ERROR")


def kill(server, waiter):
    server.control.client_kill_filter(_id=waiter.client_id)


def close(server, waiter):
    waiter.close()


@each_kind
@pytest.mark.parametrize("end", [cancel, unblock, fail, kill, close])
def test_wait_that_ended_without_a_grant_is_shown(make_server, kind, end):
    server = make_server()
    _, waiter = held_with_waiter(server, kind)
    end(server, waiter)
    wait_for(lambda: only(server)["waiters"] == 0, what="the wait to end")
    found = only(server)
    assert found["waits"] == 1
    assert MOMENT_US <= found["usec"] == found["usec_longest"]
    assert found["usec_per_hold"] is None
    assert only(server) == found


def test_return_to_a_reserved_position_counts_as_another_wait(make_server):
    server = make_server()
    _, waiter = held_with_waiter(server, "fair")
    waiter.close()
    wait_for(lambda: only(server)["waiters"] == 0, what="the wait to end")
    before = only(server)
    again = server.actor("again")
    again.send(*request(KINDS["fair"], "w", "BLOCK", "0"))
    again.wait_blocked()
    found = only(server)
    assert (found["waits"], found["waiters"]) == (2, 1)
    assert found["usec"] >= before["usec"]


def test_owner_that_takes_over_its_own_position_is_counted_once(make_server):
    server = make_server()
    held_with_waiter(server, "fair")
    again = server.actor("again")
    again.send(*request(KINDS["fair"], "w", "BLOCK", "0"))
    again.wait_blocked()
    found = only(server)
    assert (found["waits"], found["waiters"]) == (1, 1)
    server.control.execute_command("LOCK.CANCEL", "k", "w")
    found = only(server)
    assert (found["waits"], found["waiters"]) == (1, 0)
    assert found["usec_longest"] >= MOMENT_US


def test_times_of_waiters_add_up(make_server):
    server = make_server()
    begun = time.monotonic()
    holder, first = held_with_waiter(server, "plain")
    second = server.actor("second")
    second.send("LOCK.ACQUIRE", "k", "s", "BLOCK", "0")
    second.wait_blocked()
    server.let_pass(MOMENT)
    found = only(server)
    assert (found["waits"], found["waiters"]) == (2, 2)
    assert found["usec"] >= 3 * MOMENT_US
    holder.call("LOCK.RELEASE", "k", "h")
    first.outcome()
    server.let_pass(MOMENT)
    first.call("LOCK.RELEASE", "k", "w")
    second.outcome()
    found = only(server)
    # Two hand-offs: the time of the first counts from the arrival of the first waiter.
    assert 2 * found["usec_per_hold"] <= (time.monotonic() - begun) * 1_000_000
    assert found["usec_per_hold"] >= 1.5 * MOMENT_US
    assert found["usec_longest"] >= 2 * MOMENT_US


def test_readers_that_are_granted_together_are_one_hand_off(make_server):
    server = make_server()
    writer, reader = held_with_waiter(server, "reader")
    others = [server.actor(f"r{i}") for i in range(3)]
    for i, other in enumerate(others):
        other.send("LOCK.RWREAD", "k", f"r{i}", "BLOCK", "0")
        other.wait_blocked()
    writer.call("LOCK.RELEASE", "k", "h")
    for one in [reader, *others]:
        assert one.outcome() == 1
    found = only(server)
    assert (found["waits"], found["waiters"]) == (4, 0)
    assert found["usec_per_hold"] == found["usec_longest"]


def test_wait_for_several_locks_is_counted_for_each(make_server):
    server = make_server()
    server.control.execute_command("LOCK.ACQUIRE", "l", "h")
    waiter = server.actor("w")
    waiter.send("LOCK.MACQUIRE", "2", "k", "l", "w", "BLOCK", "0")
    waiter.wait_blocked()
    assert {found["lock"]: found["waiters"] for found in top(server)} == {"k": 1, "l": 1}
    server.control.execute_command("LOCK.RELEASE", "l", "h")
    waiter.outcome()
    assert {found["lock"]: found["waiters"] for found in top(server)} == {"k": 0, "l": 0}


def test_locks_are_sorted_by_time_and_count_limits_them(make_server):
    server = make_server()
    waiters = []
    for key in "abc":  # each continues to wait, so the first has the longest time
        server.control.execute_command("LOCK.ACQUIRE", key, "h")
        waiters.append(server.actor(key))
        waiters[-1].send("LOCK.ACQUIRE", key, "w", "BLOCK", "0")
        waiters[-1].wait_blocked()
    assert [found["lock"] for found in top(server)] == ["a", "b", "c"]
    assert [found["lock"] for found in top(server, "COUNT", 2)] == ["a", "b"]
    assert top(server, "COUNT", 0) == []
    assert len(top(server, "COUNT", 2**63 - 1)) == 3


def test_locks_of_different_databases_are_shown_separately(make_server):
    server = make_server()
    for db in (0, 3):
        client = server.client(db=db)
        client.execute_command("LOCK.ACQUIRE", "k", "h")
        waiter = server.actor(f"w{db}")
        waiter.call("SELECT", db)
        waiter.send("LOCK.ACQUIRE", "k", "w", "BLOCK", "0")
        waiter.wait_blocked()
    assert sorted(found["db"] for found in top(server)) == [0, 3]


def test_reset_keeps_present_waits(make_server):
    server = make_server()
    holder, waiter = held_with_waiter(server, "plain")
    began = time.monotonic()
    assert len(top(server, "RESET")) == 1
    found = only(server)
    assert (found["waits"], found["waiters"]) == (1, 1)
    assert found["usec"] <= (time.monotonic() - began) * 1_000_000
    holder.call("LOCK.RELEASE", "k", "h")
    waiter.outcome()
    assert only(server)["waiters"] == 0
    assert len(top(server, "RESET", "COUNT", 5)) == 1
    assert top(server) == []


def test_most_contended_lock_is_kept_when_the_table_is_full(make_server):
    """The lock that is waited for all the time remains in the table, and the table does not grow."""
    server = make_server()
    held_with_waiter(server, "plain")
    holder, waiter = server.actor("holder"), server.actor("waiter")
    for i in range(600):
        holder.call("LOCK.ACQUIRE", f"l{i}", "h")
        waiter.send("LOCK.ACQUIRE", f"l{i}", "w", "BLOCK", "0")
        wait_for(lambda: server.blocked_clients() == 2, what="the client to wait")
        holder.call("LOCK.FORCE", f"l{i}")
        assert waiter.outcome() == 1
    found = top(server, "COUNT", 1000)
    assert len(found) == 256
    assert (found[0]["lock"], found[0]["usec_error"]) == ("k", 0)
    assert any(one["usec_error"] > 0 for one in found)


def test_user_without_permission_is_refused(make_server):
    server = make_server()
    held_with_waiter(server, "plain")
    server.control.execute_command("ACL", "SETUSER", "u", "on", "nopass", "+@read", "+@write", "allkeys", "-lock.top")
    actor = server.actor("u")
    actor.call("AUTH", "u", "x")
    assert "NOPERM" in str(actor.attempt("LOCK.TOP"))
    server.control.execute_command("ACL", "SETUSER", "u", "+lock.top")
    assert len(actor.call("LOCK.TOP")) == 1


def test_replica_shows_no_locks(make_server):
    server = make_server()
    replica = server.start_replica()
    held_with_waiter(server, "plain")
    assert top(replica) == []
    assert len(top(server)) == 1


@pytest.mark.parametrize("words", ["COUNT", "COUNT -1", "COUNT x", "RESET RESET", "COUNT 1 COUNT 2", "k", "PX 5"])
def test_bad_arguments_reset_nothing(make_server, words):
    server = make_server()
    holder, waiter = held_with_waiter(server, "plain")
    holder.call("LOCK.RELEASE", "k", "h")
    waiter.outcome()
    for call in (words, "RESET " + words):
        assert str(holder.attempt("LOCK.TOP", *call.split())).split(" ")[0]
    assert len(top(server)) == 1
