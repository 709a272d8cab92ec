"""Schedules of what happens before a wait is searched from, played on one server and in a cluster."""

from harness.schedule import BLOCKS, STILL_BLOCKED, granted, has
from model.deadlock_scene import TWO, detection, holds, refused, releases, says, waits

# Of one slot, as LOCK.MACQUIRE has to have them in a cluster.
P, Q, R = "{p}1", "{p}2", "{p}3"
A_HOLDS_P_B_HOLDS_L = [holds("a", P), holds("b", "l")]
P_AND_L = f"b waits for {P} held by a, a waits for l held by b"

HERE = dict(
    one_of_several_in_one_slot=[
        *A_HOLDS_P_B_HOLDS_L,
        ("b", f"LOCK.MACQUIRE 3 {Q} {P} {R} b BLOCK 0", BLOCKS),
        refused("a", "l", f"a waits for l held by b, b waits for {P} held by a"),
        releases("a", P),
        ("b", granted(3)),
    ],
    of_one_who_asks_for_several=[
        *A_HOLDS_P_B_HOLDS_L,
        waits("a", "l"),
        ("b", f"LOCK.MACQUIRE 3 {Q} {P} {R} b BLOCK 0", says(P_AND_L)),
        ("z", f"EXISTS {Q} {R}", 0),
    ],
    of_one_who_holds_one_of_several_already=[
        *A_HOLDS_P_B_HOLDS_L,
        holds("b", Q),
        waits("a", "l"),
        ("b", f"LOCK.MACQUIRE 2 {Q} {P} b BLOCK 0", says(P_AND_L)),
    ],
    several_that_others_have_begun_to_wait_for=[
        holds("c", P),
        holds("b", "l"),
        ("a", f"LOCK.MACQUIRE 2 {P} {Q} a BLOCK 0", BLOCKS),
        waits("a2", "l"),
        refused("b", Q, f"b waits for {Q} behind a, a waits for l held by b"),
    ],
    # b waits for nobody where it holds the key already, although c, who waits for b, stands ahead there.
    no_cycle_over_one_of_several_that_is_held_already=[
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
    those_behind_are_granted=[
        holds("x", "k", "RWREAD"),
        holds("b", "l"),
        waits("x2", "l"),
        ("b", "LOCK.RWWRITE k b BLOCK 0", says("b waits for k held by x, x waits for l held by b")),
        holds("c", "k", "RWREAD"),
    ],
    one_who_came_behind_meanwhile_is_granted=[
        holds("x", "k", "RWREAD"),
        holds("b", "l"),
        waits("x2", "l"),
        (lambda s: at_once(s, ("b", "LOCK.RWWRITE k b BLOCK 0"), ("c", "LOCK.RWREAD k c BLOCK 0")),),
        (lambda s: heard(s, "b", says("b waits for k held by x, x waits for l held by b")),),
        (lambda s: heard(s, "c", 1),),
    ],
    one_in_the_middle_of_a_fair_queue=[
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


def at_once(run, *sayings):
    """These clients say this in one turn of the server's, in this order."""
    control = run.server.control
    control.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
    for name, said in sayings:
        actor = run.actor(name)
        actor.send(*said.split())
        actor.wait_blocked()
    control.execute_command("CLIENT", "UNPAUSE")


def heard(run, name, expected):
    got = run.actor(name).outcome()
    assert expected(got) if callable(expected) else got == expected, f"{name} heard {got!r}"


def hears(name, expected):
    return (lambda run: heard(run, name, expected),)


def together(*sayings):
    return (lambda run: at_once(run, *sayings),)


A_ASKS, B_ASKS = ("a", "LOCK.ACQUIRE l a BLOCK 0"), ("b", "LOCK.ACQUIRE k b BLOCK 0")
A_HOLDS_K_B_HOLDS_L = [holds("a", "k"), holds("b", "l")]
SAME_TURN = dict(
    the_later_of_two_is_refused=[
        *A_HOLDS_K_B_HOLDS_L,
        together(A_ASKS, B_ASKS),
        hears("b", says(TWO)),
        (lambda s: is_waiting(s, "a"),),
    ],
    the_later_of_two_is_refused_the_other_way_round=[
        *A_HOLDS_K_B_HOLDS_L,
        together(B_ASKS, A_ASKS),
        hears("a", says("a waits for l held by b, b waits for k held by a")),
        (lambda s: is_waiting(s, "b"),),
    ],
    the_last_of_three_is_refused=[
        *A_HOLDS_K_B_HOLDS_L,
        holds("c", "m"),
        together(A_ASKS, ("b", "LOCK.ACQUIRE m b BLOCK 0"), ("c", "LOCK.ACQUIRE k c BLOCK 0")),
        hears("c", says("c waits for k held by a, a waits for l held by b, b waits for m held by c")),
        releases("c", "m"),
        hears("b", 1),
        releases("b", "l"),
        hears("a", 1),
    ],
)
NO_CYCLE = dict(
    granted=[
        *A_HOLDS_K_B_HOLDS_L,
        together(A_ASKS, B_ASKS, ("a2", "LOCK.RELEASE k a")),
        hears("a2", 0),
        hears("b", 1),
        (lambda s: is_waiting(s, "a"),),
    ],
    cancelled=[
        *A_HOLDS_K_B_HOLDS_L,
        together(A_ASKS, B_ASKS, ("z", "LOCK.CANCEL l a")),
        hears("z", 1),
        hears("a", None),
        (lambda s: is_waiting(s, "b"),),
    ],
    the_later_one_cancelled=[
        *A_HOLDS_K_B_HOLDS_L,
        together(A_ASKS, B_ASKS, ("z", "LOCK.CANCEL k b")),
        hears("z", 1),
        hears("b", None),
        (lambda s: is_waiting(s, "a"),),
    ],
    the_lock_deleted=[
        *A_HOLDS_K_B_HOLDS_L,
        together(A_ASKS, B_ASKS, ("z", "DEL k")),
        hears("z", 1),
        hears("b", 1),
        (lambda s: is_waiting(s, "a"),),
    ],
    made_the_holder_by_hand=[
        # c stands before b at k, and waits for b at l; but b need not queue where it holds the lock.
        holds("x", "k"),
        holds("b", "l"),
        waits("c", "k"),
        waits("c2", "l"),
        together(B_ASKS, ("y", "DEL k"), ("z", "HSET k b 1")),
        hears("y", 1),
        hears("z", 1),
        hears("b", 2),
        (lambda s: is_waiting(s, "c"),),
    ],
    the_owner_granted_elsewhere=[
        # b comes by what it waits for, on another connection: the wait is a re-entry.
        *A_HOLDS_K_B_HOLDS_L,
        together(A_ASKS, B_ASKS, ("a2", "LOCK.RELEASE k a"), ("b2", "LOCK.ACQUIRE k b")),
        hears("a2", 0),
        hears("b", 1),
        hears("b2", 2),
        (lambda s: is_waiting(s, "a"),),
    ],
)


def is_waiting(run, name):
    run.server.settle()
    actor = run.actor(name)
    assert actor.is_blocked() and not actor.has_reply()
