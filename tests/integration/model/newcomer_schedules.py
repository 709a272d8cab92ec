"""Schedules of events before the search from a wait, which run on one server and in a cluster."""

from harness.schedule import BLOCKS, STILL_BLOCKED, granted, has
from model.deadlock_scene import TWO, detection, holds, refused, releases, deadlock, waits

# Of one slot, which LOCK.MACQUIRE needs in a cluster.
P, Q, R = "{p}1", "{p}2", "{p}3"
A_HOLDS_P_B_HOLDS_L = [holds("a", P), holds("b", "l")]
P_AND_L = f"b waits for {P} held by a, a waits for l held by b"

HERE = dict(
    through_a_multikey_wait_in_one_slot=[
        *A_HOLDS_P_B_HOLDS_L,
        ("b", f"LOCK.MACQUIRE 3 {Q} {P} {R} b BLOCK 0", BLOCKS),
        refused("a", "l", f"a waits for l held by b, b waits for {P} held by a"),
        releases("a", P),
        ("b", granted(3)),
    ],
    of_a_multikey_request_in_one_slot=[
        *A_HOLDS_P_B_HOLDS_L,
        waits("a", "l"),
        ("b", f"LOCK.MACQUIRE 3 {Q} {P} {R} b BLOCK 0", deadlock(P_AND_L)),
        ("z", f"EXISTS {Q} {R}", 0),
    ],
    of_a_multikey_request_in_one_slot_with_a_key_already_held=[
        *A_HOLDS_P_B_HOLDS_L,
        holds("b", Q),
        waits("a", "l"),
        ("b", f"LOCK.MACQUIRE 2 {Q} {P} b BLOCK 0", deadlock(P_AND_L)),
    ],
    behind_a_multikey_waiter_in_one_slot=[
        holds("c", P),
        holds("b", "l"),
        ("a", f"LOCK.MACQUIRE 2 {P} {Q} a BLOCK 0", BLOCKS),
        waits("a2", "l"),
        refused("b", Q, f"b waits for {Q} behind a, a waits for l held by b"),
    ],
    # At the key that it already holds b waits for no other owner, although c, which waits for b, is ahead there.
    no_cycle_through_a_key_already_held=[
        holds("b", P),
        holds("a", Q),
        holds("b", "l"),
        ("c", f"LOCK.MACQUIRE 2 {P} {R} c BLOCK 0", BLOCKS),
        waits("c2", "l"),
        ("b", f"LOCK.MACQUIRE 2 {P} {Q} b BLOCK 0", BLOCKS),
        ("b", STILL_BLOCKED),
        releases("a", Q),
        ("b", granted(2)),
    ],
    waiters_behind_are_granted=[
        holds("x", "k", "RWREAD"),
        holds("b", "l"),
        waits("x2", "l"),
        ("b", "LOCK.RWWRITE k b BLOCK 0", deadlock("b waits for k held by x, x waits for l held by b")),
        holds("c", "k", "RWREAD"),
    ],
    waiter_that_queued_behind_in_the_meantime_is_granted=[
        holds("x", "k", "RWREAD"),
        holds("b", "l"),
        waits("x2", "l"),
        (lambda s: at_once(s, ("b", "LOCK.RWWRITE k b BLOCK 0"), ("c", "LOCK.RWREAD k c BLOCK 0")),),
        (lambda s: check_reply(s, "b", deadlock("b waits for k held by x, x waits for l held by b")),),
        (lambda s: check_reply(s, "c", 1),),
    ],
    in_the_middle_of_a_fair_queue=[
        holds("a", "k"),
        holds("b", "l"),
        waits("a2", "l"),
        waits("c", "k", "FAIR"),
        refused("b", "k", TWO, "FAIR"),
        waits("d", "k", "FAIR"),
        ("z", "ZCARD lock:queue:{k}", 2),
        releases("a", "k"),
        ("c", granted(1)),
        releases("c", "k"),
        ("d", granted(1)),
    ],
    not_when_switched_off=[
        detection("no"),
        holds("a", "k"),
        holds("b", "l"),
        waits("a", "l"),
        waits("b", "k"),
        ("a", STILL_BLOCKED),
        ("b", STILL_BLOCKED),
        ("z", "LOCK.INFO k", has(waiting=1)),
        detection("yes"),
        ("b", STILL_BLOCKED),
    ],
)


