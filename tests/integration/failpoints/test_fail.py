"""Calls of the module that the server may refuse are refused: nothing is lost, and nothing is left."""

import pytest
from redis.exceptions import ResponseError

from harness import failpoint, wait_for
from harness.schedule import as_map
from model.failpoint_play import Play
from model.failpoint_scene import CONFIG, LONG, SCENES, Scene

pytestmark = pytest.mark.usefixtures("checking_build")


@pytest.fixture(scope="module")
def new_server():
    return lambda make: make(**CONFIG)


# ---- the server accepts no write now: the drain runs again later ----

DUE, LOST = SCENES["sees_locks_deleted"], SCENES["loses_a_grant"]
MULTIKEY_LOST = Scene(
    (
        "a LOCK.MACQUIRE 3 k l m a",
        "b LOCK.MACQUIRE 3 k l m b BLOCK 0",
        *(f"{name} LOCK.ACQUIRE {key} {name} BLOCK 0" for name, key in ("ck", "dl", "em")),
    ),
    ("at_once LOCK.MRELEASE 3 k l m a", "at_once CLIENT KILL ID {b}"),
)
SESSION_GONE = Scene(
    (
        "a LOCK.ACQUIRE k a SESSION",
        "a LOCK.RWWRITE l a SESSION",
        "b LOCK.ACQUIRE k b BLOCK 0",
        "c LOCK.RWREAD l c BLOCK 0",
        "d LOCK.RWREAD l d BLOCK 0",
    ),
    ("a DIES",),
)

REFUSED = dict(
    due_lock=(DUE, 1),
    second_due_lock=(DUE, 2),
    lost_grant=(LOST, 1),
    first_of_a_lost_multikey_grant=(MULTIKEY_LOST, 1),
    second_of_a_lost_multikey_grant=(MULTIKEY_LOST, 2),
    last_of_a_lost_multikey_grant=(MULTIKEY_LOST, 3),
    end_of_a_session=(SESSION_GONE, 1),
    second_end_of_a_session=(SESSION_GONE, 2),
)


def wait_granted(play, names):
    """Waits until the waiters with these names have received their grants."""

    def granted():
        play.receive()
        return {party.owner for party in play.parties.values() if party.holds and party.owner in names}

    wait_for(lambda: granted() == set(names), 10, f"{names} to be granted")


@pytest.mark.parametrize("scene, count", REFUSED.values(), ids=REFUSED)
def test_drain_that_is_refused_once_runs_again(server, scene, count):
    play = Play(server, scene).begin()
    failpoint.arm(server, "consent", "fail", count)
    play.go()
    failpoint.wait_passed(server)
    waiting = {owner for owner, words in play.requests if "BLOCK" in words}
    wait_granted(play, waiting if scene in (DUE, SESSION_GONE) else waiting - {"b"})
    play.finish()
    play.check_nothing_left()


# ---- the client cannot be blocked: the reply is that of a request without BLOCK ----

HOLDER = ("a LOCK.ACQUIRE k a", "a LOCK.RWREAD l a")
REQUESTS = [f"{command} k b" for command in ("LOCK.ACQUIRE", "LOCK.FAIR")]
REQUESTS += [
    "LOCK.ACQUIRE k b FENCED", "LOCK.FAIR k b SESSION", "LOCK.RWWRITE l b", "LOCK.RWREAD k b", "LOCK.RWWRITE l r"
]
REQUESTS += ["LOCK.MACQUIRE 2 k free b", "LOCK.MACQUIRE 2 free k b SESSION"]


@pytest.fixture(params=[False, True], ids=["without_waiters", "with_waiters"])
def held(server, request):
    """k is held, and l is read by a and r; also with waiters for k."""
    play = Play(server, Scene((*HOLDER, "r LOCK.RWREAD l r"), ())).begin()
    if request.param:
        for line in ("f LOCK.FAIR k f BLOCK 0", "g LOCK.ACQUIRE k g BLOCK 0"):
            play.send(line).actor.wait_blocked()
    server.all_searched()
    return play


def state_of(server):
    info = server.info("lock")
    waiting = [info[field] for field in ("lock_waiters", "lock_contended_locks", "lock_sessions")]
    queues = [as_map(server.control.execute_command("LOCK.INFO", key)).get("waiting") for key in "kl"]
    return server.dump(), waiting, queues, server.blocked_clients()


