"""Of connections that ask for the same hold the one that has asked last has it, whichever is answered last."""

import pytest

from harness import wait_for
from harness.schedule import as_map
from model.fenced_scene import stopped
from model.session_scene import begin_to_wait, grace_passes, session, wait_free
from model.session_scene import server  # noqa: F401

ASKS = ("LOCK.ACQUIRE k o SESSION ONCE", "LOCK.RENEW k o SESSION")
each_asks = pytest.mark.parametrize("asks", ASKS)


def say_at_once(client, *lines):
    """In one packet; the answers are heard by reply()."""
    client._connection._sock.sendall("".join(line + "\r\n" for line in lines).encode())


@each_asks
@pytest.mark.parametrize("older", [True, False], ids=["the older connection", "the newer connection"])
@pytest.mark.parametrize("lets_in", ["LOCK.RELEASE k x", "LOCK.FORCE k"])
def test_answered_before_a_wait_that_is_older(server, actor, asks, older, lets_in):  # noqa: F811
    """The wait is over; before it is answered another connection asks, and is answered."""
    server.control.execute_command("LOCK.ACQUIRE", "k", "x")
    last = actor("last") if older else None
    waiter = begin_to_wait(actor, "o", "SESSION", "ONCE")
    last = last or actor("last")
    say_at_once(last, lets_in, asks)
    assert last.reply() is not None
    assert (last.reply(), waiter.reply()) == (1, 1)
    assert session(server) == last.client_id
    waiter.close()
    wait_for(lambda: not waiter.is_connected(), what="the waiter to be gone")
    grace_passes(server)
    assert session(server) == last.client_id
    last.close()
    wait_free(server)


def asks_and_is_killed(server, actor, asks):
    """Frees the lock, asks, and is killed, before who waits for it is answered. Returns that waiter, and whom the hold
    is bound to then."""
    server.control.execute_command("LOCK.ACQUIRE", "k", "x")
    waiter = begin_to_wait(actor, "o", "SESSION", "ONCE")
    last, kills = actor(), actor()
    server.control.ping()  # who spoke to it last may be the first to be read
    with stopped(server):  # so that it reads both packets in one turn, in this order
        say_at_once(last, "LOCK.RELEASE k x", asks)
        say_at_once(kills, "LOCK.INFO k", f"CLIENT KILL ID {last.client_id}")
    [hold] = as_map(kills.reply())["holders"]
    assert as_map(hold)["session"] == last.client_id
    assert waiter.reply() == 1
    return waiter, session(server)


@each_asks
def test_closed_before_the_wait_is_answered(server, actor, asks):  # noqa: F811
    """What asked last is gone: the hold is that of the one that lives. On a busy machine the second packet may be a
    turn late, and the waiter has been answered before: such a try shows nothing."""
    for _ in range(20):
        waiter, bound_to = asks_and_is_killed(server, actor, asks)
        if bound_to == waiter.client_id:
            break
        server.control.execute_command("LOCK.FORCE", "k")
    assert bound_to == waiter.client_id
    grace_passes(server)
    assert session(server) == waiter.client_id
    waiter.close()
    wait_free(server)
