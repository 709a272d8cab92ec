"""Dining philosophers: real threads that want two neighbouring forks each, one by one or both at once.

The witness of a fork is a counter that is read and written back under the lock, in two commands: an increment
is lost as soon as two philosophers have the fork at once.
"""

import threading

import pytest

from harness import fewer, scaled, wait_for
from model.philosophers import LONG, Greedy, Philosopher, dinner

TABLES = [(5, 200), (50, 30)]


@pytest.mark.parametrize("table, meals", TABLES)
def test_one_fork_after_the_other_some_are_refused_and_all_eat(server, table, meals):
    assert dinner(server, Greedy, table, meals) >= 1


@pytest.mark.parametrize("table, meals", TABLES)
def test_both_forks_at_once_nobody_is_refused_and_all_eat(server, table, meals):
    assert dinner(server, Philosopher, table, meals) == 0


def test_mixed_manners(server):
    """Half of them take both forks at once, half one after the other."""
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
    """Takes one key and releases it, again and again, until the storm is over; counts its turns in the server."""

    def __init__(self, server, number, key, waits, is_over):
        super().__init__(daemon=True)
        self.actor, self.owner, self.key = server.actor(f"l{number}"), f"l{number}", key
        self.block, self.is_over, self.problem = ("BLOCK", 0) if waits else (), is_over, None

    def run(self):
        try:
            while not self.is_over.is_set():
                if self.actor.call("LOCK.ACQUIRE", self.key, self.owner, "PX", LONG, *self.block, timeout=60) == 1:
                    self.actor.call("INCR", "turns")
                    self.actor.call("LOCK.RELEASE", self.key, self.owner)
        except BaseException as problem:
            self.problem = problem


@pytest.mark.parametrize("share_that_waits", [0, 0.5, 1])
def test_storm_on_single_keys_starves_nobody_who_wants_several(server, share_that_waits):
    """Once it waits it is passed by whoever stands ahead, each once, and by nobody who comes later."""
    lockers, is_over = 12, threading.Event()
    storm = [
        Locker(server, number, "kl"[number % 2], number // 2 < share_that_waits * lockers / 2, is_over)
        for number in range(lockers)
    ]
    for locker in storm:
        locker.start()
    several, control = server.actor("multi-key"), server.control
    try:
        for _ in range(fewer(60) + 5):
            earlier = int(control.get("turns") or 0)
            wait_for(lambda earlier=earlier: int(control.get("turns") or 0) > earlier + lockers, 60, "the storm")
            several.send("LOCK.MACQUIRE", 2, "k", "l", "multi-key", "PX", LONG, "BLOCK", 0)
            wait_for(lambda: several.is_blocked() or several.has_reply(), what="it to wait or to be granted")
            before = int(control.get("turns"))
            assert several.reply(timeout=60) == 2
            # It holds both: nobody's turn comes meanwhile, but whoever has just released.
            passed_by = int(control.get("turns")) - before
            assert passed_by <= lockers, f"{passed_by} turns went by"
            assert several.call("LOCK.MRELEASE", 2, "k", "l", "multi-key") == 2
    finally:
        is_over.set()
        for locker in storm:
            locker.join(scaled(90))
    assert [locker.problem for locker in storm if locker.problem] == []
    assert not any(locker.is_alive() for locker in storm)
