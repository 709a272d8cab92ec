"""Changes of lock.fair-reserve while positions are reserved."""

import pytest

from harness import scaled_ms, wait_for
from model.fair_scene import ENDS, HOUR, ask, detached, hold, release, wait_detached, waiters

LONGEST = 10**15  # the longest time that a config can have


@pytest.fixture
def server(make_server):
    return make_server(lock_fair_reserve=LONGEST)


def lose(server, *owners):
    for owner in owners:
        ask(server, owner).kill_socket()
    wait_detached(server, *owners)


def test_lower_reserve_ends_positions_that_are_reserved(server):
    hold(server)
    lose(server, "f1", "f2")
    behind = ask(server, "f3")
    server.control.config_set("lock.fair-reserve", 0)
    wait_for(lambda: detached(server) == [], what="the positions to end")
    release(server, "oa")
    assert behind.reply() == 1


def test_lower_reserve_counts_from_the_change(server):
    hold(server)
    lose(server, "f1")
    server.control.config_set("lock.fair-reserve", HOUR)
    [position] = waiters(server)
    assert HOUR - scaled_ms(5000) < position["left"] <= HOUR
    assert server.control.zscore(ENDS, "f1") <= server.now_ms() + HOUR


def test_higher_reserve_applies_to_positions_reserved_later(server):
    server.control.config_set("lock.fair-reserve", HOUR)
    hold(server)
    lose(server, "f1")
    server.control.config_set("lock.fair-reserve", LONGEST)
    lose(server, "f2")
    first, second = waiters(server)
    assert first["left"] <= HOUR < second["left"]


def test_positions_with_a_client_keep_their_end(server):
    hold(server)
    waiting, without_timeout = ask(server, "f1", "BLOCK", HOUR), ask(server, "f2")
    server.control.config_set("lock.fair-reserve", 0)
    server.settle()
    first, second = waiters(server)
    assert first["left"] > HOUR - scaled_ms(5000)
    assert second["left"] is None
    assert waiting.is_blocked()
    assert without_timeout.is_blocked()


def test_flush_ends_a_position_with_the_longest_reserve(server):
    hold(server)
    lose(server, "f1")
    server.control.flushall()
    wait_for(lambda: server.info("lock")["lock_contended_locks"] == 0, what="the position to end")
