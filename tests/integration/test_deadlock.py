"""A wait that closes a circle is refused with DEADLOCK a moment after it has begun, and the text tells the circle.

Owners are named as their clients; `b2` is a second connection of owner b. More of the text: test_deadlock_text.py;
no circle, and what a refusal leaves: test_deadlock_not.py; what happens before the search: test_deadlock_newcomers.py;
how far it goes: test_deadlock_bound.py, test_deadlock_crowds.py.
"""

from itertools import product

import pytest
from redis.exceptions import ResponseError

from harness import wait_for
from harness.schedule import BLOCKS, CLOSES, DIES, STILL_BLOCKED, granted, has, run_schedule, schedules

MODES = ("ACQUIRE", "FAIR", "RWREAD", "RWWRITE", "MACQUIRE")


def words(mode, key, owner, *options):
    count = ("1",) if mode == "MACQUIRE" else ()
    return (f"LOCK.{mode}", *count, key, owner, *options)


def holds(name, key, mode="ACQUIRE", count=1):
    return (name, words(mode, key, name[0]), count)


def waits(name, key, mode="ACQUIRE"):
    return (name, words(mode, key, name[0], "BLOCK", "0"), BLOCKS)


class says:
    """DEADLOCK and exactly this text."""

    def __init__(self, circle):
        self._text = f"DEADLOCK {circle}"

    def __call__(self, got):
        assert str(got) == self._text
        return isinstance(got, ResponseError)

    def __repr__(self):
        return f"says({self._text!r})"


def refused(name, key, circle, mode="ACQUIRE"):
    return (name, words(mode, key, name[0], "BLOCK", "0"), says(circle))


def in_db(number, *names):
    return [(name, f"SELECT {number}", "OK") for name in names]


def releases(name, key, left=0):
    return (name, f"LOCK.RELEASE {key} {name[0]}", left)


def detection(state):
    return ("z", f"CONFIG SET lock.deadlock-detection {state}", "OK")


# From all that have begun to wait.
SEARCHED = (lambda run: run.server.all_searched(),)

TWO = "b waits for k held by a, a waits for l held by b"

