"""Clients die between grant and reply: a hold is released when all clients that received it, or were to, have died."""

from itertools import permutations, product

import pytest

from harness import scaled, scaled_ms, wait_for
from model.once_scene import (
    LONG,
    OF_TWO,
    answer,
    asks,
    releases,
    wait_drained,
    each_kind,
    free_by_one_release,
    keeps_out,
    lets_in,
    waits,
)
from model.session_scene import server  # noqa: F401


def kill(actor):
    return f"CLIENT KILL ID {actor.client_id}"


def line(words):
    return " ".join(str(word) for word in words)


def without_once(kind):
    return [word for word in asks(kind) if word != "ONCE"]


@pytest.fixture
def scene(server, actor):  # noqa: F811
    """scene(kind, requests): x holds k, the requests of o wait in this order, and y behind them."""

    def make(kind, *requests):
        assert server.control.execute_command(*keeps_out(kind)) is not None
        waiters = [waits(actor(), *words) for words in requests]
        return waiters, waits(actor("y"), "LOCK.ACQUIRE", "k", "y", "PX", LONG)

    return make


def is_granted_to_y(server, y):  # noqa: F811
    assert y.reply() == 1
    wait_drained(server)
    assert server.control.hgetall("k") == {"y": "1"} and not server.control.exists("l")


def is_held_until_one_release(server, kind, y):  # noqa: F811
    server.settle()
    assert not y.has_reply()
    assert server.control.execute_command("LOCK.INFO", "k")
    one_release(server, kind)
    is_granted_to_y(server, y)


def one_release(server, kind):  # noqa: F811
    assert server.control.execute_command(*releases(kind)) == (2 if kind in OF_TWO else 0)


SESSIONS = list(product([(), ("SESSION",)], repeat=2))


@each_kind("fair")
@pytest.mark.parametrize("sessions", SESSIONS, ids=lambda both: "+".join("session" if one else "lease" for one in both))
@pytest.mark.parametrize("dead", [0, 1])
def test_hold_remains_when_one_of_two_that_share_it_dies(server, at_once, scene, kind, sessions, dead):  # noqa: F811
    """Whichever dies, the other client has the hold, with its own lease or session."""
    both, y = scene(kind, *(asks(kind, *session) for session in sessions))
    at_once(lets_in(kind), kill(both[dead]))
    alive = both[1 - dead]
    assert alive.reply() == answer(kind)
    wait_for(lambda: not both[dead].is_connected(), what="the other to disconnect")
    if sessions[1 - dead]:
        assert session_of(server) == alive.client_id
    else:
        assert session_of(server) is None
    drained_but(server, 1)
    is_held_until_one_release(server, kind, y)


def session_of(server):  # noqa: F811
    info = server.control.execute_command("LOCK.INFO", "k")
    (holder,) = info[info.index("holders") + 1]
    return holder[holder.index("session") + 1]


def drained_but(server, waiters):  # noqa: F811
    wait_for(lambda: server.info("lock")["lock_waiters"] == waiters, what="the others to disconnect")
    server.settle()


@each_kind("fair")
@pytest.mark.parametrize("order", list(permutations([0, 1, 2])), ids=str)
@pytest.mark.parametrize("alive", [0, 1])
def test_hold_remains_until_all_three_that_share_it_have_died(server, at_once, scene, kind, order, alive):  # noqa: F811
    three, y = scene(kind, *[asks(kind)] * 3)
    dying = order[alive:]
    at_once(lets_in(kind), *(kill(three[number]) for number in dying))
    if not alive:
        is_granted_to_y(server, y)
        return
    assert three[order[0]].reply() == answer(kind)
    drained_but(server, 1)
    is_held_until_one_release(server, kind, y)


@each_kind()
@pytest.mark.parametrize("first", ["once", "not once"])
def test_repeated_request_keeps_the_hold_of_one_that_dies(server, at_once, scene, kind, first):  # noqa: F811
    """The request is repeated at the moment at which the first one is granted."""
    (a,), y = scene(kind, asks(kind) if first == "once" else without_once(kind))
    at_once(lets_in(kind), kill(a), line(asks(kind)))
    drained_but(server, 1)
    is_held_until_one_release(server, kind, y)