def at_once(run, *commands):
    """These clients' commands run in one iteration of the server's event loop, in this order."""
    control = run.server.control
    control.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
    for name, command in commands:
        actor = run.actor(name)
        actor.send(*command.split())
        actor.wait_blocked()
    control.execute_command("CLIENT", "UNPAUSE")


def check_reply(run, name, expected):
    got = run.actor(name).outcome()
    assert expected(got) if callable(expected) else got == expected, f"{name} received {got!r}"


def receives(name, expected):
    return (lambda run: check_reply(run, name, expected),)


def together(*commands):
    return (lambda run: at_once(run, *commands),)


A_ASKS, B_ASKS = ("a", "LOCK.ACQUIRE l a BLOCK 0"), ("b", "LOCK.ACQUIRE k b BLOCK 0")
A_HOLDS_K_B_HOLDS_L = [holds("a", "k"), holds("b", "l")]
SAME_ITERATION = dict(
    the_later_of_two_is_refused=[
        *A_HOLDS_K_B_HOLDS_L,
        together(A_ASKS, B_ASKS),
        receives("b", deadlock(TWO)),
        (lambda s: is_waiting(s, "a"),),
    ],
    the_later_of_two_is_refused_the_other_way_round=[
        *A_HOLDS_K_B_HOLDS_L,
        together(B_ASKS, A_ASKS),
        receives("a", deadlock("a waits for l held by b, b waits for k held by a")),
        (lambda s: is_waiting(s, "b"),),
    ],
    the_last_of_three_is_refused=[
        *A_HOLDS_K_B_HOLDS_L,
        holds("c", "m"),
        together(A_ASKS, ("b", "LOCK.ACQUIRE m b BLOCK 0"), ("c", "LOCK.ACQUIRE k c BLOCK 0")),
        receives("c", deadlock("c waits for k held by a, a waits for l held by b, b waits for m held by c")),
        releases("c", "m"),
        receives("b", 1),
        releases("b", "l"),
        receives("a", 1),
    ],
)
NO_CYCLE = dict(
    granted=[
        *A_HOLDS_K_B_HOLDS_L,
        together(A_ASKS, B_ASKS, ("a2", "LOCK.RELEASE k a")),
        receives("a2", 0),
        receives("b", 1),
        (lambda s: is_waiting(s, "a"),),
    ],
    cancelled=[
        *A_HOLDS_K_B_HOLDS_L,
        together(A_ASKS, B_ASKS, ("z", "LOCK.CANCEL l a")),
        receives("z", 1),
        receives("a", None),
        (lambda s: is_waiting(s, "b"),),
    ],
    the_later_one_cancelled=[
        *A_HOLDS_K_B_HOLDS_L,
        together(A_ASKS, B_ASKS, ("z", "LOCK.CANCEL k b")),
        receives("z", 1),
        receives("b", None),
        (lambda s: is_waiting(s, "a"),),
    ],
    the_lock_deleted=[
        *A_HOLDS_K_B_HOLDS_L,
        together(A_ASKS, B_ASKS, ("z", "DEL k")),
        receives("z", 1),
        receives("b", 1),
        (lambda s: is_waiting(s, "a"),),
    ],
    made_the_holder_by_another_client=[
        # c is ahead of b at k, and waits for b at l; but b does not have to queue for a lock that it holds.
        holds("x", "k"),
        holds("b", "l"),
        waits("c", "k"),
        waits("c2", "l"),
        together(B_ASKS, ("y", "DEL k"), ("z", "HSET k b 1")),
        receives("y", 1),
        receives("z", 1),
        receives("b", 2),
        (lambda s: is_waiting(s, "c"),),
    ],
    the_owner_granted_elsewhere=[
        # b acquires the lock that it waits for on another connection: the wait is a re-entry.
        *A_HOLDS_K_B_HOLDS_L,
        together(A_ASKS, B_ASKS, ("a2", "LOCK.RELEASE k a"), ("b2", "LOCK.ACQUIRE k b")),
        receives("a2", 0),
        receives("b", 1),
        receives("b2", 2),
        (lambda s: is_waiting(s, "a"),),
    ],
)


def is_waiting(run, name):
    run.server.settle()
    actor = run.actor(name)
    assert actor.is_blocked() and not actor.has_reply()
