"""Dining philosophers: real threads each of which needs two neighbouring forks, one by one or both at once.

Each fork has a counter that is read and written back under the lock, in two commands: if two philosophers hold
the fork at the same time, an increment is lost.
"""

import threading

import pytest

from harness import fewer, scaled, wait_for
from model.philosophers import LONG, Greedy, Philosopher, dinner

TABLES = [(5, 200), (50, 30)]


@pytest.mark.parametrize("table, meals", TABLES)
def test_forks_taken_one_by_one_some_are_refused_and_all_eat(server, table, meals):
    assert dinner(server, Greedy, table, meals) >= 1


@pytest.mark.parametrize("table, meals", TABLES)
def test_forks_taken_both_at_once_none_is_refused_and_all_eat(server, table, meals):
    assert dinner(server, Philosopher, table, meals) == 0


def test_all_eat_if_half_of_them_take_both_forks_at_once(server):
    """The other half takes one fork after the other."""
    kinds = iter([Greedy, Philosopher] * 4)
    before = server.info("lock")["lock_deadlocks_refused"]
    barrier = threading.Barrier(4)
    diners = [kind(server, number, 8, 40, barrier) for number, kind in enumerate(kinds)]
    for diner in diners:
        diner.start()
    for diner in diners:
        diner.join(scaled(90))
        assert not diner.is_alive(), f"{diner.owner} hangs after {diner.eaten} meals"
    assert [diner.problem for diner in diners if diner.problem] == []
    assert {int(server.control.get(f"meals:fork{number}")) for number in range(8)} == {80}
    refused = server.info("lock")["lock_deadlocks_refused"] - before
    assert refused == sum(diner.refused for diner in diners)


class Locker(threading.Thread):
    """Acquires one key and releases it, again and again, until the storm has ended; counts its grants in the server."""

    def __init__(self, server, number, key, waits, ended):
        super().__init__(daemon=True)
        self.actor, self.owner, self.key = server.actor(f"l{number}"), f"l{number}", key
        self.block, self.ended, self.problem = ("BLOCK", 0) if waits else (), ended, None

    def run(self):
        try:
            while not self.ended.is_set():
                if self.actor.call("LOCK.ACQUIRE", self.key, self.owner, "PX", LONG, *self.block, timeout=60) == 1:
                    self.actor.call("INCR", "turns")
                    self.actor.call("LOCK.RELEASE", self.key, self.owner)
        except BaseException as problem:
            self.problem = problem


@pytest.mark.parametrize("share_that_waits", [0, 0.5, 1])
def test_storm_on_single_keys_does_not_starve_a_multikey_request(server, share_that_waits):
    """Once it waits, it is overtaken only by those ahead of it, each once, and by no later request."""
    lockers, ended = 12, threading.Event()
    storm = [
        Locker(server, number, "kl"[number % 2], number // 2 < share_that_waits * lockers / 2, ended)
        for number in range(lockers)
    ]
    for locker in storm:
        locker.start()
    multikey, control = server.actor("multi-key"), server.control
    try:
        for _ in range(fewer(60) + 5):
            earlier = int(control.get("turns") or 0)
            wait_for(lambda earlier=earlier: int(control.get("turns") or 0) > earlier + lockers, 60, "the storm")
            multikey.send("LOCK.MACQUIRE", 2, "k", "l", "multi-key", "PX", LONG, "BLOCK", 0)
            wait_for(lambda: multikey.is_blocked() or multikey.has_reply(), what="it to wait or to be granted")
            before = int(control.get("turns"))
            assert multikey.reply(timeout=60) == 2
            # It holds both: no other grant is counted now, except by clients that have just released.
            overtaken_by = int(control.get("turns")) - before
            assert overtaken_by <= lockers, f"overtaken by {overtaken_by} grants"
            assert multikey.call("LOCK.MRELEASE", 2, "k", "l", "multi-key") == 2
    finally:
        ended.set()
        for locker in storm:
            locker.join(scaled(90))
    assert [locker.problem for locker in storm if locker.problem] == []
    assert not any(locker.is_alive() for locker in storm)
