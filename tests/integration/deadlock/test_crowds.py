"""Many waiters neither hide a cycle nor make a wait expensive: the search does not visit waits that lead nowhere.

The helpers are those of model/deadlock_scene.py. INFO counts the steps of searches.
"""

import time

import pytest

from harness import code_of, fewer, wait_for
from harness.schedule import STILL_BLOCKED, run_schedule
from harness.yardstick import Yardstick
from model.deadlock_scene import TWO, counters, detection, holds, pipelined, refused, deadlock, waits

pytestmark = pytest.mark.usefixtures("no_lease_ends")

LONG = 3_600_000


def searched(server):
    info = server.info("lock")
    return info["lock_deadlock_searches"], info["lock_deadlock_search_steps"]


class Crowd:
    """Connections that wait, each with one command."""

    def __init__(self, server):
        self.server, self.sockets = server, []

    def wait(self, *commands):
        for command in commands:
            self.sockets.append(self.server.raw_connection())
            self.sockets[-1].sendall(f"{command} PX {LONG} BLOCK 0\r\n".encode())
        wait_for(lambda: self.server.info("lock")["lock_waiters"] == len(self.sockets), 60, "the crowd")
        self.server.all_searched(60)

    def steps_of(self, *commands):
        """How many steps the searches from these waits need in total."""
        searches, steps = searched(self.server)
        self.wait(*commands)
        assert searched(self.server)[0] == searches + len(commands)
        return searched(self.server)[1] - steps


def multikey(keys, owner):
    return f"LOCK.MACQUIRE {len(keys)} {' '.join(keys)} {owner}"


@pytest.mark.parametrize("others", [150, 205, 1000])
def test_cycle_of_two_in_a_crowd_is_found(server, others):
    """h holds all keys that x and the others need, and waits for z, which x holds."""
    keys, before = [f"m{i}" for i in range(100)], counters(server)
    h, x = server.actor("h"), server.actor("x")
    assert h.call("LOCK.MACQUIRE", len(keys), *keys, "h", "PX", LONG) == len(keys)
    assert x.call("LOCK.ACQUIRE", "z", "x", "PX", LONG) == 1
    crowd = Crowd(server)
    crowd.wait("LOCK.ACQUIRE z h", *(multikey(keys, f"o{i}") for i in range(fewer(others))))
    reply = x.attempt("LOCK.MACQUIRE", len(keys), *keys, "x", "BLOCK", 0)
    assert deadlock("x waits for m0 held by h, h waits for z held by x")(reply)
    assert counters(server) == (before[0] + 1, before[1])


# ---- the cost of a wait ----


@pytest.mark.parametrize("others", [30, 1000])
def test_wait_for_the_same_keys_as_a_crowd_needs_one_step_for_each_key(server, others):
    keys = [f"m{i}" for i in range(10)]
    pipelined(server, [("LOCK.ACQUIRE", key, "h", "PX", LONG) for key in keys])
    crowd = Crowd(server)
    crowd.wait(*(multikey(keys, f"o{i}") for i in range(fewer(others))))
    # Each key is checked once: whether the requester holds it.
    assert crowd.steps_of(*(multikey(keys, f"p{i}") for i in range(10))) <= 10 * len(keys)


@pytest.mark.parametrize("others", [30, 1000])
def test_wait_of_an_owner_that_has_a_waiter_needs_few_steps(server, others):
    """No client waits for that waiter."""
    keys = [f"m{i}" for i in range(10)]
    pipelined(server, [("LOCK.ACQUIRE", key, "h", "PX", LONG) for key in keys] + [("LOCK.ACQUIRE", "y", "p")])
    crowd = Crowd(server)
    crowd.wait("LOCK.ACQUIRE y q", *(multikey(keys, f"o{i}") for i in range(fewer(others))))
    steps = crowd.steps_of(multikey(keys, "p"))
    assert steps <= 6 * len(keys)


REQUESTS = ["LOCK.RWREAD k p", "LOCK.RWWRITE k p", "LOCK.ACQUIRE k p", "LOCK.MACQUIRE 2 k n p"]


