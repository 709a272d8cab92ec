"""What an owner does to a lock while another grant of it is in flight, to a client that is dead."""

import pytest

from harness import wait_for
from model.once_scene import LONG, waits
from model.session_scene import long_grace  # noqa: F401


@pytest.fixture
def turn(server, at_once, actor):
    """turn("LOCK.RWWRITE k o", "LOCK.RELEASE k x", …): the first waits; the second lets it in, and its client dies in
    the same turn, in which the others are said too. Returns what they are answered."""

    def play(waiting, lets_in, *then, lease=LONG):
        dies = waits(actor("dies"), *waiting.split(), "PX", lease)
        answers = at_once(lets_in, f"CLIENT KILL ID {dies.client_id}", *then)
        dies.wait_closed()
        server.settle()
        return answers[2:]

    return play


@pytest.fixture
def take(server):
    """take("LOCK.ACQUIRE k o", …): each is granted at once; the connection that was told goes on living."""

    def say(*commands):
        for command in commands:
            assert server.control.execute_command(*command.split(), "PX", LONG)

    return say


def held(server, key="k"):
    return {name: value for name, value in server.control.hgetall(key).items() if name != "mode"}


# What the owner takes anew

EACH_REQUEST = pytest.mark.parametrize("once", ["", " ONCE"], ids=["another", "once"])


@EACH_REQUEST
def test_a_write_hold_that_was_released_is_taken_anew(server, turn, take, once):
    take("LOCK.RWREAD k o", "LOCK.RWREAD k x")
    then = ("LOCK.RELEASE k o WRITE", f"LOCK.RWWRITE k o{once} PX {LONG}")
    assert turn("LOCK.RWWRITE k o", "LOCK.RELEASE k x", *then) == [0, 1]
    assert held(server) == {"o": "1", "o:write": "1"}
    assert server.control.execute_command("LOCK.RWREAD", "k", "x") is None
    assert server.control.execute_command("LOCK.RELEASE", "k", "o", "WRITE") == 0
    assert held(server) == {"o": "1"}


@EACH_REQUEST
def test_a_write_hold_whose_lease_has_ended_is_taken_anew(server, turn, take, once):
    take("LOCK.RWREAD k o", "LOCK.RWREAD k x")
    then = ("DEBUG SLEEP 0.05", f"LOCK.RWWRITE k o{once} PX {LONG}")
    assert turn("LOCK.RWWRITE k o", "LOCK.RELEASE k x", *then, lease=5)[1] == 1
    assert held(server) == {"o": "1", "o:write": "1"}


@pytest.mark.parametrize("request_anew", ["PERMITS 3 ONCE", "PERMITS 2"], ids=["once", "another"])
def test_permits_that_were_released_are_taken_anew(server, turn, take, request_anew):
    take("LOCK.SEMAPHORE k o 3", "LOCK.SEMAPHORE k x 3 PERMITS 2")
    then = ("LOCK.RELEASE k o PERMITS 2", f"LOCK.SEMAPHORE k o 3 {request_anew} PX {LONG}")
    assert turn("LOCK.SEMAPHORE k o 3 PERMITS 2", "LOCK.RELEASE k x PERMITS 2", *then) == [1, 3]
    assert held(server) == {"o": "3"}


# What somebody was told of stays when the owner gives up


def test_a_release_after_a_cancel_leaves_the_permit_that_was_told(server, turn, take):
    take("LOCK.SEMAPHORE k o 3", "LOCK.SEMAPHORE k x 3 PERMITS 2")
    then = ("LOCK.CANCEL k o", "LOCK.RELEASE k o PERMITS 2")
    assert turn("LOCK.SEMAPHORE k o 3 PERMITS 2", "LOCK.RELEASE k x PERMITS 2", *then) == [0, 1]
    assert held(server) == {"o": "1"}
    assert server.control.execute_command("LOCK.RELEASE", "k", "o") == 0


def test_giving_up_takes_what_is_in_flight_once(server, turn, take):
    take("LOCK.SEMAPHORE k o 3", "LOCK.SEMAPHORE k x 3 PERMITS 2")
    then = ("LOCK.CANCEL k o RELEASE PERMITS 2",)
    assert turn("LOCK.SEMAPHORE k o 3 PERMITS 2", "LOCK.RELEASE k x PERMITS 2", *then) == [2]
    assert held(server) == {"o": "1"}


