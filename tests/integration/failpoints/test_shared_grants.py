"""One owner has two waits when the lock is released; between grant and reply the server is stopped and clients die: the
owner has exactly the holds of which a living client has been notified. The server dies there in test_kill.py.

Clients die by CLIENT KILL in the packet that releases the lock: the server cannot know whether a reply that it has
written has arrived. While the server is stopped the owner may send another request, which runs after the replies.
"""

from itertools import product

import pytest

from harness import drawn_from, failpoint, wait_for
from model.failpoint_scene import CONFIG
from model.once_scene import KINDS, LONG, OF_TWO, answer, asks, wait_drained, keeps_out, lets_in, releases, waits

pytestmark = pytest.mark.usefixtures("checking_build")

# Each wait with ONCE, or as one that adds a hold.
PAIRS = {"once_and_once": (True, True), "once_and_more": (True, False), "more_and_once": (False, True)}
DEAD = {
    "no_client_dies": (),
    "first_dies": (0,),
    "second_dies": (1,),
    "both_die": (0, 1),
    "both_die_second_before_first": (1, 0),
}
# The first release is that of x.
POINTS = {"take.begun": 2, "answer": 2, "reply": 1, "release.begun": 2}

KINDS_OF_TWO = [kind for kind in KINDS if kind != "fair"]  # a fair queue has one position for each owner


def holds_kept(pair, dead):
    """How many of the holds that the grants add remain. The first grant adds one, the second too unless it has ONCE;
    then it depends on the hold of the first one."""
    first = 0 not in dead or (pair[1] and 1 not in dead)
    second = not pair[1] and 1 not in dead
    return first + second


@pytest.fixture(scope="module")
def new_server():
    return lambda make: make(**CONFIG)


class Stage:
    """x holds k; both waits of o are in the queue, and y behind them."""

    def __init__(self, server, kind, pair):
        self.server, self.kind, self.pair = server, kind, pair
        assert server.control.execute_command(*keeps_out(kind)) is not None
        self.both = [waits(server.actor(), *self.words(once)) for once in pair]
        self.y = waits(server.actor("y"), "LOCK.ACQUIRE", "k", "y", "PX", LONG)
        self.again = server.actor("again")
        server.all_searched()  # no drain is pending

    def words(self, once):
        return [word for word in asks(self.kind) if once or word != "ONCE"]

    def release(self, dead):
        """x releases, and these clients die in the same packet."""
        kills = [f"CLIENT KILL ID {self.both[number].client_id}" for number in dead]
        self.server.raw_connection().sendall("".join(f"{line}\r\n" for line in [lets_in(self.kind), *kills]).encode())

    def expected(self, dead, repeated):
        """How many holds the owner must have, according to the replies to its living clients."""
        for number, one in enumerate(self.both):
            if number not in dead:
                assert one.reply() in (answer(self.kind), 2 * answer(self.kind))
        count = holds_kept(self.pair, dead)
        if repeated:
            count = max(count, int(self.again.reply() is not None))
        return count

    def end(self, count):
        """Checks that the owner has this number of holds, and that y is granted after as many releases."""
        wait_drained_except_y(self.server, count)
        for left in reversed(range(count)):
            assert not self.y.has_reply()
            got = self.server.control.execute_command(*releases(self.kind))
            each = answer(self.kind) if self.kind == "permits" else 1
            assert got == ((0 if left else 2) if self.kind in OF_TWO else left * each)
        assert self.y.reply() == 1
        wait_drained(self.server)
        assert self.server.control.hgetall("k") == {"y": "1"}
        assert self.y.call("LOCK.RELEASE", "k", "y") == 0
        assert self.server.control.dbsize() == 0
        info = self.server.info("lock")
        assert [info[f"lock_{field}"] for field in ("waiters", "contended_locks", "sessions")] == [0, 0, 0]
        for actor in (*self.both, self.y, self.again):
            actor.close()


def wait_drained_except_y(server, count):
    wait_for(lambda: server.info("lock")["lock_waiters"] == (1 if count else 0), what="the waits to end")
    server.settle()


def cases():
    """All cases in which the server reaches the point; the point of a release only if a hold is lost."""
    for kind, (pair, both), (death, dead), point, repeated in product(
        KINDS_OF_TWO, PAIRS.items(), DEAD.items(), POINTS, (False, True)
    ):
        if point != "release.begun" or holds_kept(both, dead) < holds_kept(both, ()):
            name = "-".join([kind, pair, death, point, *(["repeated"] if repeated else [])])
            yield pytest.param(kind, both, dead, point, repeated, id=name)


@pytest.mark.parametrize("kind, pair, dead, point, repeated", drawn_from(cases()))
def test_owner_has_the_holds_granted_to_its_living_clients(server, kind, pair, dead, point, repeated):
    stage = Stage(server, kind, pair)
    failpoint.arm(server, point, "stop", POINTS[point])
    stage.release(dead)
    with failpoint.stopped(server):
        if repeated:
            stage.again.send(*stage.words(True))
    assert failpoint.armed(server) == ""
    stage.end(stage.expected(dead, repeated))
