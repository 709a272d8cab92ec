"""Several waits of one owner with ONCE: one grant replies to them all."""

import pytest

from harness import wait_for
from harness.schedule import BLOCKS, CLOSES, DIES, STILL_BLOCKED, as_map, error, granted, run_schedule, schedules
from model.crowd import Crowd
from model.once_scene import (
    OF_TWO,
    answer,
    asks,
    assert_held_once,
    wait_drained,
    each_kind,
    keeps_out,
    lets_in,
    waits,
)


@pytest.fixture
def make_wait(server, actor):
    """make_wait("plain"): x holds k, so o has to wait."""
    x = actor("x")

    def keep(kind):
        assert x.call(*keeps_out(kind)) is not None
        return x

    return keep


@each_kind("fair")
@pytest.mark.parametrize("count", [2, 5])
def test_one_grant_replies_to_all_waits(server, actor, make_wait, kind, count):
    x = make_wait(kind)
    waiters = [waits(actor(), *asks(kind)) for _ in range(count)]
    assert x.call(*lets_in(kind).split()) == 0
    assert [waiter.reply() for waiter in waiters] == [answer(kind)] * count
    wait_drained(server)
    assert_held_once(server, kind)


def test_repeated_fair_request_takes_over_the_position(server, actor, make_wait):
    x = make_wait("fair")
    first = waits(actor(), *asks("fair"))
    behind = waits(actor(), "LOCK.FAIR", "k", "p")
    second = waits(actor(), *asks("fair"))
    assert first.reply() is None
    x.call("LOCK.RELEASE", "k", "x")
    assert second.reply() == 1
    assert second.call("LOCK.RELEASE", "k", "o") == 0
    assert behind.reply() == 1


def test_repeated_fair_request_takes_over_a_reserved_position(server, actor, make_wait):
    x = make_wait("fair")
    first = waits(actor(), *asks("fair"))
    behind = waits(actor(), "LOCK.FAIR", "k", "p")
    first.kill_socket()
    wait_for(lambda: server.info("lock")["lock_waiters"] == 1, what="the first to disconnect")
    second = waits(actor(), *asks("fair"))
    x.call("LOCK.RELEASE", "k", "x")
    assert second.reply() == 1
    assert second.call("LOCK.RELEASE", "k", "o") == 0
    assert behind.reply() == 1


@each_kind("fair")
def test_request_repeated_after_the_grant_adds_no_hold(server, actor, make_wait, kind):
    """The replies to the wait and to the repeated request are the same, and there is one hold."""
    make_wait(kind)
    first = waits(actor(), *asks(kind))
    server.control.execute_command("LOCK.FORCE", "k")
    assert first.reply() == answer(kind)
    assert server.control.execute_command(*asks(kind)) == answer(kind)
    wait_drained(server)
    assert_held_once(server, kind)


@each_kind("fair")
def test_wait_without_once_adds_a_hold(server, actor, make_wait, kind):
    x = make_wait(kind)
    once = waits(actor(), *asks(kind))
    more = waits(actor(), *[word for word in asks(kind) if word != "ONCE"])
    assert x.call(*lets_in(kind).split()) == 0
    assert once.reply() == answer(kind)
    assert more.reply() == (answer(kind) if kind in OF_TWO else 2 * answer(kind))


def test_all_waits_receive_the_same_token(server, actor, make_wait):
    x = make_wait("plain")
    waiters = [waits(actor(), *asks("plain", "FENCED")) for _ in range(3)]
    x.call("LOCK.RELEASE", "k", "x")
    tokens = {waiter.reply() for waiter in waiters}
    assert len(tokens) == 1
    assert tokens == {as_map(server.control.execute_command("LOCK.INFO", "k"))["token"]}


