"""Search for cycles where clients wait for permits: permits and waits for them are no edges, and hide none."""

from harness.schedule import BLOCKS, STILL_BLOCKED, granted, run_schedule, schedules
from model.deadlock_scene import SEARCHED, TWO, holds, refused, releases, waits


def takes(name, key, limit=1):
    return (name, f"LOCK.SEMAPHORE {key} {name[0]} {limit} PX 600000", 1)


def waits_for_permits(name, key, limit=1, permits=1):
    return (name, f"LOCK.SEMAPHORE {key} {name[0]} {limit} PERMITS {permits} BLOCK 0", BLOCKS)


STILL_ALL = [(name, STILL_BLOCKED) for name in "abc"]

SCHEDULES = dict(
    # A cycle of locks is found although some of its owners also wait for permits.
    past_waits_for_permits=[
        takes("x", "s"),
        holds("a", "k"),
        holds("b", "l"),
        waits_for_permits("a1", "s"),
        waits_for_permits("b1", "s"),
        waits("a2", "l"),
        refused("b2", "k", TWO),
        ("a2", STILL_BLOCKED),
        releases("x", "s"),
        ("a1", granted(1)),
        ("b1", STILL_BLOCKED),
    ],
    # Through the queue of a semaphore, but between waits for locks.
    behind_a_waiter_for_a_lock_of_that_name=[
        takes("x", "s"),
        holds("a", "k"),
        waits("b", "s"),
        waits("a2", "s"),
        refused("b2", "k", "b waits for k held by a, a waits for s behind b"),
        releases("x", "s"),
        ("b", granted(1)),
        releases("b", "s"),
        ("a2", granted(1)),
    ],
    permits_in_the_middle=[
        takes("a", "s"),
        holds("b", "l"),
        holds("c", "m"),
        waits("a", "m"),
        waits_for_permits("b", "s"),
        waits("c", "l"),
        SEARCHED,
        *STILL_ALL,
        ("z", "LOCK.FORCE s", 1),
        ("b", granted(1)),
        ("c", STILL_BLOCKED),
    ],
    # Also if a lock has replaced the semaphore: its holder is one known owner, and still no edge.
    waiter_for_permits_where_a_lock_is_held=[
        holds("a", "k"),
        holds("b", "l"),
        holds("c", "m"),
        waits_for_permits("a", "l"),
        waits("b", "m"),
        waits("c", "k"),
        SEARCHED,
        *STILL_ALL,
        ("z", "LOCK.CANCEL k c", 1),
        ("c", granted(None)),
        releases("c", "m"),
        ("b", granted(1)),
        releases("b", "l"),
        ("a", granted(1)),
    ],
    one_behind_the_other_for_permits=[
        takes("x", "s", 2),
        holds("a", "k"),
        waits_for_permits("b", "s", 2, 2),
        waits_for_permits("a", "s", 2),
        waits("b2", "k"),
        SEARCHED,
        ("b2", STILL_BLOCKED),
        ("a", STILL_BLOCKED),
        releases("x", "s"),
        ("b", granted(2)),
        releases("b", "s", left=1),
        ("a", granted(1)),
    ],
    a_holder_that_waits_for_more=[
        takes("a", "s"),
        waits_for_permits("a2", "s"),
        SEARCHED,
        ("a2", STILL_BLOCKED),
        releases("a", "s"),
        ("a2", granted(1)),
    ],
)


@schedules(**SCHEDULES)
def test_permits_are_no_edges_and_hide_no_cycle(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)
