"""LOCK.RENEW with REPLICAS: what is told when the hold goes, or was in flight, before replicas acknowledge. And times."""

import pytest

from harness import code_of, scaled_ms, wait_for
from model.replicas_scene import LONG, asks, begin, each_kind, hash_of, silent, wait_awaiting, with_replicas


@pytest.fixture(scope="module")
def new_server():
    return with_replicas(1)


@pytest.fixture
def replica(server):
    return server.replicas[0]


RENEWS = ("LOCK.RENEW", "k", "o", "PX", LONG, "REPLICAS", 1, LONG)


@each_kind
@pytest.mark.parametrize("how", ["LOCK.FORCE k", "DEL k", "FLUSHALL", "PEXPIRE k 0"])
def test_who_has_lost_the_hold_meanwhile_is_not_told_that_it_is_renewed(server, replica, actor, kind, how):
    renewer = actor("o")
    renewer.call(*asks(kind, "PX", LONG))
    with silent(replica):
        begin(server, renewer, *RENEWS)
        server.control.execute_command(*how.split())
        assert server.control.execute_command("LOCK.ACQUIRE", "k", "other", "PX", LONG) == 1
    assert code_of(renewer.outcome()) == "NOREPLICAS"
    assert server.control.hgetall("k") == {"other": "1"}


def test_it_goes_along_with_swapdb(server, replica, actor):
    renewer = actor("o")
    renewer.call(*asks("plain", "PX", LONG))
    with silent(replica):
        begin(server, renewer, *RENEWS)
        server.control.swapdb(0, 1)
    assert renewer.reply() == 1


@each_kind
def test_owner_that_took_it_anew_meanwhile_is_not_told_of_the_old_one(server, replica, actor, kind):
    renewer = actor("o")
    renewer.call(*asks(kind, "PX", LONG))
    with silent(replica):
        begin(server, renewer, *RENEWS)
        server.control.execute_command("LOCK.FORCE", "k")
        server.control.execute_command(*asks(kind, "PX", LONG))
    assert code_of(renewer.outcome()) == "NOREPLICAS"
    assert server.control.hgetall("k") == hash_of(kind)


@each_kind
def test_hold_of_which_neither_is_told_is_released(server, replica, actor, kind):
    acquirer, renewer, within = actor("a"), actor("b"), scaled_ms(50)
    with silent(replica):
        begin(server, acquirer, *asks(kind, "PX", LONG, "REPLICAS", 1, LONG))
        before = server.now_ms()
        renewer.send(*RENEWS[:-1], within)
        assert code_of(renewer.outcome()) == "NOREPLICAS"
        assert server.now_ms() - before >= within
        assert server.control.hgetall("k") == hash_of(kind)  # the first may be told yet
        acquirer.kill_socket()
        wait_for(lambda: not server.control.exists("k"), what="the hold to be released")


@each_kind
def test_hold_of_which_the_renewal_is_told_stays(server, replica, actor, kind):
    acquirer, renewer = actor("a"), actor("b")
    with silent(replica):
        begin(server, acquirer, *asks(kind, "PX", LONG, "REPLICAS", 1, LONG))
        begin(server, renewer, *RENEWS)
        acquirer.kill_socket()
        wait_awaiting(server, 1)
    assert renewer.reply() > 0
    server.settle()
    assert server.control.hgetall("k") == hash_of(kind)


def test_cancel_does_not_end_it(server, replica, actor):
    renewer = actor("o")
    renewer.call(*asks("plain", "PX", LONG))
    with silent(replica):
        begin(server, renewer, *RENEWS)
        assert server.control.execute_command("LOCK.CANCEL", "k", "o") == 0
        wait_awaiting(server, 1)
    assert renewer.reply() == 1
    assert server.control.hgetall("k") == {"o": "1"}


def test_client_that_dies_leaves_the_hold(server, replica, actor):
    renewer = actor("o")
    renewer.call(*asks("plain", "PX", LONG))
    with silent(replica):
        begin(server, renewer, *RENEWS)
        renewer.kill_socket()
        wait_awaiting(server, 0)
    assert server.control.hgetall("k") == {"o": "1"}


def test_longest_time_there_is_after_a_wait(server, actor):
    """It is counted from the grant, which comes later than the command."""
    waiter = actor("w")
    server.control.execute_command("LOCK.ACQUIRE", "k", "x", "PX", LONG)
    longest = (1 << 63) - 1 - server.now_ms() - 3000
    waiter.send("LOCK.ACQUIRE", "k", "o", "PX", longest, "BLOCK", 0, "REPLICAS", 1, longest)
    waiter.wait_blocked()
    server.let_pass(3100)
    server.control.execute_command("LOCK.RELEASE", "k", "x")
    assert waiter.reply() == 1


def test_acknowledgement_that_came_while_the_server_was_busy_is_in_time(server, replica, actor):
    """The server calls timers before it reads what has come meanwhile."""
    asker, sleeper = actor("o"), actor("s")
    within = scaled_ms(1000)
    with silent(replica):
        begin(server, asker, *asks("plain", "PX", LONG, "REPLICAS", 1, within))
        sleeper.send("DEBUG", "SLEEP", (within + 500) / 1000)
    assert asker.reply() == 1
    assert sleeper.reply() == "OK"