@pytest.mark.parametrize("command", REQUESTS)
@pytest.mark.parametrize("owns", [False, True], ids=["holds nothing", "holds a lock that another waits for"])
def test_wait_among_thousands_of_readers_needs_few_steps(server, command, owns):
    """Many hold the lock to read, and as many wait to read behind a writer."""
    readers = fewer(1500)
    held = [("LOCK.RWREAD", "k", f"r{i}", "PX", LONG) for i in range(readers)]
    held += [("LOCK.ACQUIRE", "l", "h", "PX", LONG), ("LOCK.ACQUIRE", "y", "p" if owns else "h", "PX", LONG)]
    assert set(pipelined(server, held)) == {1}
    crowd = Crowd(server)
    crowd.wait("LOCK.RWWRITE k w", "LOCK.ACQUIRE l x", "LOCK.ACQUIRE y z")
    crowd.wait(*(f"LOCK.RWREAD k q{i}" for i in range(readers)))
    assert crowd.steps_of(command) <= 30


def test_wait_among_waits_for_other_locks_needs_few_steps(server):
    locks = fewer(1000)
    pipelined(server, [("LOCK.ACQUIRE", f"k{i}", f"h{i}", "PX", LONG) for i in range(locks + 1)])
    crowd = Crowd(server)
    crowd.wait(*(f"LOCK.ACQUIRE k{i} o{i}" for i in range(locks)))
    assert crowd.steps_of(f"LOCK.ACQUIRE k{locks} p") <= 4


@pytest.mark.parametrize("others", [30, 1000])
def test_waits_of_one_owner_on_many_connections_need_few_steps(server, others):
    """They are all for the same lock, so that together they lead to the same owners as one of them."""
    server.control.execute_command("LOCK.ACQUIRE", "k", "h", "PX", LONG)
    crowd = Crowd(server)
    crowd.wait(*["LOCK.ACQUIRE k o"] * fewer(others))
    assert crowd.steps_of(*["LOCK.ACQUIRE k o"] * 10) <= 10 * 16
    assert crowd.steps_of("LOCK.ACQUIRE k p", "LOCK.FAIR k q", "LOCK.MACQUIRE 2 k l r") <= 100


def test_one_owner_on_many_connections_closes_a_cycle(server):
    """Also when it waits for another lock for the first time."""
    call = server.control.execute_command
    call("LOCK.ACQUIRE", "k", "h", "PX", LONG)
    call("LOCK.ACQUIRE", "l", "o", "PX", LONG)
    crowd = Crowd(server)
    crowd.wait(*["LOCK.ACQUIRE k o"] * 30)
    h = server.actor("h")
    assert deadlock("h waits for l held by o, o waits for k held by h")(h.attempt("LOCK.ACQUIRE", "l", "h", "BLOCK", 0))


def test_waits_for_one_hot_lock_need_no_steps(server):
    server.control.execute_command("LOCK.RWWRITE", "k", "h")
    crowd = Crowd(server)
    modes = ("RWREAD", "RWWRITE", "ACQUIRE", "FAIR")
    assert crowd.steps_of(*(f"LOCK.{modes[i % 4]} k o{i}" for i in range(fewer(400)))) == 0


# ---- when the search is done ----


def test_wait_that_ends_at_once_is_not_searched_from(server):
    """It begins and is granted in one iteration of the event loop, twenty times."""
    control, before = server.control, searched(server)
    b, c = server.raw_connection(), server.raw_connection()
    for _ in range(20):
        control.execute_command("LOCK.ACQUIRE", "k", "a")
        control.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
        commands = [(b, b"LOCK.ACQUIRE k b BLOCK 0"), (c, b"LOCK.RELEASE k a")]
        for paused, (client, command) in enumerate(commands):
            client.sendall(command + b"\r\n")
            wait_for(lambda count=paused + 1: server.blocked_clients() == count, what="them to be paused")
        control.execute_command("CLIENT", "UNPAUSE")
        assert (b.recv(16), c.recv(16)) == (b":1\r\n", b":0\r\n")
        control.execute_command("LOCK.RELEASE", "k", "b")
    assert searched(server) == before