def test_giving_up_what_went_to_a_dead_client_hands_it_on(server, turn, take, actor):
    take("LOCK.ACQUIRE k x")
    answers = turn("LOCK.ACQUIRE k o", "LOCK.RELEASE k x", "LOCK.CANCEL k o RELEASE", "LOCK.ACQUIRE k o PX 600000")
    assert answers == [2, 1]
    assert held(server) == {"o": "1"}


def test_a_release_after_a_cancel_leaves_the_plain_hold_that_was_told(server, turn, take):
    """k is held already when several keys are granted; both are released once."""
    take("LOCK.ACQUIRE k o", "LOCK.ACQUIRE l x")
    then = ("LOCK.CANCEL l o", "LOCK.MRELEASE 2 k l o")
    assert turn("LOCK.MACQUIRE 2 k l o", "LOCK.RELEASE l x", *then) == [0, 1]
    assert held(server) == {"o": "1"} and not server.control.exists("l")
    assert server.control.execute_command("LOCK.RELEASE", "k", "o") == 0


# What somebody was told of by LOCK.RENEW stays

# What is there before, who waits, what lets it in; the holds that are left with the renewal, and without.
RENEWED = {
    "plain": (["LOCK.ACQUIRE k x"], "LOCK.ACQUIRE k o", "LOCK.RELEASE k x", {"o": "1"}, {}),
    "fair": (["LOCK.FAIR k x"], "LOCK.FAIR k o", "LOCK.RELEASE k x", {"o": "1"}, {}),
    "read": (["LOCK.RWWRITE k x"], "LOCK.RWREAD k o", "LOCK.RELEASE k x", {"o": "1"}, {}),
    "write": (["LOCK.RWREAD k x"], "LOCK.RWWRITE k o", "LOCK.RELEASE k x", {"o:write": "1"}, {}),
    "upgrade": (
        ["LOCK.RWREAD k o", "LOCK.RWREAD k x"],
        "LOCK.RWWRITE k o",
        "LOCK.RELEASE k x",
        {"o": "1", "o:write": "1"},
        {"o": "1"},
    ),
    "permits": (
        ["LOCK.SEMAPHORE k x 3 PERMITS 3"],
        "LOCK.SEMAPHORE k o 3 PERMITS 2",
        "LOCK.RELEASE k x PERMITS 3",
        {"o": "2"},
        {},
    ),
    "more permits": (
        ["LOCK.SEMAPHORE k o 3", "LOCK.SEMAPHORE k x 3 PERMITS 2"],
        "LOCK.SEMAPHORE k o 3 PERMITS 2",
        "LOCK.RELEASE k x PERMITS 2",
        {"o": "3"},
        {"o": "1"},
    ),
    "permits in place of fewer": (
        ["LOCK.SEMAPHORE k o 3", "LOCK.SEMAPHORE k x 3 PERMITS 2"],
        "LOCK.SEMAPHORE k o 3 PERMITS 2 ONCE",
        "LOCK.RELEASE k x PERMITS 2",
        {"o": "2"},
        {"o": "1"},
    ),
    "once": (["LOCK.ACQUIRE k x"], "LOCK.ACQUIRE k o ONCE", "LOCK.RELEASE k x", {"o": "1"}, {}),
    "multikey": (["LOCK.ACQUIRE k x"], "LOCK.MACQUIRE 1 k o", "LOCK.RELEASE k x", {"o": "1"}, {}),
}
each_renewed = pytest.mark.parametrize("kind", RENEWED)


@each_renewed
@pytest.mark.parametrize("renewal", [f"PX {LONG}", "SESSION"])
def test_what_a_renewal_has_told_of_stays(server, turn, take, long_grace, kind, renewal):  # noqa: F811
    before, waiting, lets_in, renewed, _ = RENEWED[kind]
    take(*before)
    answers = turn(waiting, lets_in, f"LOCK.RENEW k o {renewal}")
    assert answers == [sum(map(int, renewed.values()))]
    assert held(server) == renewed


@each_renewed
def test_what_nobody_was_told_of_does_not(server, turn, take, kind):
    """It is in flight, so that the renewal has something to keep."""
    before, waiting, lets_in, _, lost = RENEWED[kind]
    take(*before)
    turn(waiting, lets_in)
    wait_for(lambda: held(server) == lost, what="what was lost to be released")
