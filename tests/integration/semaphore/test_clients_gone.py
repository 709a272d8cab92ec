"""Clients that die while they hold permits, wait for permits, or between grant and reply; and sessions."""

import pytest

from harness import wait_for
from harness.schedule import as_map
from model.semaphore_scene import LONG, permits_of
from model.session_scene import each_way_to_die
from model.session_scene import server  # noqa: F401


def waits(actor, owner, limit, permits=1, *options):
    waiting = actor(owner)
    waiting.send("LOCK.SEMAPHORE", "k", owner, limit, "PERMITS", permits, *(options or ("PX", LONG)), "BLOCK", 0)
    return waiting.wait_blocked()


def take(server, owner, limit, permits=1):  # noqa: F811
    return server.control.execute_command("LOCK.SEMAPHORE", "k", owner, limit, "PERMITS", permits, "PX", LONG)


def nothing_in_flight(server):  # noqa: F811
    wait_for(lambda: server.info("lock")["lock_waiters"] == 0, what="the last wait to end")


# Between grant and reply


@pytest.mark.parametrize("session", [(), ("SESSION",)], ids=["", "session"])
@pytest.mark.parametrize("own", [0, 2])
def test_permits_whose_reply_was_lost_are_released_and_no_others(server, actor, at_once, own, session):  # noqa: F811
    assert take(server, "a", 9, 5) == 5
    if own:
        assert take(server, "b", 9, own) == own
    b = waits(actor, "b", 7, 4 - own, *session)
    c = waits(actor, "c", 7, 3)
    at_once("LOCK.RELEASE k a PERMITS 4", f"CLIENT KILL ID {b.client_id}")
    assert c.reply() == 3
    expected = {"a": 1, "c": 3} | ({"b": own} if own else {})
    wait_for(lambda: permits_of(server) == expected, what="the lost permits to be released")


def test_remaining_permits_of_a_lost_reply_are_released(server, actor, at_once):  # noqa: F811
    """Another client of the owner has released one meanwhile."""
    assert take(server, "a", 9, 5) == 5
    b = waits(actor, "b", 5, 3)
    at_once("LOCK.RELEASE k a PERMITS 4", f"CLIENT KILL ID {b.client_id}", "LOCK.RELEASE k b")
    wait_for(lambda: permits_of(server) == {"a": 1}, what="the lost permits to be released")


def test_permits_acquired_again_are_kept(server, actor, at_once):  # noqa: F811
    assert take(server, "a", 5, 5) == 5
    b = waits(actor, "b", 5, 3)
    again = "LOCK.FORCE k", f"LOCK.SEMAPHORE k b 5 PX {LONG}"
    at_once("LOCK.RELEASE k a PERMITS 5", f"CLIENT KILL ID {b.client_id}", *again)
    nothing_in_flight(server)
    server.settle()
    assert permits_of(server) == {"b": 1}


# Sessions


@each_way_to_die
def test_all_permits_of_a_session_are_released_and_handed_off(server, actor, dies):  # noqa: F811
    a = actor("a")
    assert a.call("LOCK.SEMAPHORE", "k", "a", 4, "PERMITS", 2, "SESSION") == 2
    assert a.call("LOCK.SEMAPHORE", "k", "a", 4, "SESSION") == 3
    assert take(server, "x", 4) == 1
    waiters = [waits(actor, name, 4) for name in "bcd"]
    dies(a)
    assert [waiter.reply() for waiter in waiters] == [1, 1, 1]
    assert permits_of(server) == {"b": 1, "c": 1, "d": 1, "x": 1}


def test_session_of_a_grant_after_a_wait_is_bound_and_released(server, actor):  # noqa: F811
    assert take(server, "a", 1) == 1
    b = waits(actor, "b", 1, 1, "SESSION")
    assert server.control.execute_command("LOCK.RELEASE", "k", "a") == 0
    assert b.reply() == 1
    (holder,) = as_map(server.control.execute_command("LOCK.INFO", "k"))["holders"]
    assert as_map(holder)["session"] == b.client_id
    b.close()
    wait_for(lambda: not permits_of(server), what="the session to be released")


