"""Schedules with cycles that are played on one server and in a cluster."""

from harness import wait_for
from harness.schedule import BLOCKS, CLOSES, DIES, STILL_BLOCKED, granted, has
from model.deadlock_scene import SEARCHED, TWO, detection, holds, in_db, refused, releases, says, waits

CYCLES = dict(
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
        ("b2", granted(None)),  # the position that it gave up to b3 is gone
        ("z", "LOCK.INFO k", has(waiting=0)),
        releases("a2", "k"),
    ],
    through_a_position_that_another_connection_took_over=[
        holds("a", "k"),
        holds("b", "l"),
        waits("b2", "k", "FAIR"),
        waits("b3", "k", "FAIR"),
        ("b2", granted(None)),
        refused("a", "l", "a waits for l held by b, b waits for k held by a"),
        releases("a", "k"),
        ("b3", granted(1)),
    ],
    through_a_reserved_position_that_its_owner_has_returned_to=[
        holds("a", "k"),
        holds("b", "l"),
        waits("b2", "k", "FAIR"),
        ("b2", CLOSES),
        (lambda s: wait_for(lambda: s.server.info("lock")["lock_waiters"] == 0),),
        waits("b3", "k", "FAIR"),
        refused("a", "l", "a waits for l held by b, b waits for k held by a"),
    ],
    of_one_who_returns_to_a_reserved_position=[
        holds("a", "k"),
        holds("b", "l"),
        waits("b2", "k", "FAIR"),
        ("b2", DIES),
        ("z", "PING", "PONG"),
        waits("a", "l"),
        refused("b3", "k", TWO, "FAIR"),
        # The request had taken the position over, and ended.
        (lambda s: wait_for(lambda: not s.server.control.exists("lock:queue:{k}"), what="the position to go"),),
        ("z", "EXISTS lock:timeout:{k}", 0),
        releases("b", "l"),
        ("a", granted(1)),
        ("b", "LOCK.FAIR k b BLOCK 0", BLOCKS),
        releases("a2", "k"),
        ("b", granted(1)),
    ],
)


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