@each_kind()
def test_repeated_request_keeps_the_hold_of_one_that_dies_later(server, at_once, scene, kind):  # noqa: F811
    (a,), y = scene(kind, asks(kind))
    at_once(lets_in(kind), line(asks(kind)), kill(a))
    drained_but(server, 1)
    is_held_until_one_release(server, kind, y)


@each_kind("fair", "multikey")
@pytest.mark.parametrize("order", [0, 1])
def test_hold_that_existed_before_the_grants_is_not_released(server, at_once, actor, kind, order):  # noqa: F811
    """Two waits are granted a hold that their owner acquired meanwhile on another connection: neither adds a hold."""
    assert server.control.execute_command(*keeps_out(kind)) is not None
    both = [waits(actor(), *asks(kind)) for _ in range(2)]
    dying = both if order else both[::-1]
    at_once("LOCK.FORCE k", *(kill(one) for one in dying), line(asks(kind)))
    wait_drained(server)
    assert server.control.exists("k")
    free_by_one_release(server, kind)


@pytest.mark.parametrize("dead", ["once", "more", "both"])
def test_hold_remains_for_the_survivor_of_a_once_and_a_counted_wait(server, at_once, scene, dead):  # noqa: F811
    (once, more), y = scene("plain", asks("plain"), without_once("plain"))
    dying = {"once": [once], "more": [more], "both": [once, more]}[dead]
    at_once(lets_in("plain"), *map(kill, dying))
    if dead == "both":
        is_granted_to_y(server, y)
        return
    alive = more if dead == "once" else once
    assert alive.reply() in (1, 2)
    drained_but(server, 1)
    is_held_until_one_release(server, "plain", y)


@pytest.mark.parametrize("dead", ["once", "more", "both"])
def test_hold_remains_for_the_survivor_of_a_counted_and_a_once_wait(server, at_once, scene, dead):  # noqa: F811
    """The first grant added the hold that is in the reply to the second."""
    (more, once), y = scene("plain", without_once("plain"), asks("plain"))
    dying = {"once": [once], "more": [more], "both": [once, more]}[dead]
    at_once(lets_in("plain"), *map(kill, dying))
    if dead == "both":
        is_granted_to_y(server, y)
        return
    drained_but(server, 1)
    is_held_until_one_release(server, "plain", y)


# Permits: a grant may add some, and depend on other grants for the rest.

PERMITS = {
    # permits that each requests, who dies, how many are left
    "less, then more; the first dies": ([2, 3], [0], 3),
    "less, then more; the second dies": ([2, 3], [1], 2),
    "more, then less; the first dies": ([3, 2], [0], 2),
    "more, then less; the second dies": ([3, 2], [1], 3),
    "three; the last one survives": ([1, 2, 3], [0, 1], 3),
    "three; the first one survives": ([1, 2, 3], [1, 2], 1),
    "three; the middle one survives": ([1, 3, 2], [0, 1], 2),
    "both die": ([2, 3], [1, 0], 0),
}


@pytest.mark.parametrize("requested, dead, left", PERMITS.values(), ids=PERMITS)
def test_as_many_permits_remain_as_the_largest_reply_sent(server, actor, at_once, requested, dead, left):  # noqa: F811
    assert server.control.execute_command("LOCK.SEMAPHORE", "k", "x", 3, "PERMITS", 3) == 3
    words = "LOCK.SEMAPHORE k o 3 PERMITS {} ONCE"
    waiters = [waits(actor(), *words.format(number).split()) for number in requested]
    at_once("LOCK.RELEASE k x PERMITS 3", *(kill(waiters[number]) for number in dead))
    for number, waiter in enumerate(waiters):
        if number not in dead:
            assert waiter.reply() >= requested[number]
    wait_drained(server)
    assert server.control.hgetall("k") == ({"mode": "semaphore", "o": str(left)} if left else {})


@pytest.mark.parametrize("requested", [1, 2, 3])
def test_permits_of_a_repeated_request_remain(server, actor, at_once, requested):  # noqa: F811
    assert server.control.execute_command("LOCK.SEMAPHORE", "k", "x", 3, "PERMITS", 3) == 3
    a = waits(actor(), *"LOCK.SEMAPHORE k o 3 PERMITS 2 ONCE".split())
    at_once("LOCK.RELEASE k x PERMITS 3", kill(a), f"LOCK.SEMAPHORE k o 3 PERMITS {requested} ONCE")
    wait_drained(server)
    assert server.control.hget("k", "o") == str(requested)


