"""The server dies, is stopped, or fails at a failpoint while it notifies the clients that wait for a latch."""

import pytest
from redis.exceptions import ConnectionError

from harness import failpoint
from model.latch_scene import Scene, begins_to_wait, latch_waiters

pytestmark = pytest.mark.usefixtures("checking_build")

POINTS = ["drain.begun", "drain.lock", "reply"]


@pytest.fixture
def server(make_server):
    return make_server(appendonly="yes", appendfsync="always")


def open_latch(scene, at, action):
    failpoint.arm(scene.server, at, action)
    scene.other.send("LATCH.DOWN", "l", 2)


@pytest.mark.parametrize("point", [*POINTS, "effect"])
def test_killed_server_has_notified_only_of_a_durable_opening(server, point):
    """The opening is in the AOF, or has not happened; no client was notified of an opening that is not in the AOF."""
    scene = Scene(server)
    open_latch(scene, point, "kill")
    failpoint.wait_dead(server)
    replies = []
    for actor in (scene.other, *scene.waiters):
        try:
            replies.append(actor.outcome())
        except ConnectionError:
            replies.append("no reply")
    server.has_died()
    server.start()
    left = server.control.get("l")
    if 0 in replies or 1 in replies:
        assert left is None
    assert left in (None, "2")


@pytest.mark.parametrize("point", POINTS)
def test_stopped_server_notifies_each_waiter_once(server, point):
    """A waiter dies meanwhile and another client sends commands; in the end each waiter is notified once."""
    scene = Scene(server)
    late, dying = server.actor("late"), begins_to_wait(server, "dying")
    assert late.call("PING") == "PONG"
    open_latch(scene, point, "stop")
    with failpoint.stopped(server):
        dying.kill_socket()
        late.send("LATCH.SET", "l", 1)
        late.send("LATCH.WAIT", "l")
        late.send("PING")
    scene.both_are_notified()
    assert [late.reply() for _ in range(3)] == ["OK", None, "PONG"]
    assert [waiter.call("PING") for waiter in scene.waiters] == ["PONG", "PONG"]


def test_wait_that_the_server_refuses_replies_nil(server):
    client = server.actor()
    client.call("LATCH.SET", "l", 1)
    failpoint.arm(server, "block", "fail")
    assert client.call("LATCH.WAIT", "l", "BLOCK", 0) is None
    assert latch_waiters(server) == 0
    client.call("LOCK.ACQUIRE", "k", "o")
    failpoint.arm(server, "block", "fail")
    assert client.call("LOCK.WATCH", "k", "o", "BLOCK", 0) is None
    assert server.info("lock")["lock_watchers"] == 0


def test_waiters_are_notified_although_the_server_refuses_writes(server):
    scene = Scene(server)
    open_latch(scene, "consent", "fail")
    scene.both_are_notified()