CIRCLES = dict(
    two_owners_two_keys=[
        holds("a", "k"),
        holds("b", "l"),
        waits("a", "l"),
        refused("b", "k", TWO),
        ("a", STILL_BLOCKED),
        releases("b", "l"),
        ("a", granted(1)),
    ],
    with_a_deadline_too=[
        holds("a", "k"),
        holds("b", "l"),
        ("a", "LOCK.ACQUIRE l a BLOCK 3600000", BLOCKS),
        ("b", "LOCK.ACQUIRE k b BLOCK 3600000", says(TWO)),
    ],
    again_and_again=[
        holds("a", "k"),
        holds("b", "l"),
        waits("a", "l"),
        *[refused("b", "k", TWO)] * 3,
        ("a", STILL_BLOCKED),
    ],
    three_owners_three_keys=[
        holds("a", "k"),
        holds("b", "l"),
        holds("c", "m"),
        waits("a", "l"),
        waits("b", "m"),
        refused("c", "k", "c waits for k held by a, a waits for l held by b, b waits for m held by c"),
        ("a", STILL_BLOCKED),
        ("b", STILL_BLOCKED),
        releases("c", "m"),
        ("b", granted(1)),
        releases("b", "l"),
        ("a", granted(1)),
    ],
    the_shortest_of_two=[
        holds("a", "k"),
        holds("b", "l"),
        holds("c", "m"),
        waits("a", "l"),
        waits("b", "m"),
        waits("a2", "m"),
        refused("c", "k", "c waits for k held by a, a waits for m held by c"),
    ],
    across_databases=[
        *in_db(1, "b", "a2"),
        holds("a", "k"),
        holds("b", "l"),
        waits("a2", "l"),
        refused("b2", "k", "b waits for k (db 0) held by a, a waits for l (db 1) held by b"),
        ("b2", "EXISTS k l", 1),
        ("a2", STILL_BLOCKED),
    ],
    one_name_in_two_databases=[
        *in_db(9, "b", "a2"),
        holds("a", "k"),
        holds("b", "k"),
        waits("a2", "k"),
        refused("b2", "k", "b waits for k (db 0) held by a, a waits for k (db 9) held by b"),
    ],
    in_one_other_database=[
        *in_db(7, "a", "b"),
        holds("a", "k"),
        holds("b", "l"),
        waits("a", "l"),
        refused("b", "k", TWO),
    ],
    behind_a_waiter=[
        holds("a", "k"),
        holds("c", "l"),
        waits("b", "k"),
        waits("b2", "l"),
        refused("c", "k", "c waits for k behind b, b waits for l held by c"),
        ("b", STILL_BLOCKED),
        ("b2", STILL_BLOCKED),
        releases("a", "k"),
        ("b", granted(1)),
        releases("c", "l"),
        ("b2", granted(1)),
    ],
    through_one_who_stands_behind=[
        holds("a", "k"),
        holds("d", "m"),
        waits("c", "k"),
        waits("d", "k"),
        refused("c2", "m", "c waits for m held by d, d waits for k behind c"),
        ("d", STILL_BLOCKED),
        ("c", STILL_BLOCKED),
    ],
    behind_one_who_waits_for_several=[
        holds("a", "k"),
        holds("c", "l"),
        ("b", "LOCK.MACQUIRE 2 k l b BLOCK 0", BLOCKS),
        refused("c", "k", "c waits for k behind b, b waits for l held by c"),
        releases("c", "l"),
        ("b", STILL_BLOCKED),
        releases("a", "k"),
        ("b", granted(2)),
    ],
    behind_one_who_waits_for_several_on_a_free_key=[
        holds("c", "l"),
        ("b", "LOCK.MACQUIRE 2 k l b BLOCK 0", BLOCKS),
        refused("c", "k", "c waits for k behind b, b waits for l held by c"),
        releases("c", "l"),
        ("b", granted(2)),
    ],
    one_who_asks_for_several=[
        holds("a", "k"),
        holds("b", "m"),
        waits("a", "m"),
        ("b", "LOCK.MACQUIRE 3 l k n b BLOCK 0", says("b waits for k held by a, a waits for m held by b")),
        ("z", "EXISTS l n", 0),
    ],
    several_that_its_owner_holds_in_part=[
        holds("a", "k"),
        holds("b", "l"),
        ("a", "LOCK.MACQUIRE 2 k l a BLOCK 0", BLOCKS),
        ("b", "LOCK.MACQUIRE 2 k l b BLOCK 0", says(TWO)),
        releases("b", "l"),
        ("a", granted(2)),
    ],
    several_against_several=[
        holds("a", "k"),
        ("b", "LOCK.MACQUIRE 2 k l b BLOCK 0", BLOCKS),
        ("a", "LOCK.MACQUIRE 2 k l a BLOCK 0", says("a waits for l behind b, b waits for k held by a")),
        releases("a", "k"),
        ("b", granted(2)),
    ],
    through_an_upgrade=[
        holds("a", "k", "RWREAD"),
        holds("b", "k", "RWREAD"),
        holds("a", "l"),
        waits("a", "k", "RWWRITE"),
        refused("b", "l", "b waits for l held by a, a waits for k held by b"),
        releases("b", "k"),
        ("a", granted(1)),
    ],
    of_one_who_upgrades=[
        holds("a", "k", "RWREAD"),
        holds("b", "k", "RWREAD"),
        holds("a", "l"),
        waits("b", "l"),
        refused("a", "k", "a waits for k held by b, b waits for l held by a", "RWWRITE"),
        releases("a", "l"),
        ("b", granted(1)),
    ],
    of_a_reader_behind_a_writer=[
        holds("a", "k", "RWREAD"),
        holds("c", "l"),
        waits("b", "k", "RWWRITE"),
        waits("b2", "l"),
        refused("c", "k", "c waits for k behind b, b waits for l held by c", "RWREAD"),
    ],
    of_a_reader_behind_a_writer_that_waits_for_a_reader=[
        # Not for the reader that holds the lock: c could share it.
        holds("a", "k", "RWREAD"),
        holds("c", "l"),
        waits("a", "l"),
        waits("w", "k", "RWWRITE"),
        refused("c", "k", "c waits for k behind w, w waits for k held by a, a waits for l held by c", "RWREAD"),
    ],
    of_a_writer_through_one_of_many_readers=[
        *[holds(name, "k", "RWREAD") for name in "abcd"],
        holds("w", "l"),
        waits("c", "l"),
        refused("w", "k", "w waits for k held by c, c waits for l held by w", "RWWRITE"),
        releases("w", "l"),
        ("c", granted(1)),
    ],
    through_another_connection_of_an_owner=[
        holds("a", "k"),
        holds("b", "l"),
        waits("a2", "l"),
        refused("b2", "k", TWO),
        releases("a", "k"),
        holds("b2", "k"),
    ],
    of_a_client_in_place_of_one_that_waits_fairly=[
        holds("a", "k"),
        holds("b", "l"),
        waits("b2", "k", "FAIR"),
        SEARCHED,
        detection("no"),
        waits("a", "l"),
        detection("yes"),
        refused("b3", "k", TWO, "FAIR"),
        ("b2", granted(None)),  # the place that it gave up to b3 is gone
        ("z", "LOCK.INFO k", has(waiting=0)),
        releases("a2", "k"),
    ],
    through_a_place_that_another_connection_took_over=[
        holds("a", "k"),
        holds("b", "l"),
        waits("b2", "k", "FAIR"),
        waits("b3", "k", "FAIR"),
        ("b2", granted(None)),
        refused("a", "l", "a waits for l held by b, b waits for k held by a"),
        releases("a", "k"),
        ("b3", granted(1)),
    ],
    through_a_kept_place_that_its_owner_has_returned_to=[
        holds("a", "k"),
        holds("b", "l"),
        waits("b2", "k", "FAIR"),
        ("b2", CLOSES),
        (lambda s: wait_for(lambda: s.server.info("lock")["lock_waiters"] == 0),),
        waits("b3", "k", "FAIR"),
        refused("a", "l", "a waits for l held by b, b waits for k held by a"),
    ],
    of_one_who_returns_to_a_kept_place=[
        holds("a", "k"),
        holds("b", "l"),
        waits("b2", "k", "FAIR"),
        ("b2", DIES),
        ("z", "PING", "PONG"),
        waits("a", "l"),
        refused("b3", "k", TWO, "FAIR"),
        # The request had taken the place over, and ended.
        (lambda s: wait_for(lambda: not s.server.control.exists("lock:queue:{k}"), what="the place to go"),),
        ("z", "EXISTS lock:timeout:{k}", 0),
        releases("b", "l"),
        ("a", granted(1)),
        ("b", "LOCK.FAIR k b BLOCK 0", BLOCKS),
        releases("a2", "k"),
        ("b", granted(1)),
    ],
)


