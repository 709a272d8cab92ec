"""Events that are due in minutes or hours, on servers whose clocks are advanced."""

import re
from pathlib import Path

import pytest

from harness import wait_for
from model.fair_scene import ENDS, HOUR, QUEUE, order

MINUTE = 60_000


@pytest.fixture
def server(clock, make_server):
    """A server on which k is held for longer than the clocks are advanced in any test."""
    server = make_server()
    server.control.execute_command("LOCK.ACQUIRE", "k", "oa", "PX", 1000 * HOUR)
    return server


@pytest.fixture
def now_it_is(clock, server):
    """now_it_is(6 * MINUTE): sets the clocks to this time after the start of the test; all that is due has happened."""
    return lambda ms: clock.advance(server, ms / 1000)


def changes(server):
    return server.info("persistence")["rdb_changes_since_last_save"]


def begin_to_wait(server, command, block):
    waiter = server.actor("ob")
    waiter.send(command, "k", "ob", "BLOCK", block)
    return waiter.wait_blocked()


def test_keys_of_positions_do_not_expire_during_a_wait_without_timeout(server, now_it_is):
    """The keys expire after ten minutes; their expiry is extended each time half of that has passed."""
    waiter = begin_to_wait(server, "LOCK.FAIR", 0)

    def have_long_ttls():
        return min(server.control.pttl(name) for name in (QUEUE, ENDS)) > 5 * MINUTE

    for minutes in (6, 12, 18):
        now_it_is(minutes * MINUTE)
        wait_for(have_long_ttls, what=f"the expiry of the keys to be extended after {minutes} minutes")
    assert order(server) == server.control.zrange(QUEUE, 0, -1) == ["ob"]
    assert waiter.is_blocked()
    before = changes(server)
    server.settle(100)
    assert changes(server) == before, "the expiry is extended again and again"


@pytest.mark.parametrize("command", ["LOCK.ACQUIRE", "LOCK.FAIR"])
def test_wait_of_more_than_a_day_ends_in_time(server, now_it_is, command):
    """No timer of the server can be that long: it is created again and again."""
    waiter = begin_to_wait(server, command, 26 * HOUR)
    for hours in (0.7, 1.4, 25):
        now_it_is(hours * HOUR)
        assert waiter.is_blocked()
    now_it_is(27 * HOUR)
    assert waiter.reply() is None


@pytest.mark.parametrize("take, wait", [("LOCK.ACQUIRE", "LOCK.ACQUIRE"), ("LOCK.RWREAD", "LOCK.RWWRITE")])
def test_waiter_is_granted_when_a_lease_of_hours_expires(server, now_it_is, take, wait):
    for owner, hours in (("x", 2), ("y", 3))[: 1 if take == "LOCK.ACQUIRE" else 2]:
        server.control.execute_command(take, "l", owner, "PX", hours * HOUR)
    waiter, last = server.actor(), 2 if take == "LOCK.ACQUIRE" else 3
    waiter.send(wait, "l", "w", "PX", 100 * HOUR, "BLOCK", 0)
    waiter.wait_blocked()
    for hours in (0.7, 1.4, last - 0.1):
        now_it_is(hours * HOUR)
        assert waiter.is_blocked()
    now_it_is((last + 0.1) * HOUR)
    assert waiter.reply() == 1


def test_position_is_reserved_for_hours(server, now_it_is):
    server.control.config_set("lock.fair-reserve", 2 * HOUR)
    begin_to_wait(server, "LOCK.FAIR", 0).kill_socket()
    wait_for(lambda: server.info("lock")["lock_waiters"] == 0, what="the position to have no client")
    waiter = server.actor()
    waiter.send("LOCK.FAIR", "k", "oc", "PX", 100 * HOUR, "BLOCK", 0)
    waiter.wait_blocked()
    assert server.control.execute_command("LOCK.RELEASE", "k", "oa") == 0
    for hours in (0.7, 1.4, 1.9):
        now_it_is(hours * HOUR)
        assert waiter.is_blocked()
        assert server.control.zrange(QUEUE, 0, -1) == ["ob", "oc"]
    now_it_is(2.1 * HOUR)
    assert waiter.reply() == 1


def test_session_with_a_lease_of_hours_is_renewed_after_a_third(server, now_it_is):
    server.control.config_set("lock.default-lease", 6 * HOUR)
    assert server.actor().call("LOCK.ACQUIRE", "l", "o", "SESSION") == 1
    now_it_is(1.5 * HOUR)
    assert server.control.pttl("l") < 4.6 * HOUR
    for hours in (2.1, 4.2, 6.3, 8.4):
        now_it_is(hours * HOUR)
        wait_for(lambda: server.control.pttl("l") > 5.9 * HOUR, what=f"the renewal after {hours} hours")


def test_session_ends_after_a_grace_of_hours(server, now_it_is):
    server.control.config_set("lock.default-lease", 100 * HOUR)
    server.control.config_set("lock.session-grace", 2 * HOUR)
    holder, waiter = server.actor(), server.actor()
    assert holder.call("LOCK.ACQUIRE", "l", "o", "SESSION") == 1
    waiter.send("LOCK.ACQUIRE", "l", "w", "PX", 100 * HOUR, "BLOCK", 0)
    waiter.wait_blocked()
    holder.kill_socket()
    wait_for(lambda: not holder.is_connected(), what="the server to notice the closed connection")
    for hours in (0.7, 1.4, 1.9):
        now_it_is(hours * HOUR)
        assert waiter.is_blocked()
    now_it_is(2.1 * HOUR)
    assert waiter.reply() == 1


@pytest.mark.parametrize("is_closed", [False, True])
def test_sessions_whose_locks_were_deleted_are_forgotten(server, now_it_is, is_closed):
    """With leases and a grace of hours nothing else would check them."""
    server.control.config_set("lock.default-lease", 100 * HOUR, "lock.session-grace", 100 * HOUR)
    holders = [server.actor() for _ in range(2)]
    for number, holder in enumerate(holders):
        assert holder.call("LOCK.ACQUIRE", f"l{number}", "o", "SESSION") == 1
        if is_closed:
            holder.kill_socket()
    server.control.delete("l0")
    for minutes in (1, 4):
        now_it_is(minutes * MINUTE)
    assert server.info("lock")["lock_sessions"] == 2
    now_it_is(6 * MINUTE)
    wait_for(lambda: server.info("lock")["lock_sessions"] == 1, what="the session of the deleted lock to be forgotten")
    now_it_is(12 * MINUTE)
    assert server.info("lock")["lock_sessions"] == 1


@pytest.mark.timing
@pytest.mark.parametrize("command", ["LOCK.ACQUIRE", "LOCK.FAIR", "LOCK.RWREAD"])
def test_server_sleeps_until_the_timer_is_due(make_server, command):
    server = make_server()
    server.control.execute_command("LOCK.RWWRITE" if "RW" in command else "LOCK.ACQUIRE", "k", "oa", "PX", 1000 * HOUR)
    begin_to_wait(server, command, HOUR)
    server.all_searched()

    def times_woken():
        status = Path(f"/proc/{server.pid}/status").read_text()
        return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.MULTILINE)[1])

    before = times_woken()
    server.control.blpop("nothing", 1)
    # The server itself wakes ten times a second; a timer of 1 ms would wake it a thousand times.
    assert times_woken() - before < 100
