"""Tokens grow when the clock has been set back, too."""

import pytest

from harness import wait_for
from model.fenced_scene import TOKEN, begin_to_wait, take

LOSSES = {"nothing": "PING", "release": "LOCK.RELEASE k o", "token": f"DEL {TOKEN}", "everything": "FLUSHALL"}


@pytest.mark.parametrize("lost", LOSSES.values(), ids=LOSSES)
def test_grows_when_the_clock_has_stepped_back(clock, make_server, lost):
    server = make_server()
    client = server.control
    first = take(client)
    clock.step_for(server, -3600)
    client.execute_command(*lost.split())
    client.execute_command("LOCK.FORCE", "k")
    second = take(client)
    assert second > first
    client.execute_command("LOCK.RELEASE", "k", "o")
    clock.step_for(server, -7200)
    client.execute_command(*lost.split() if "RELEASE" not in lost else ["PING"])
    client.execute_command("LOCK.FORCE", "k")
    third = take(client)
    assert third > second
    clock.step_for(server, 0)
    client.execute_command("LOCK.FORCE", "k")
    assert take(client) > third


def test_drain_that_is_to_come_when_the_clock_steps_back_comes(clock, make_server):
    """The server's timers ring by the time of day. While clients are paused the drain asks again and again."""
    server = make_server()
    take(server.control)
    head = begin_to_wait(server.actor, "head", "FENCED")
    waiter = begin_to_wait(server.actor, "w", "FENCED")
    server.control.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
    head.kill_socket()
    wait_for(lambda: server.info("lock")["lock_waiters"] == 1, what="the head to leave")
    clock.step_for(server, -3600)
    server.let_pass(50)  # by now it would have come
    server.control.execute_command("CLIENT", "UNPAUSE")
    server.control.execute_command("FLUSHALL")
    assert waiter.reply() > 0


def test_grows_for_waiters_when_the_clock_has_stepped_back(clock, make_server):
    server = make_server()
    first = take(server.control)
    waiter = begin_to_wait(server.actor, "w", "FENCED")
    server.all_searched()  # no timer is set any more: the server would call it an hour late
    clock.step_for(server, -3600)
    server.control.execute_command("FLUSHALL")
    assert waiter.reply() > first
