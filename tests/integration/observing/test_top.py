"""LOCK.TOP: the locks that were waited for the most, by requests of every kind and however their waits end."""

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
    "several": ("LOCK.MACQUIRE", 1, "k", "{}"),
}
HOLDERS = {"reader": KINDS["writer"], "writer": KINDS["reader"], "semaphore": KINDS["semaphore"]}


def request(words, owner, *more):
    return [str(word).format(owner) for word in words] + list(more)


def top(server, *words):
    return server.client(protocol=3).execute_command("LOCK.TOP", *words)


def only(server):
    (found,) = top(server)
    return found


def held_and_wanted(server, kind):
    """Two clients: one has the lock, the other has waited for a moment for it."""
    holder, waiter = server.actor("h"), server.actor("w")
    holder.call(*request(HOLDERS.get(kind, KINDS["plain"]), "h", "PX", "3600000"))
    waiter.send(*request(KINDS[kind], "w", "PX", "3600000", "BLOCK", "0"))
    waiter.wait_blocked()
    server.let_pass(MOMENT)
    return holder, waiter


each_kind = pytest.mark.parametrize("kind", KINDS)


def test_nothing_is_counted_where_nobody_waits(make_server):
    server = make_server()
    actor = server.actor("a")
    actor.call("LOCK.ACQUIRE", "k", "a")
    assert actor.call("LOCK.ACQUIRE", "k", "b") is None
    actor.call("LOCK.RELEASE", "k", "a")
    assert top(server) == []


@each_kind
def test_a_wait_that_goes_on_is_shown(make_server, kind):
    server = make_server()
    held_and_wanted(server, kind)
    found = only(server)
    assert (found["lock"], found["db"], found["waits"], found["waiters"]) == ("k", 0, 1, 1)
    assert MOMENT_US <= found["usec"] <= found["usec_longest"]
    assert found["usec_per_wait"] == found["usec"]
    assert (found["usec_per_hold"], found["usec_error"]) == (None, 0)
    assert only(server)["usec"] > found["usec"]


@each_kind
def test_a_wait_that_ended_with_the_lock(make_server, kind):
    server = make_server()
    holder, waiter = held_and_wanted(server, kind)
    holder.call("LOCK.RELEASE", "k", "h")
    waiter.outcome()
    found = only(server)
    assert (found["waits"], found["waiters"]) == (1, 0)
    assert MOMENT_US <= found["usec"] == found["usec_longest"]
    assert found["usec_per_hold"] == (None if kind == "semaphore" else found["usec"])
    assert only(server) == found  # it does not grow on


def cancel(server, waiter):
    server.control.execute_command("LOCK.CANCEL", "k", "w")
    assert waiter.outcome() is None


def unblock(server, waiter, how="TIMEOUT"):
    if not can_unblock(server):
        pytest.skip("CLIENT UNBLOCK answers 0 here")
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
def test_a_wait_that_ended_without_the_lock(make_server, kind, end):
    server = make_server()
    _, waiter = held_and_wanted(server, kind)
    end(server, waiter)
    wait_for(lambda: only(server)["waiters"] == 0, what="the wait to end")
    found = only(server)
    assert found["waits"] == 1
    assert MOMENT_US <= found["usec"] == found["usec_longest"]
    assert found["usec_per_hold"] is None
    assert only(server) == found


def test_an_owner_that_comes_back_to_its_fair_position_waits_again(make_server):
    server = make_server()
    _, waiter = held_and_wanted(server, "fair")
    waiter.close()
    wait_for(lambda: only(server)["waiters"] == 0, what="the wait to end")
    before = only(server)
    again = server.actor("again")
    again.send(*request(KINDS["fair"], "w", "BLOCK", "0"))
    again.wait_blocked()
    found = only(server)
    assert (found["waits"], found["waiters"]) == (2, 1)
    assert found["usec"] >= before["usec"]


def test_an_owner_that_takes_its_own_position_over_waits_once(make_server):
    server = make_server()
    held_and_wanted(server, "fair")
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
    holder, first = held_and_wanted(server, "plain")
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
    # Both holders: the first one kept others waiting since the first of them came.
    assert 2 * found["usec_per_hold"] <= (time.monotonic() - begun) * 1_000_000
    assert found["usec_per_hold"] >= 1.5 * MOMENT_US
    assert found["usec_longest"] >= 2 * MOMENT_US