def test_session_ends_with_the_last_permit_not_before(server, actor):  # noqa: F811
    a = actor("a")
    sessions = lambda: server.info("lock")["lock_sessions"]  # noqa: E731
    before = sessions()
    assert a.call("LOCK.SEMAPHORE", "k", "a", 4, "PERMITS", 2, "SESSION") == 2
    assert a.call("LOCK.RELEASE", "k", "a") == 1
    assert sessions() == before + 1
    assert a.call("LOCK.RELEASE", "k", "a") == 0
    assert sessions() == before


def test_renew_binds_permits_to_another_connection(server, actor):  # noqa: F811
    a, other = actor("a"), actor("other")
    assert a.call("LOCK.SEMAPHORE", "k", "a", 4, "PERMITS", 2, "SESSION") == 2
    assert other.call("LOCK.RENEW", "k", "a", "SESSION") == 2
    a.close()
    server.settle(150)
    assert permits_of(server) == {"a": 2}
    other.close()
    wait_for(lambda: not permits_of(server), what="the session to be released")


# Counters and memory


def test_permits_are_no_edge_of_a_cycle(server, actor):  # noqa: F811
    """What looks like a cycle over permits is left to leases and timeouts."""
    before = server.info("lock")["lock_deadlocks_refused"]
    a, b = actor("a"), actor("b")
    assert a.call("LOCK.SEMAPHORE", "k", "a", 1, "PX", LONG) == 1
    assert b.call("LOCK.ACQUIRE", "l", "b", "PX", LONG) == 1
    a.send("LOCK.ACQUIRE", "l", "a", "BLOCK", 0)
    a.wait_blocked()
    b.send("LOCK.SEMAPHORE", "k", "b", 1, "BLOCK", 0)
    b.wait_blocked()
    server.all_searched()
    plain = actor("plain")
    plain.send("LOCK.ACQUIRE", "k", "b", "BLOCK", 0)
    plain.wait_blocked()
    server.all_searched()
    assert server.info("lock")["lock_deadlocks_refused"] == before
    assert not any(each.has_reply() for each in (a, b, plain))
    server.control.execute_command("LOCK.FORCE", "l")
    assert a.reply() == 1


def test_nothing_is_left_after_the_last_release(make_server):
    """The checking build asserts it after every drain."""
    server = make_server()  # noqa: F811
    for owner in "abc":
        take(server, owner, 9, 2)
    waiter = waits(server.actor, "w", 6)
    for owner in "abc":
        server.control.execute_command("LOCK.RELEASE", "k", owner, "PERMITS", 2)
    assert waiter.reply() == 1
    assert server.control.execute_command("LOCK.RELEASE", "k", "w") == 0
    assert server.dump() == {}


def test_waiters_for_permits_are_counted(server, actor):
    """They are not counted as waiters of a latch or a watch, and only as long as they wait."""
    take(server, "a", 2, 2)
    before = server.info("lock")
    first, second, third = (waits(actor, owner, 2) for owner in ("b", "c", "c"))
    info = server.info("lock")
    assert (info["lock_waiters"], info["lock_waiters_unsearched"]) == (3, 0)
    assert [info[name] for name in ("lock_watchers", "lock_latch_waiters", "lock_contended_locks")] == [0, 0, 1]
    assert server.control.execute_command("LOCK.RELEASE", "k", "a") == 1
    assert first.reply() == 1
    assert server.info("lock")["lock_waiters"] == 2
    second.kill_socket()
    wait_for(lambda: server.info("lock")["lock_waiters"] == 1, what="the second to leave")
    assert server.control.execute_command("LOCK.CANCEL", "k", "c") == 1
    assert third.reply() is None
    assert server.info("lock")["lock_waiters"] == before["lock_waiters"] == 0