SCHEDULES = dict(
    permits_from_the_middle_of_the_queue=[
        ("x", "LOCK.SEMAPHORE k x 2 PERMITS 2", 2),
        ("a", "LOCK.SEMAPHORE k o 2 ONCE BLOCK 0", BLOCKS),
        ("b", "LOCK.SEMAPHORE k p 2 PERMITS 2 BLOCK 0", BLOCKS),
        ("c", "LOCK.SEMAPHORE k o 2 ONCE BLOCK 0", BLOCKS),
        ("d", "LOCK.SEMAPHORE k o 2 BLOCK 0", BLOCKS),
        ("e", "LOCK.SEMAPHORE k o 2 PERMITS 2 ONCE BLOCK 0", BLOCKS),
        ("x", "LOCK.RELEASE k x", 1),
        ("a", granted(1)),
        ("c", granted(1)),
        ("b", STILL_BLOCKED),
        ("d", STILL_BLOCKED),
        ("e", STILL_BLOCKED),
        ("x", "LOCK.RELEASE k x", 0),
        ("a", "LOCK.RELEASE k o", 0),
        ("b", granted(2)),
        ("b", "LOCK.RELEASE k p PERMITS 2", 0),
        ("d", granted(1)),
        ("e", granted(2)),
        ("a", "HGET k o", "2"),
    ],
    of_two_numbers_of_permits_the_larger_is_held=[
        ("x", "LOCK.SEMAPHORE k x 3 PERMITS 3", 3),
        ("a", "LOCK.SEMAPHORE k o 3 PERMITS 3 ONCE BLOCK 0", BLOCKS),
        ("b", "LOCK.SEMAPHORE k o 3 ONCE BLOCK 0", BLOCKS),
        ("x", "LOCK.RELEASE k x PERMITS 3", 0),
        ("a", granted(3)),
        ("b", granted(3)),
        ("a", "LOCK.RELEASE k o PERMITS 3", 0),
    ],
    permits_that_another_client_has_written_directly=[
        ("x", "LOCK.SEMAPHORE k x 2 PERMITS 2", 2),
        ("b", "LOCK.SEMAPHORE k p 2 BLOCK 0", BLOCKS),
        ("a", "LOCK.SEMAPHORE k o 2 ONCE BLOCK 0", BLOCKS),
        ("x", "HSET k o 1", 1),
        (lambda s: s.server.control.zadd("lock:lease:{k}", {"o": s.server.now_ms() + 600_000}),),
        ("x", "PEXPIRE k 600000", 1),
        ("a", granted(1)),
        ("b", STILL_BLOCKED),
    ],
    an_upgrade_twice=[
        ("a", "LOCK.RWREAD k o ONCE", 1),
        ("b", "LOCK.RWREAD k p ONCE", 1),
        ("c", "LOCK.RWWRITE k o ONCE BLOCK 0", BLOCKS),
        ("d", "LOCK.RWWRITE k o ONCE BLOCK 0", BLOCKS),
        ("b", "LOCK.RWWRITE k p ONCE BLOCK 0", error("DEADLOCK")),
        ("b", "LOCK.RELEASE k p", 0),
        ("c", granted(1)),
        ("d", granted(1)),
        ("a", "HGETALL k", ["mode", "write", "o", "1", "o:write", "1"]),
    ],
    a_cycle_is_refused_to_each_request=[
        ("a", "LOCK.ACQUIRE k o ONCE", 1),
        ("b", "LOCK.ACQUIRE l p ONCE", 1),
        ("b", "LOCK.ACQUIRE k p ONCE BLOCK 0", BLOCKS),
        (lambda s: s.server.all_searched(),),
        ("c", ("LOCK.ACQUIRE", "l", "o", "ONCE", "BLOCK", "0"), error("DEADLOCK")),
        ("d", ("LOCK.ACQUIRE", "l", "o", "ONCE", "BLOCK", "0"), error("DEADLOCK")),
        ("a", "LOCK.RELEASE k o", 0),
        ("b", granted(1)),
    ],
    a_cancel_ends_both=[
        ("x", "LOCK.ACQUIRE k x", 1),
        ("a", "LOCK.ACQUIRE k o ONCE BLOCK 0", BLOCKS),
        ("b", "LOCK.ACQUIRE k o ONCE BLOCK 0", BLOCKS),
        ("x", "LOCK.CANCEL k o", 1),
        ("a", granted(None)),
        ("b", granted(None)),
    ],
    a_dead_connection_ends_only_its_own_wait=[
        ("x", "LOCK.ACQUIRE k x", 1),
        ("a", "LOCK.ACQUIRE k o ONCE BLOCK 0", BLOCKS),
        ("b", "LOCK.ACQUIRE k o ONCE BLOCK 0", BLOCKS),
        ("a", DIES),
        ("x", "LOCK.RELEASE k x", 0),
        ("b", granted(1)),
        ("b", "LOCK.RELEASE k o", 0),
    ],
    several_keys_of_which_one_is_acquired_meanwhile=[
        ("x", "LOCK.ACQUIRE l x", 1),
        ("a", "LOCK.MACQUIRE 2 k l o ONCE BLOCK 0", BLOCKS),
        ("b", "LOCK.ACQUIRE k o ONCE", 1),
        ("a", STILL_BLOCKED),
        ("x", "LOCK.RELEASE l x", 0),
        ("a", granted(2)),
        ("b", "LOCK.MRELEASE 2 k l o", 2),
    ],
    a_session_that_ends_before_the_grant=[
        ("x", "LOCK.ACQUIRE k x", 1),
        ("a", "LOCK.ACQUIRE k o ONCE SESSION BLOCK 0", BLOCKS),
        ("b", "LOCK.ACQUIRE k o ONCE SESSION BLOCK 0", BLOCKS),
        ("b", CLOSES),
        ("x", "LOCK.RELEASE k x", 0),
        ("a", granted(1)),
    ],
)


@schedules(**SCHEDULES)
def test_waits_of_one_owner_are_granted_together(server, schedule):
    run_schedule(server, schedule)


CROWDS = [("LOCK.ACQUIRE k o ONCE BLOCK 0", "LOCK.ACQUIRE k x"), ("LOCK.SEMAPHORE k o 1 ONCE BLOCK 0", "LOCK.SEMAPHORE k x 1")]


@pytest.mark.parametrize("waiting, holds", CROWDS, ids=["plain", "permits"])
def test_thousand_waits_of_one_owner_are_granted_together(server, waiting, holds):
    assert server.control.execute_command(*holds.split()) == 1
    crowd = Crowd(server, *[waiting] * 1000)
    assert server.control.execute_command("LOCK.RELEASE", "k", "x") == 0
    assert set(crowd.replies()) == {b":1\r\n"}
    wait_drained(server)
    assert server.control.execute_command("LOCK.RELEASE", "k", "o") == 0
