"""LOCK.RENEW with REPLICAS: the replies if the hold ends, or its grant has no reply yet, before replicas acknowledge.
And times."""

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
def test_renewal_of_a_hold_lost_before_acknowledgement_is_an_error(server, replica, actor, kind, how):
    renewer = actor("o")
    renewer.call(*asks(kind, "PX", LONG))
    with silent(replica):
        begin(server, renewer, *RENEWS)
        server.control.execute_command(*how.split())
        assert server.control.execute_command("LOCK.ACQUIRE", "k", "other", "PX", LONG) == 1
    assert code_of(renewer.outcome()) == "NOREPLICAS"
    assert server.control.hgetall("k") == {"other": "1"}


def test_renewal_moves_with_SWAPDB(server, replica, actor):
    renewer = actor("o")
    renewer.call(*asks("plain", "PX", LONG))
    with silent(replica):
        begin(server, renewer, *RENEWS)
        server.control.swapdb(0, 1)
    assert renewer.reply() == 1


@each_kind
def test_renewal_is_an_error_if_the_owner_has_a_new_hold(server, replica, actor, kind):
    renewer = actor("o")
    renewer.call(*asks(kind, "PX", LONG))
    with silent(replica):
        begin(server, renewer, *RENEWS)
        server.control.execute_command("LOCK.FORCE", "k")
        server.control.execute_command(*asks(kind, "PX", LONG))
    assert code_of(renewer.outcome()) == "NOREPLICAS"
    assert server.control.hgetall("k") == hash_of(kind)


@each_kind
def test_hold_is_released_if_neither_grant_nor_renewal_is_acknowledged(server, replica, actor, kind):
    acquirer, renewer, within = actor("a"), actor("b"), scaled_ms(50)
    with silent(replica):
        begin(server, acquirer, *asks(kind, "PX", LONG, "REPLICAS", 1, LONG))
        before = server.now_ms()
        renewer.send(*RENEWS[:-1], within)
        assert code_of(renewer.outcome()) == "NOREPLICAS"
        assert server.now_ms() - before >= within
        assert server.control.hgetall("k") == hash_of(kind)  # the first request may still get its reply
        acquirer.kill_socket()
        wait_for(lambda: not server.control.exists("k"), what="the hold to be released")


@each_kind
def test_hold_remains_if_its_renewal_is_acknowledged(server, replica, actor, kind):
    acquirer, renewer = actor("a"), actor("b")
    with silent(replica):
        begin(server, acquirer, *asks(kind, "PX", LONG, "REPLICAS", 1, LONG))
        begin(server, renewer, *RENEWS)
        acquirer.kill_socket()
        wait_awaiting(server, 1)
    assert renewer.reply() > 0
    server.settle()
    assert server.control.hgetall("k") == hash_of(kind)


def test_cancel_does_not_end_a_renewal(server, replica, actor):
    renewer = actor("o")
    renewer.call(*asks("plain", "PX", LONG))
    with silent(replica):
        begin(server, renewer, *RENEWS)
        assert server.control.execute_command("LOCK.CANCEL", "k", "o") == 0
        wait_awaiting(server, 1)
    assert renewer.reply() == 1
    assert server.control.hgetall("k") == {"o": "1"}


def test_hold_remains_if_the_client_of_a_renewal_dies(server, replica, actor):
    renewer = actor("o")
    renewer.call(*asks("plain", "PX", LONG))
    with silent(replica):
        begin(server, renewer, *RENEWS)
        renewer.kill_socket()
        wait_awaiting(server, 0)
    assert server.control.hgetall("k") == {"o": "1"}


def test_longest_possible_time_counts_from_a_grant_after_a_wait(server, actor):
    """The grant is later than the command."""
    waiter = actor("w")
    server.control.execute_command("LOCK.ACQUIRE", "k", "x", "PX", LONG)
    longest = (1 << 63) - 1 - server.now_ms() - 3000
    waiter.send("LOCK.ACQUIRE", "k", "o", "PX", longest, "BLOCK", 0, "REPLICAS", 1, longest)
    waiter.wait_blocked()
    server.let_pass(3100)
    server.control.execute_command("LOCK.RELEASE", "k", "x")
    assert waiter.reply() == 1


def test_acknowledgement_that_arrives_while_the_server_is_busy_counts(server, replica, actor):
    """The server calls timers before it reads what has arrived in the meantime."""
    acquirer, sleeper = actor("o"), actor("s")
    within = scaled_ms(1000)
    with silent(replica):
        begin(server, acquirer, *asks("plain", "PX", LONG, "REPLICAS", 1, within))
        sleeper.send("DEBUG", "SLEEP", (within + 500) / 1000)
    assert acquirer.reply() == 1
    assert sleeper.reply() == "OK"
