"""Two waits of one owner stand when the lock is released; between grant and reply the server stands still and clients
die: the owner holds just what a living client has been told of. That the server dies there is in test_kill.py.

Clients die by CLIENT KILL in the packet that releases the lock: of one whose answer has been written nobody can know
whether it arrived. While the server stands the owner may ask once more: that is worked off after the answers.
"""

from itertools import product

import pytest

from harness import drawn_from, failpoint, wait_for
from model.failpoint_scene import CONFIG
from model.once_scene import KINDS, LONG, answer, asks, drained, keeps_out, lets_in, releases, waits

pytestmark = pytest.mark.usefixtures("checking_build")

# Each by ONCE, or as a wait that adds a hold.
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

KINDS_OF_TWO = [kind for kind in KINDS if kind != "fair"]  # where there is one position for an owner


def holds_kept(pair, dead):
    """Of those that the grants add: the first does, the second unless by ONCE. Then it relies on the first one's."""
    first = 0 not in dead or (pair[1] and 1 not in dead)
    second = not pair[1] and 1 not in dead
    return first + second


@pytest.fixture(scope="module")
def new_server():
    return lambda make: make(**CONFIG)


class Stage:
    """x holds k; both waits of o stand, and y behind them."""

    def __init__(self, server, kind, pair):
        self.server, self.kind, self.pair = server, kind, pair
        assert server.control.execute_command(*keeps_out(kind)) is not None
        self.both = [waits(server.actor(), *self.words(once)) for once in pair]
        self.y = waits(server.actor("y"), "LOCK.ACQUIRE", "k", "y", "PX", LONG)
        self.again = server.actor("again")
        server.all_searched()  # no drain is under way

    def words(self, once):
        return [word for word in asks(self.kind) if once or word != "ONCE"]

    def goes(self, dead):
        """x releases, and these die in the same packet."""
        kills = [f"CLIENT KILL ID {self.both[number].client_id}" for number in dead]
        self.server.raw_connection().sendall("".join(f"{line}\r\n" for line in [lets_in(self.kind), *kills]).encode())

    def told(self, dead, asked_again):
        """How often the owner is to hold it, by what its living clients hear."""
        for number, one in enumerate(self.both):
            if number not in dead:
                assert one.reply() in (answer(self.kind), 2 * answer(self.kind))
        count = holds_kept(self.pair, dead)
        if asked_again:
            count = max(count, int(self.again.reply() is not None))
        return count

    def ends(self, count):
        """Nobody holds more than that, and y gets it after so many releases."""
        drained_but_y(self.server, count)
        for left in reversed(range(count)):
            assert not self.y.has_reply()
            got = self.server.control.execute_command(*releases(self.kind))
            each = answer(self.kind) if self.kind == "permits" else 1
            assert got == ((0 if left else 2) if self.kind == "multikey" else left * each)
        assert self.y.reply() == 1
        drained(self.server)
        assert self.server.control.hgetall("k") == {"y": "1"}
        assert self.y.call("LOCK.RELEASE", "k", "y") == 0
        assert self.server.control.dbsize() == 0
        info = self.server.info("lock")
        assert [info[f"lock_{field}"] for field in ("waiters", "contended_locks", "sessions")] == [0, 0, 0]
        for actor in (*self.both, self.y, self.again):
            actor.close()


def drained_but_y(server, count):
    wait_for(lambda: server.info("lock")["lock_waiters"] == (1 if count else 0), what="the waits to end")
    server.settle()


def cases():
    """All in which the server reaches the point: that of a release only if a hold is lost."""
    for kind, (pair, both), (death, dead), point, asked_again in product(
        KINDS_OF_TWO, PAIRS.items(), DEAD.items(), POINTS, (False, True)
    ):
        if point != "release.begun" or holds_kept(both, dead) < holds_kept(both, ()):
            name = "-".join([kind, pair, death, point, *(["asked_again"] if asked_again else [])])
            yield pytest.param(kind, both, dead, point, asked_again, id=name)


@pytest.mark.parametrize("kind, pair, dead, point, asked_again", drawn_from(cases()))
def test_owner_holds_what_its_living_clients_were_granted(server, kind, pair, dead, point, asked_again):
    stage = Stage(server, kind, pair)
    failpoint.arm(server, point, "stop", POINTS[point])
    stage.goes(dead)
    with failpoint.standing(server):
        if asked_again:
            stage.again.send(*stage.words(True))
    assert failpoint.armed(server) == ""
    stage.ends(stage.told(dead, asked_again))