@schedules(**CIRCLES)
def test_circle_is_refused(server, resp, schedule):
    server.control.config_set("lock.fair-reserve", 60_000)
    cut = server.info("lock")["lock_deadlock_searches_cut"]
    run_schedule(server, schedule, resp)
    assert server.info("lock")["lock_deadlock_searches_cut"] == cut


def test_circle_of_those_behind_a_kept_place_that_its_owner_returns_to(server):
    """Only with its owner's return c waits for a."""
    server.control.config_set("lock.fair-reserve", 60_000)
    steps = [holds("x", "k"), waits("a", "k", "FAIR"), ("a", DIES), holds("y", "l")]
    steps += [("c", "LOCK.MACQUIRE 2 k l c BLOCK 0", BLOCKS), waits("a2", "l")]
    run_schedule(server, steps)
    back = server.actor("a3")
    back.send(*words("FAIR", "k", "a", "BLOCK", 0))
    assert says("a waits for l behind c, c waits for k behind a")(back.outcome())


# Every pair of modes


def keys_of(number):
    return f"k{number}", f"l{number}"


@pytest.mark.parametrize("second", MODES)
@pytest.mark.parametrize("first", MODES)
def test_whatever_is_held_and_asked_for(server, first, second):
    """a holds k, b holds l, in each pair of modes; then a asks for l by `first`, b for k by `second`."""
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
        heard = b.attempt(*words(second, k, names["b"], *(() if second == held == "RWREAD" else ("BLOCK", 0))))
        if second == held == "RWREAD":
            assert heard == 1
            continue
        circle = f"b{number} waits for {k} held by a{number}, a{number} waits for {m} held by b{number}"
        assert says(circle)(heard), f"{held} {held_too}: {heard!r}"
        assert a.is_blocked() and not a.has_reply()