def test_readers_that_come_in_together_share_one_hand_off(make_server):
    server = make_server()
    writer, reader = held_and_wanted(server, "reader")
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


def test_a_wait_for_several_locks_counts_for_each(make_server):
    server = make_server()
    server.control.execute_command("LOCK.ACQUIRE", "l", "h")
    waiter = server.actor("w")
    waiter.send("LOCK.MACQUIRE", "2", "k", "l", "w", "BLOCK", "0")
    waiter.wait_blocked()
    assert {found["lock"]: found["waiters"] for found in top(server)} == {"k": 1, "l": 1}
    server.control.execute_command("LOCK.RELEASE", "l", "h")
    waiter.outcome()
    assert {found["lock"]: found["waiters"] for found in top(server)} == {"k": 0, "l": 0}


def test_the_one_with_the_most_time_comes_first_and_count_cuts(make_server):
    server = make_server()
    waiters = []
    for key in "abc":  # each waits on, so that the first has the most
        server.control.execute_command("LOCK.ACQUIRE", key, "h")
        waiters.append(server.actor(key))
        waiters[-1].send("LOCK.ACQUIRE", key, "w", "BLOCK", "0")
        waiters[-1].wait_blocked()
    assert [found["lock"] for found in top(server)] == ["a", "b", "c"]
    assert [found["lock"] for found in top(server, "COUNT", 2)] == ["a", "b"]
    assert top(server, "COUNT", 0) == []
    assert len(top(server, "COUNT", 2**63 - 1)) == 3


def test_databases_are_told_apart(make_server):
    server = make_server()
    for db in (0, 3):
        client = server.client(db=db)
        client.execute_command("LOCK.ACQUIRE", "k", "h")
        waiter = server.actor(f"w{db}")
        waiter.call("SELECT", db)
        waiter.send("LOCK.ACQUIRE", "k", "w", "BLOCK", "0")
        waiter.wait_blocked()
    assert sorted(found["db"] for found in top(server)) == [0, 3]


def test_reset_keeps_who_waits(make_server):
    server = make_server()
    holder, waiter = held_and_wanted(server, "plain")
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


def test_more_contended_locks_than_there_is_room_for(make_server):
    """The one that is waited for all the time has its place still, and the memory does not grow."""
    server = make_server()
    held_and_wanted(server, "plain")
    holder, waiter = server.actor("holder"), server.actor("waiter")
    for i in range(600):
        holder.call("LOCK.ACQUIRE", f"l{i}", "h")
        waiter.send("LOCK.ACQUIRE", f"l{i}", "w", "BLOCK", "0")
        wait_for(lambda: server.blocked_clients() == 2, what="it to wait")
        holder.call("LOCK.FORCE", f"l{i}")
        assert waiter.outcome() == 1
    found = top(server, "COUNT", 1000)
    assert len(found) == 256
    assert (found[0]["lock"], found[0]["usec_error"]) == ("k", 0)
    assert any(one["usec_error"] > 0 for one in found)


def test_a_user_without_the_right_is_shown_no_names(make_server):
    server = make_server()
    held_and_wanted(server, "plain")
    server.control.execute_command("ACL", "SETUSER", "u", "on", "nopass", "+@read", "+@write", "allkeys", "-lock.top")
    actor = server.actor("u")
    actor.call("AUTH", "u", "x")
    assert "NOPERM" in str(actor.attempt("LOCK.TOP"))
    server.control.execute_command("ACL", "SETUSER", "u", "+lock.top")
    assert len(actor.call("LOCK.TOP")) == 1


def test_a_replica_has_nothing_to_show(make_server):
    server = make_server()
    replica = server.start_replica()
    held_and_wanted(server, "plain")
    assert top(replica) == []
    assert len(top(server)) == 1


@pytest.mark.parametrize("words", ["COUNT", "COUNT -1", "COUNT x", "RESET RESET", "COUNT 1 COUNT 2", "k", "PX 5"])
def test_bad_arguments_reset_nothing(make_server, words):
    server = make_server()
    holder, waiter = held_and_wanted(server, "plain")
    holder.call("LOCK.RELEASE", "k", "h")
    waiter.outcome()
    for call in (words, "RESET " + words):
        assert str(holder.attempt("LOCK.TOP", *call.split())).split(" ")[0]
    assert len(top(server)) == 1
