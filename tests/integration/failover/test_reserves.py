"""The reserve of positions in the fair queue counts from the end of a quarantine."""

import pytest

from harness import scaled_ms, wait_for
from model.fair_scene import QUEUE, ask, assert_written, detached, hold, lose, order, wait_detached
from model.fair_scene import wait_nothing_left, waiters, written_is_right
from model.quarantine_scene import HOUR, begin, end

RESERVE = scaled_ms(600)
MINUTE = 60_000


def left_of(server, owner):
    return next(waiter["left"] for waiter in waiters(server) if waiter["owner"] == owner)


@pytest.fixture
def server(make_server):
    return make_server(lock_fair_reserve=RESERVE, appendonly="yes", appendfsync="always")


def crash_with_waiters(server, *owners, **config):
    """These owners wait, in this order, when the server dies. It is restarted in quarantine, and the lock is free."""
    hold(server)
    for owner in owners:
        ask(server, owner)
    assert order(server) == list(owners)
    server.kill()
    server.start(lock_quarantine=HOUR, **config)
    server.control.execute_command("LOCK.FORCE", "k")


def test_positions_from_before_a_crash_are_kept_in_the_quarantine(server):
    crash_with_waiters(server, "f1", "f2", "f3")
    assert order(server) == ["f1", "f2", "f3"]
    assert HOUR - MINUTE < left_of(server, "f1") <= HOUR + RESERVE
    server.let_pass(2 * RESERVE)
    back = {owner: ask(server, owner) for owner in ("f3", "f2", "f1")}
    assert order(server) == ["f1", "f2", "f3"]
    end(server)
    for owner in ("f1", "f2", "f3"):
        assert back[owner].reply() == 1
        assert server.control.execute_command("LOCK.RELEASE", "k", owner) == 0
    wait_nothing_left(server)


@pytest.mark.parametrize("in_memory", [True, False], ids=["in memory", "in keys only"])
def test_positions_are_kept_for_the_reserve_from_its_end_on(server, in_memory):
    """Not until the end that was written before the quarantine was made shorter."""
    crash_with_waiters(server, "f1", "f2")
    if in_memory:
        waiter = ask(server, "late")
        assert detached(server) == ["f1", "f2"]
    server.let_pass(2 * RESERVE)
    before = server.now_ms()
    end(server)
    if not in_memory:
        waiter = ask(server, "late")
    assert order(server) == ["f1", "f2", "late"]
    assert RESERVE / 3 < left_of(server, "f1") <= RESERVE
    assert waiter.reply(timeout=30) == 1
    assert server.now_ms() >= before + RESERVE
    server.control.execute_command("LOCK.RELEASE", "k", "late")
    wait_nothing_left(server)


def test_position_whose_client_dies_in_a_quarantine_is_kept(server):
    begin(server)
    first, second = ask(server, "f1"), ask(server, "f2")
    lose(server, first)
    server.let_pass(2 * RESERVE)
    assert detached(server) == ["f1"]
    before = server.now_ms()
    end(server)
    assert second.reply(timeout=30) == 1
    assert server.now_ms() >= before + RESERVE


def test_owner_that_returns_in_time_is_granted_first(server):
    begin(server)
    first, second = ask(server, "f1"), ask(server, "f2")
    lose(server, first)
    server.let_pass(2 * RESERVE)
    again = ask(server, "f1")
    end(server)
    assert again.reply() == 1
    assert not second.has_reply()


def test_position_is_kept_in_a_quarantine_that_is_made_longer(server):
    """Beyond the end that was written at first."""
    short = scaled_ms(1500)
    server.restart(lock_quarantine=short)
    lose(server, ask(server, "f1"))
    begin(server)
    server.let_pass(short + 2 * RESERVE)
    assert detached(server) == ["f1"]
    wait_for(lambda: written_is_right(server), what="the longer time to be written")
    end(server)
    wait_nothing_left(server)


def test_positions_without_a_reserve_end_with_the_quarantine(server):
    server.control.config_set("lock.fair-reserve", 0)
    begin(server)
    first, second = ask(server, "f1"), ask(server, "f2")
    first.kill_socket()
    wait_detached(server, "f1")
    server.let_pass(RESERVE)
    assert detached(server) == ["f1"]
    end(server)
    assert second.reply() == 1


def test_position_reserved_before_a_quarantine_is_kept_in_it(server):
    """A load begins one while positions are in memory; their time does not count in it."""
    hold(server)
    lose(server, ask(server, "f1"))
    begin(server)
    server.let_pass(2 * RESERVE)
    assert detached(server) == ["f1"]
    end(server)
    wait_for(lambda: detached(server) == [], what="the reserve to end")


def test_clock_that_steps_ahead_removes_no_position(make_server, clock):
    server = make_server(lock_fair_reserve=5000, appendonly="yes", appendfsync="always")
    crash_with_waiters(server, "f1", "f2")
    back = ask(server, "f2")
    clock.step_for(server, 60)
    server.settle(150)
    assert order(server) == ["f1", "f2"]
    again = ask(server, "f1")
    end(server)
    assert again.reply() == 1
    assert not back.has_reply()


def test_clock_that_steps_ahead_removes_no_position_from_keys(make_server, clock):
    server = make_server(lock_fair_reserve=5000, appendonly="yes", appendfsync="always")
    crash_with_waiters(server, "f1", "f2")
    clock.step_for(server, 60)
    ask(server, "f3")
    assert order(server) == ["f1", "f2", "f3"]


def test_keys_expire_later_than_a_quarantine_after_a_crash(server):
    hold(server)
    server.control.config_set("lock.quarantine", HOUR)
    waiter = server.actor("f1")
    waiter.send("LOCK.FAIR", "k", "f1", "BLOCK", scaled_ms(2000))
    waiter.wait_blocked()
    assert server.control.pttl(QUEUE) > HOUR
    assert_written(server)


def test_ends_of_positions_are_not_written_again_if_unchanged(server):
    """Ten positions, and the quarantine ends when it was expected to: no write."""
    server.restart(lock_quarantine=scaled_ms(2500), lock_fair_reserve=HOUR)
    lose(server, *[ask(server, f"f{number}") for number in range(10)])
    before = server.info("persistence")["rdb_changes_since_last_save"]
    wait_for(lambda: server.info("lock")["lock_quarantine_ms"] == 0, 20, "the end")
    server.settle()
    assert server.info("persistence")["rdb_changes_since_last_save"] == before
    assert len(detached(server)) == 10


def test_many_positions_are_updated_in_time_slices(server):
    """More than fit into one time slice, and all of them."""
    server.control.config_set("lock.fair-reserve", HOUR)
    hold(server)
    actors = [server.actor(f"f{number}") for number in range(1500)]
    for actor in actors:
        actor.send("LOCK.FAIR", "k", actor.name, "BLOCK", 0)
    wait_for(lambda: server.info("lock")["lock_waiters"] == len(actors), 60, "all to wait")
    begin(server)
    for actor in actors:
        actor.kill_socket()
    wait_for(lambda: server.info("lock")["lock_waiters"] == 0, 60, "all to be detached")
    server.control.config_set("lock.fair-reserve", MINUTE)
    end(server)
    wait_for(lambda: max(waiter["left"] for waiter in waiters(server)) <= MINUTE, what="all to be updated")
