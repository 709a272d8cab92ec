"""A wait is searched from a moment after it has begun: what that leaves, and what may happen before.

Words and helpers are those of test_deadlock.py; the schedules are played in a cluster too, by test_deadlock_cluster.py.
What several clients are to say within one moment of the server, they say while it is paused.
"""

import pytest

from harness import scaled_ms, wait_for
from harness.schedule import BLOCKS, STILL_BLOCKED, granted, has, run_schedule, schedules
from test_deadlock import TWO, detection, holds, refused, releases, says, waits
from test_deadlock_bound import counters

# Of one slot, as LOCK.MACQUIRE has to have them in a cluster.
P, Q, R = "{p}1", "{p}2", "{p}3"


@pytest.fixture
def refusals(server):
    """How many waits have been refused in this test."""
    before = counters(server)[0]
    return lambda: counters(server)[0] - before


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
    no_circle_over_one_of_several_that_is_held_already=[
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


@schedules(**HERE)
def test_circle_and_what_it_leaves(server, schedule):
    run_schedule(server, schedule)


def test_refusal_leaves_nothing(server, refusals):
    steps = [holds("a", "k"), holds("b", "l"), waits("a", "l"), refused("b", "k", TWO, "FAIR")]
    steps += [releases("b", "l"), ("a", granted(1)), releases("a", "l"), releases("a", "k")]
    run_schedule(server, steps)
    assert refusals() == 1
    wait_for(lambda: server.control.dbsize() == 0, what="the fair queue's keys to go")
    info = server.info("lock")
    assert (info["lock_waiters"], info["lock_contended_locks"]) == (0, 0)


# ---- what happens before the search ----

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

NO_CIRCLE = dict(
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


@schedules(**SAME_TURN)
def test_of_those_that_come_together_the_last_is_refused(server, refusals, schedule):
    run_schedule(server, schedule)
    assert refusals() == 1


@schedules(**NO_CIRCLE)
def test_no_circle_when_a_wait_has_ended_before_the_search(server, refusals, schedule):
    run_schedule(server, schedule)
    assert refusals() == 0


class Paused:
    """a waits for b and b for a, and the server may not write, and so not search, since they came."""

    def __init__(self, server, said="LOCK.ACQUIRE k b BLOCK 0"):
        self.server = server
        self.a, self.b, self.z = (server.actor(name) for name in "abz")
        assert self.a.call("LOCK.ACQUIRE", "k", "a") == self.b.call("LOCK.ACQUIRE", "l", "b") == 1
        server.control.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
        self.a.send(*A_ASKS[1].split())
        self.a.wait_blocked()
        self.b.send(*said.split())
        self.b.wait_blocked()
        assert self.z.call("MULTI") == "OK"
        for said in (("DEL", "nothing"), ("CLIENT", "PAUSE", 600_000, "WRITE"), ("EXEC",)):
            self.z.send(*said)
        self.z.wait_blocked()
        server.control.execute_command("CLIENT", "UNPAUSE")
        assert [self.z.reply() for _ in range(3)] == ["QUEUED", "QUEUED", [0, "OK"]]
        self.waiters(2)

    def waiters(self, count):
        wait_for(lambda: self.server.info("lock")["lock_waiters"] == count, what=f"{count} waiters")

    def goes_on(self):
        self.server.control.execute_command("CLIENT", "UNPAUSE")


def test_search_waits_for_the_end_of_a_pause(server, refusals):
    paused = Paused(server)
    server.settle(50)
    assert refusals() == 0 and not paused.b.has_reply()
    paused.goes_on()
    assert says(TWO)(paused.b.outcome())
    assert paused.a.is_blocked()


def test_no_circle_when_a_client_has_died_before_the_search(server, refusals):
    paused = Paused(server)
    paused.a.kill_socket()
    paused.waiters(1)
    paused.goes_on()
    server.settle()
    assert paused.b.is_blocked() and not paused.b.has_reply()
    assert refusals() == 0


def test_no_circle_when_the_later_client_has_died_before_the_search(server, refusals):
    paused = Paused(server, "LOCK.FAIR k b BLOCK 0")
    paused.b.kill_socket()
    paused.waiters(1)
    paused.goes_on()
    server.settle()
    assert paused.a.is_blocked() and not paused.a.has_reply()
    assert refusals() == 0
    assert server.control.zcard("lock:queue:{k}") == 1  # it keeps its place


def test_no_circle_when_a_wait_has_timed_out_before_the_search(server, refusals):
    paused = Paused(server, f"LOCK.ACQUIRE k b BLOCK {scaled_ms(30)}")
    assert paused.b.reply() is None
    paused.goes_on()
    server.settle()
    assert paused.a.is_blocked() and not paused.a.has_reply()
    assert refusals() == 0


def test_no_circle_when_detection_was_switched_off_before_the_search(server, refusals):
    paused = Paused(server)
    server.control.config_set("lock.deadlock-detection", "no")
    paused.goes_on()
    server.settle()
    assert paused.b.is_blocked() and not paused.b.has_reply()
    assert refusals() == 0


def test_client_that_dies_as_it_is_refused_leaves_nothing(server):
    paused = Paused(server)
    paused.b.send("PING")
    paused.b.kill_socket()
    paused.waiters(1)
    paused.goes_on()
    paused.z.call("LOCK.RELEASE", "l", "b")
    assert paused.a.reply() == 1