# The first reply is known to be lost, and the drain has not run yet.


@pytest.mark.parametrize("then, left", [("LOCK.RELEASE k x", 2), ("LOCK.SEMAPHORE k o 3 PERMITS 1 ONCE", 1)])
def test_grant_that_depends_on_a_lost_hold_keeps_it(server, actor, at_once, then, left):  # noqa: F811
    """While the server sleeps the next packet arrives; it is processed after the replies and before the drain."""
    assert server.control.execute_command("LOCK.SEMAPHORE", "k", "x", 3, "PERMITS", 3) == 3
    dies = waits(actor(), *"LOCK.SEMAPHORE k o 3 ONCE".split())
    lives = waits(actor(), *"LOCK.SEMAPHORE k o 3 PERMITS 2 ONCE".split()) if left == 2 else None
    server.control.execute_command("LOCK.RENEW", "k", "x", "PX", LONG)
    first, second = server.raw_connection(), server.raw_connection()
    first.sendall(f"DEBUG SLEEP {scaled(0.5)}\r\nLOCK.RELEASE k x\r\n{kill(dies)}\r\n".encode())
    wait_until_asleep(server)
    second.sendall(f"{then}\r\n".encode())
    assert second.recv(100) == b":1\r\n"
    if lives:
        assert lives.reply() == 2
    wait_drained(server)
    assert server.control.hget("k", "o") == str(left)


def wait_until_asleep(server):  # noqa: F811
    """The server has read its packet, so a packet that arrives now is not processed before the sleep ends."""
    stat = f"/proc/{server.pid}/syscall"
    wait_for(lambda: "clock_nanosleep" in _names(stat), what="the server to sleep")


def _names(stat):
    # 230 is clock_nanosleep of x86-64, 115 that of 64-bit ARM; 35 and 101 are nanosleep.
    with open(stat) as file:
        return ["clock_nanosleep"] if file.read().split()[0] in ("230", "115", "35", "101") else []


# Sessions


def test_session_is_bound_to_the_connection_that_requested_it_last(server, actor):  # noqa: F811
    a, b = actor("a"), actor("b")
    for one, other in ((b, a), (a, b)):
        assert one.call("LOCK.ACQUIRE", "k", "o", "ONCE", "SESSION") == 1
        assert session_of(server) == one.client_id
        assert other.call("LOCK.ACQUIRE", "k", "o", "ONCE") == 1
        assert session_of(server) == one.client_id
    b.close()
    wait_drained(server)
    assert server.control.exists("k")
    a.close()
    wait_for(lambda: not server.control.exists("k"), what="the session to end")


def test_session_of_several_waits_is_bound_to_the_newest_connection(server, actor, at_once):  # noqa: F811
    assert server.control.execute_command("LOCK.RWREAD", "k", "x") == 1
    assert server.control.execute_command("LOCK.RWREAD", "k", "o") == 1
    waiters = [waits(actor(), "LOCK.RWWRITE", "k", "o", "ONCE", "SESSION") for _ in range(3)]
    assert server.control.execute_command("LOCK.RELEASE", "k", "x") == 0
    assert [waiter.reply() for waiter in waiters] == [1, 1, 1]
    info = server.control.execute_command("LOCK.INFO", "k")
    for holder in info[info.index("holders") + 1]:
        assert holder[holder.index("session") + 1] == waiters[-1].client_id


def test_owner_may_reconnect_within_the_grace(make_server):
    server = make_server(lock_session_grace=scaled_ms(2000))  # noqa: F811
    a, b = server.actor("a"), server.actor("b")
    assert a.call("LOCK.ACQUIRE", "k", "o", "ONCE", "SESSION") == 1
    a.kill_socket()
    wait_for(lambda: session_of(server) is None, what="the first connection to close")
    assert b.call("LOCK.ACQUIRE", "k", "o", "ONCE", "SESSION") == 1
    assert session_of(server) == b.client_id
    b.close()
    wait_for(lambda: not server.control.exists("k"), 10, "the session to end")