@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize("block", [0, LONG])
def test_client_that_cannot_be_blocked_receives_null_and_leaves_nothing(server, held, request_, block):
    client = server.actor()
    before = state_of(server)
    failpoint.arm(server, "block", "fail")
    assert client.call(*request_.split(), "BLOCK", block) is None
    assert failpoint.armed(server) == ""
    assert state_of(server) == before
    # The next time it waits.
    client.send(*request_.split(), "BLOCK", 0)
    client.wait_blocked()
    client.close()
    held.finish()
    held.check_nothing_left()


def test_reserved_position_is_kept_if_its_owner_cannot_be_blocked(server):
    server.control.config_set("lock.fair-reserve", LONG)
    play = Play(server, Scene(("a LOCK.ACQUIRE k a", "b LOCK.FAIR k b BLOCK 0", "c LOCK.FAIR k c BLOCK 0"), ())).begin()
    play.parties["b"].dies()
    wait_for(lambda: server.info("lock")["lock_waiters"] == 1, what="the position to be without a client")
    server.settle()  # its new end is written
    before, again = state_of(server), server.actor("b")
    failpoint.arm(server, "block", "fail")
    assert again.call("LOCK.FAIR", "k", "b", "BLOCK", 0) is None
    assert state_of(server) == before
    again.send("LOCK.FAIR", "k", "b", "PX", LONG, "BLOCK", 0)
    again.wait_blocked()
    assert play.parties["a"].releases() == 0
    assert again.reply() == 1
    assert again.call("LOCK.RELEASE", "k", "b") == 0
    play.finish()
    play.check_nothing_left()


def test_client_keeps_its_position_if_another_cannot_be_blocked(server):
    play = Play(server, Scene(("a LOCK.ACQUIRE k a", "b LOCK.FAIR k b BLOCK 0"), ())).begin()
    before, again = state_of(server), server.actor("b")
    failpoint.arm(server, "block", "fail")
    assert again.call("LOCK.FAIR", "k", "b", "BLOCK", 0) is None
    assert state_of(server) == before
    assert play.parties["a"].releases() == 0
    play.finish()
    play.check_nothing_left()


# ---- the config ----

GOOD = [f"{point} {action}" for point in sorted(failpoint.points()) for action in ("kill", "stop", "fail")]
GOOD += ["effect stop 1", "effect stop 1000000"]
BAD = ["effect", "kill", "no.such kill", "effect explode", "EFFECT kill", "effect kill 0", "effect kill -1"]
BAD += ["effect kill x", "effect kill 1x", "effect kill 1 1", "effect kill +1", "effect kill 1.5", " ", "effect,kill"]
BAD += ["effect kill 99999999999999999999", "effect kill " + "0" * 60 + "1", "e" * 1000, "effect kill 1\0"]


def test_every_point_and_action_can_be_set(server):
    for value in GOOD:
        server.control.config_set(failpoint.CONFIG, value)
        assert failpoint.armed(server) == value
    server.control.config_set(failpoint.CONFIG, "")
    assert failpoint.armed(server) == ""


@pytest.mark.parametrize("old", ["", "block fail 2"])
@pytest.mark.parametrize("value", BAD)
def test_bad_value_is_refused_and_leaves_the_old_one(server, value, old):
    server.control.config_set(failpoint.CONFIG, old)
    with pytest.raises(ResponseError, match="no such failpoint"):
        server.control.config_set(failpoint.CONFIG, value)
    assert failpoint.armed(server) == old


def test_failpoint_stays_set_after_a_bad_value(server):
    failpoint.arm(server, "block", "fail")
    with pytest.raises(ResponseError):
        server.control.config_set(failpoint.CONFIG, "take.begun explode")
    server.control.execute_command("LOCK.ACQUIRE", "k", "a")
    assert server.control.execute_command("LOCK.ACQUIRE", "k", "b", "BLOCK", 0) is None


def test_failpoint_happens_at_the_nth_visit_and_once(server):
    failpoint.arm(server, "block", "fail", 3)
    server.control.execute_command("LOCK.ACQUIRE", "k", "a")
    for owner in "bcde":
        client = server.actor()
        client.send("LOCK.ACQUIRE", "k", owner, "BLOCK", 0)
        if owner == "d":
            assert client.reply() is None
            assert failpoint.armed(server) == ""
        else:
            client.wait_blocked()
