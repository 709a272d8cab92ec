"""A wait that closes a cycle is refused with DEADLOCK a moment after it has begun, and the text shows the cycle.

Owners have the names of their clients; `b2` is a second connection of owner b. For the text see test_text.py;
for waits without a cycle, and the state after a refusal, test_no_cycle.py; for events before the search
test_newcomers.py; for its bound and its cost test_bound.py and test_crowds.py.
"""

from itertools import product

import pytest

from harness.schedule import BLOCKS, DIES, run_schedule, schedules
from model.cycle_schedules import CYCLES
from model.deadlock_scene import MODES, holds, deadlock, waits, words


@schedules(**CYCLES)
def test_cycle_is_refused(server, some_resp, schedule):
    server.control.config_set("lock.fair-reserve", 60_000)
    cut = server.info("lock")["lock_deadlock_searches_cut"]
    run_schedule(server, schedule, some_resp)
    assert server.info("lock")["lock_deadlock_searches_cut"] == cut


def test_cycle_behind_a_reserved_position_is_found_when_its_owner_returns(server):
    """c waits for a only after the owner has returned."""
    server.control.config_set("lock.fair-reserve", 60_000)
    steps = [holds("x", "k"), waits("a", "k", "FAIR"), ("a", DIES), holds("y", "l")]
    steps += [("c", "LOCK.MACQUIRE 2 k l c BLOCK 0", BLOCKS), waits("a2", "l")]
    run_schedule(server, steps)
    back = server.actor("a3")
    back.send(*words("FAIR", "k", "a", "BLOCK", 0))
    assert deadlock("a waits for l behind c, c waits for k behind a")(back.outcome())


# Every pair of modes


def keys_of(number):
    return f"k{number}", f"l{number}"


@pytest.mark.parametrize("second", MODES)
@pytest.mark.parametrize("first", MODES)
def test_cycle_is_found_in_every_mode_of_holds_and_requests(server, first, second):
    """a holds k, b holds l, in each pair of modes; then a requests l with `first`, b requests k with `second`."""
    for number, (held, held_too) in enumerate(product(MODES, MODES)):
        k, m = keys_of(number)
        names = {"a": f"a{number}", "b": f"b{number}"}
        a, b = (server.actor(name) for name in "ab")
        assert a.call(*words(held, k, names["a"])) == 1
        assert b.call(*words(held_too, m, names["b"])) == 1
        a.send(*words(first, m, names["a"], "BLOCK", 0))
        if first == held_too == "RWREAD":
            assert a.reply() == 1
            continue
        a.wait_blocked()
        reply = b.attempt(*words(second, k, names["b"], *(() if second == held == "RWREAD" else ("BLOCK", 0))))
        if second == held == "RWREAD":
            assert reply == 1
            continue
        cycle = f"b{number} waits for {k} held by a{number}, a{number} waits for {m} held by b{number}"
        assert deadlock(cycle)(reply), f"{held} {held_too}: {reply!r}"
        assert a.is_blocked() and not a.has_reply()
