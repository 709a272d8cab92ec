"""An owner changes its hold while another grant of the lock is in flight, to a client that is dead."""

import pytest

from harness import wait_for
from model.once_scene import LONG, waits
from model.session_scene import long_grace  # noqa: F401


@pytest.fixture
def die_at_grant(server, at_once, actor):
    """die_at_grant("LOCK.RWWRITE k o", "LOCK.RELEASE k x", …): the first command waits; the second grants it, and its
    client is killed in the same packet, which also has the other commands. Returns the replies to these."""

    def play(waiting, granting, *then, lease=LONG):
        dies = waits(actor("dies"), *waiting.split(), "PX", lease)
        replies = at_once(granting, f"CLIENT KILL ID {dies.client_id}", *then)
        dies.wait_closed()
        server.settle()
        return replies[2:]

    return play


@pytest.fixture
def take(server):
    """take("LOCK.ACQUIRE k o", …): each is granted without a wait, and its connection stays open."""

    def run(*commands):
        for command in commands:
            assert server.control.execute_command(*command.split(), "PX", LONG)

    return run


def held(server, key="k"):
    return {name: value for name, value in server.control.hgetall(key).items() if name != "mode"}


# What the owner acquires again

EACH_REQUEST = pytest.mark.parametrize("once", ["", " ONCE"], ids=["another", "once"])


@EACH_REQUEST
def test_write_hold_released_meanwhile_can_be_acquired_again(server, die_at_grant, take, once):
    take("LOCK.RWREAD k o", "LOCK.RWREAD k x")
    then = ("LOCK.RELEASE k o WRITE", f"LOCK.RWWRITE k o{once} PX {LONG}")
    assert die_at_grant("LOCK.RWWRITE k o", "LOCK.RELEASE k x", *then) == [0, 1]
    assert held(server) == {"o": "1", "o:write": "1"}
    assert server.control.execute_command("LOCK.RWREAD", "k", "x") is None
    assert server.control.execute_command("LOCK.RELEASE", "k", "o", "WRITE") == 0
    assert held(server) == {"o": "1"}


@EACH_REQUEST
def test_write_hold_that_expired_meanwhile_can_be_acquired_again(server, die_at_grant, take, once):
    take("LOCK.RWREAD k o", "LOCK.RWREAD k x")
    then = ("DEBUG SLEEP 0.05", f"LOCK.RWWRITE k o{once} PX {LONG}")
    assert die_at_grant("LOCK.RWWRITE k o", "LOCK.RELEASE k x", *then, lease=5)[1] == 1
    assert held(server) == {"o": "1", "o:write": "1"}


@pytest.mark.parametrize("request_again", ["PERMITS 3 ONCE", "PERMITS 2"], ids=["once", "another"])
def test_permits_released_meanwhile_can_be_acquired_again(server, die_at_grant, take, request_again):
    take("LOCK.SEMAPHORE k o 3", "LOCK.SEMAPHORE k x 3 PERMITS 2")
    then = ("LOCK.RELEASE k o PERMITS 2", f"LOCK.SEMAPHORE k o 3 {request_again} PX {LONG}")
    assert die_at_grant("LOCK.SEMAPHORE k o 3 PERMITS 2", "LOCK.RELEASE k x PERMITS 2", *then) == [1, 3]
    assert held(server) == {"o": "3"}


# A grant whose reply was sent is not released for one in flight


def test_release_after_a_cancel_keeps_the_permit_that_was_replied(server, die_at_grant, take):
    take("LOCK.SEMAPHORE k o 3", "LOCK.SEMAPHORE k x 3 PERMITS 2")
    then = ("LOCK.CANCEL k o", "LOCK.RELEASE k o PERMITS 2")
    assert die_at_grant("LOCK.SEMAPHORE k o 3 PERMITS 2", "LOCK.RELEASE k x PERMITS 2", *then) == [0, 1]
    assert held(server) == {"o": "1"}
    assert server.control.execute_command("LOCK.RELEASE", "k", "o") == 0


def test_cancel_release_releases_a_grant_in_flight_once(server, die_at_grant, take):
    take("LOCK.SEMAPHORE k o 3", "LOCK.SEMAPHORE k x 3 PERMITS 2")
    then = ("LOCK.CANCEL k o RELEASE PERMITS 2",)
    assert die_at_grant("LOCK.SEMAPHORE k o 3 PERMITS 2", "LOCK.RELEASE k x PERMITS 2", *then) == [2]
    assert held(server) == {"o": "1"}


def test_cancel_release_of_a_grant_to_a_dead_client_frees_the_lock(server, die_at_grant, take, actor):
    take("LOCK.ACQUIRE k x")
    then = ("LOCK.CANCEL k o RELEASE", "LOCK.ACQUIRE k o PX 600000")
    replies = die_at_grant("LOCK.ACQUIRE k o", "LOCK.RELEASE k x", *then)
    assert replies == [2, 1]
    assert held(server) == {"o": "1"}


def test_release_after_a_cancel_keeps_the_plain_hold_that_was_replied(server, die_at_grant, take):
    """k is already held when a multi-key request is granted; both keys are released once."""
    take("LOCK.ACQUIRE k o", "LOCK.ACQUIRE l x")
    then = ("LOCK.CANCEL l o", "LOCK.MRELEASE 2 k l o")
    assert die_at_grant("LOCK.MACQUIRE 2 k l o", "LOCK.RELEASE l x", *then) == [0, 1]
    assert held(server) == {"o": "1"} and not server.control.exists("l")
    assert server.control.execute_command("LOCK.RELEASE", "k", "o") == 0


# A hold in a reply to LOCK.RENEW is kept

# The commands before, the request that waits, what grants it; the holds that are left with the renewal, and without.
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
def test_hold_that_a_renewal_has_replied_is_kept(server, die_at_grant, take, long_grace, kind, renewal):  # noqa: F811
    before, waiting, granting, renewed, _ = RENEWED[kind]
    take(*before)
    replies = die_at_grant(waiting, granting, f"LOCK.RENEW k o {renewal}")
    assert replies == [sum(map(int, renewed.values()))]
    assert held(server) == renewed


@each_renewed
def test_hold_that_no_reply_has_named_is_released(server, die_at_grant, take, kind):
    """It shows that the grant was in flight, so the renewal in the other test had something to keep."""
    before, waiting, granting, _, lost = RENEWED[kind]
    take(*before)
    die_at_grant(waiting, granting)
    wait_for(lambda: held(server) == lost, what="the lost hold to be released")
