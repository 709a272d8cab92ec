"""A hold that several connections request is bound to the last that requested it, not to the last that got a reply."""

import pytest

from harness import wait_for
from harness.schedule import as_map
from model.fenced_scene import stopped
from model.session_scene import begin_to_wait, grace_passes, session, wait_free
from model.session_scene import server  # noqa: F401

REQUESTS = ("LOCK.ACQUIRE k o SESSION ONCE", "LOCK.RENEW k o SESSION")
each_request = pytest.mark.parametrize("request_text", REQUESTS)


def send_at_once(client, *lines):
    """Sends all in one packet; reply() returns the replies."""
    client._connection._sock.sendall("".join(line + "\r\n" for line in lines).encode())


@each_request
@pytest.mark.parametrize("older", [True, False], ids=["the older connection", "the newer connection"])
@pytest.mark.parametrize("granting", ["LOCK.RELEASE k x", "LOCK.FORCE k"])
def test_later_request_has_the_session_of_an_earlier_wait(server, actor, request_text, older, granting):  # noqa: F811
    """The wait is granted; before its reply is sent another connection sends a request and receives its reply."""
    server.control.execute_command("LOCK.ACQUIRE", "k", "x")
    last = actor("last") if older else None
    waiter = begin_to_wait(actor, "o", "SESSION", "ONCE")
    last = last or actor("last")
    send_at_once(last, granting, request_text)
    assert last.reply() is not None
    assert (last.reply(), waiter.reply()) == (1, 1)
    assert session(server) == last.client_id
    waiter.close()
    wait_for(lambda: not waiter.is_connected(), what="the waiter to disconnect")
    grace_passes(server)
    assert session(server) == last.client_id
    last.close()
    wait_free(server)


def request_and_kill(server, actor, request_text):
    """A connection frees the lock, sends a request, and is killed before the waiter receives its reply. Returns the
    waiter, and the connection to which the hold is bound then."""
    server.control.execute_command("LOCK.ACQUIRE", "k", "x")
    waiter = begin_to_wait(actor, "o", "SESSION", "ONCE")
    last, kills = actor(), actor()
    server.control.ping()  # the connection that was used last may be read first
    with stopped(server):  # so that it reads both packets in one event-loop iteration, in this order
        send_at_once(last, "LOCK.RELEASE k x", request_text)
        send_at_once(kills, "LOCK.INFO k", f"CLIENT KILL ID {last.client_id}")
    [hold] = as_map(kills.reply())["holders"]
    assert as_map(hold)["session"] == last.client_id
    assert waiter.reply() == 1
    return waiter, session(server)


@each_request
def test_session_is_of_the_waiter_when_the_later_connection_is_killed(server, actor, request_text):  # noqa: F811
    """The connection with the last request is gone: the hold is bound to the other one. On a busy machine the second
    packet may be read an iteration later, after the reply to the waiter: such a try shows nothing."""
    for _ in range(20):
        waiter, bound_to = request_and_kill(server, actor, request_text)
        if bound_to == waiter.client_id:
            break
        server.control.execute_command("LOCK.FORCE", "k")
    assert bound_to == waiter.client_id
    grace_passes(server)
    assert session(server) == waiter.client_id
    waiter.close()
    wait_free(server)