def test_work_of_the_drain_makes_no_search_start_earlier(server, actor):
    """m is deleted when b has just begun to wait. When d holds m, and so the drain has run, the search from b has not
    been done yet.

    It may have been if more than 2 ms have passed before the query: so it is enough to see this once.
    """
    control, b, c, d = server.control, actor("b"), actor("c"), actor("d")
    control.execute_command("LOCK.ACQUIRE", "k", "a")
    seen = []
    for _ in range(30):
        control.execute_command("LOCK.ACQUIRE", "m", "a")
        d.send_together(("LOCK.ACQUIRE", "m", "d", "BLOCK", 0), ("INFO", "lock"))
        d.wait_blocked()
        server.all_searched()
        control.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
        b.send("LOCK.ACQUIRE", "k", "b", "BLOCK", 0)
        b.wait_blocked()
        c.send("DEL", "m")
        c.wait_blocked()
        control.execute_command("CLIENT", "UNPAUSE")
        assert (d.reply(), c.reply()) == (1, 1)
        seen.append(int(d.reply().split("lock_waiters_unsearched:")[1].split()[0]))
        control.execute_command("LOCK.CANCEL", "k", "b")
        assert b.reply() is None
        control.execute_command("LOCK.RELEASE", "m", "d")
    assert set(seen) <= {0, 1} and 1 in seen


def test_cycle_of_waits_before_and_after_detection_was_on_is_found(server):
    steps = [detection("no"), holds("a", "k"), holds("b", "l"), waits("a", "l"), detection("yes")]
    run_schedule(server, [*steps, refused("b", "k", TWO), ("a", STILL_BLOCKED)])


def test_wait_that_began_with_detection_off_is_not_searched_from(server):
    before = searched(server)
    run_schedule(server, [detection("no"), holds("a", "k"), waits("b", "k"), detection("yes"), ("b", STILL_BLOCKED)])
    server.all_searched()
    assert searched(server) == before


class Two:
    """a holds k and waits for l, b holds l; b requests k again and again."""

    def __init__(self, server):
        self.a, self.b = server.actor("a"), server.actor("b")
        assert self.a.call("LOCK.ACQUIRE", "k", "a") == self.b.call("LOCK.ACQUIRE", "l", "b") == 1
        self.a.send("LOCK.ACQUIRE", "l", "a", "BLOCK", 0)
        self.a.wait_blocked()
        server.all_searched()

    def refused_after_ms(self):
        began = time.monotonic()
        reply = self.b.attempt("LOCK.ACQUIRE", "k", "b", "BLOCK", 0)
        after = 1000 * (time.monotonic() - began)
        assert code_of(reply) == "DEADLOCK"
        return after


@pytest.mark.timing
def test_refusal_is_replied_within_five_ms(server):
    two, machine, took = Two(server), Yardstick(server), []
    for _ in range(31):
        took.append(two.refused_after_ms())
        machine.measure()
    assert machine.allows(took, 5), took


@pytest.mark.timing
def test_alarm_that_is_set_for_later_delays_no_search(server, actor, at_once):
    """After a pause the drain runs again within 20 ms: a search from a wait that begins before that is not delayed."""
    two, control = Two(server), server.control
    c, machine, took = actor("c"), Yardstick(server), []
    for _ in range(9):
        control.execute_command("LOCK.ACQUIRE", "m", "h", "PX", LONG)
        c.send("LOCK.ACQUIRE", "m", "c", "PX", LONG, "BLOCK", 0)
        c.wait_blocked()
        server.all_searched()
        at_once("PEXPIRE m 30", "CLIENT PAUSE 600000 WRITE")
        server.let_pass(40)  # the lease of m has expired, and it cannot be granted in the pause
        control.execute_command("CLIENT", "UNPAUSE")
        took.append(two.refused_after_ms())
        machine.measure()
        assert c.reply() == 1
        control.execute_command("LOCK.RELEASE", "m", "c")
    assert machine.allows(took, 6), took


@pytest.mark.timing
def test_pending_search_delays_no_grant(server, actor):
    """The lock that is deleted is handed off at once, although the alarm has been set for later."""
    control, machine, took = server.control, Yardstick(server), []
    b, c = actor("b"), actor("c")
    for _ in range(31):
        control.execute_command("LOCK.ACQUIRE", "k", "a")
        b.send("LOCK.ACQUIRE", "k", "b", "BLOCK", 0)
        b.wait_blocked()
        server.all_searched()
        control.execute_command("LOCK.ACQUIRE", "m", "a")
        began = time.monotonic()
        c.send("LOCK.ACQUIRE", "m", "c", "BLOCK", 0)
        control.delete("k")
        assert b.reply() == 1
        took.append(1000 * (time.monotonic() - began))
        machine.measure()
        for key, owner in (("m", "a"), ("k", "b")):
            control.execute_command("LOCK.RELEASE", key, owner)
        assert c.reply() == 1
        control.execute_command("LOCK.RELEASE", "m", "c")
    assert machine.allows(took, 2), took
