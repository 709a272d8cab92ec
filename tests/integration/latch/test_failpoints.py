"""The server dies, stands still or is refused something while those who wait for a latch are told."""

import pytest
from redis.exceptions import ConnectionError

from harness import failpoint
from model.latch_scene import Scene, begins_to_wait, latch_waiters

pytestmark = pytest.mark.usefixtures("checking_build")

POINTS = ["drain.begun", "drain.lock", "reply"]


@pytest.fixture
def server(make_server):
    return make_server(appendonly="yes", appendfsync="always")


def opens(scene, at, action):
    failpoint.arm(scene.server, at, action)
    scene.other.send("LATCH.DOWN", "l", 2)


@pytest.mark.parametrize("point", [*POINTS, "effect"])
def test_killed_while_they_are_told(server, point):
    """The opening is in the AOF, or has not happened; nobody is told what is not so."""
    scene = Scene(server)
    opens(scene, point, "kill")
    failpoint.wait_dead(server)
    heard = []
    for actor in (scene.other, *scene.waiters):
        try:
            heard.append(actor.outcome())
        except ConnectionError:
            heard.append("no answer")
    server.has_died()
    server.start()
    left = server.control.get("l")
    if 0 in heard or 1 in heard:
        assert left is None
    assert left in (None, "2")


@pytest.mark.parametrize("point", POINTS)
def test_stands_still_while_they_are_told(server, point):
    """One of them dies meanwhile, others ask; in the end all are told once."""
    scene = Scene(server)
    late, dying = server.actor("late"), begins_to_wait(server, "dying")
    assert late.call("PING") == "PONG"
    opens(scene, point, "stop")
    with failpoint.standing(server):
        dying.kill_socket()
        late.send("LATCH.SET", "l", 1)
        late.send("LATCH.WAIT", "l")
        late.send("PING")
    scene.both_are_told()
    assert [late.reply() for _ in range(3)] == ["OK", None, "PONG"]
    assert [waiter.call("PING") for waiter in scene.waiters] == ["PONG", "PONG"]


def test_wait_that_the_server_refuses_is_none(server):
    client = server.actor()
    client.call("LATCH.SET", "l", 1)
    failpoint.arm(server, "block", "fail")
    assert client.call("LATCH.WAIT", "l", "BLOCK", 0) is None
    assert latch_waiters(server) == 0
    client.call("LOCK.ACQUIRE", "k", "o")
    failpoint.arm(server, "block", "fail")
    assert client.call("LOCK.WATCH", "k", "o", "BLOCK", 0) is None
    assert server.info("lock")["lock_watchers"] == 0


def test_server_that_would_refuse_a_write_tells_all_the_same(server):
    scene = Scene(server)
    opens(scene, "consent", "fail")
    scene.both_are_told()
