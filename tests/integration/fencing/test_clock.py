"""Tokens also grow after the clock has been set back."""

import pytest

from harness import wait_for
from model.fenced_scene import TOKEN, begin_to_wait, take

LOSSES = {"nothing": "PING", "release": "LOCK.RELEASE k o", "token": f"DEL {TOKEN}", "everything": "FLUSHALL"}


@pytest.mark.parametrize("lost", LOSSES.values(), ids=LOSSES)
def test_token_grows_after_the_clock_has_stepped_back(clock, make_server, lost):
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


def test_drain_that_is_due_when_the_clock_steps_back_runs(clock, make_server):
    """The server's timers depend on the wall clock. While clients are paused the drain tries again and again."""
    server = make_server()
    take(server.control)
    head = begin_to_wait(server.actor, "head", "FENCED")
    waiter = begin_to_wait(server.actor, "w", "FENCED")
    server.control.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
    head.kill_socket()
    wait_for(lambda: server.info("lock")["lock_waiters"] == 1, what="the head to leave")
    clock.step_for(server, -3600)
    server.let_pass(50)  # by now it would have run
    server.control.execute_command("CLIENT", "UNPAUSE")
    server.control.execute_command("FLUSHALL")
    assert waiter.reply() > 0


def test_token_of_a_waiter_grows_after_the_clock_has_stepped_back(clock, make_server):
    server = make_server()
    first = take(server.control)
    waiter = begin_to_wait(server.actor, "w", "FENCED")
    server.all_searched()  # then no timer is set, which the server would call an hour late
    clock.step_for(server, -3600)
    server.control.execute_command("FLUSHALL")
    assert waiter.reply() > first
