"""The search from a wait is done a moment after it has begun: the state after a refusal, and events before the search.

The helpers are those of model/deadlock_scene.py; cluster/test_deadlock.py runs the schedules of
model/newcomer_schedules.py too. Commands of several clients that are to run in one iteration of the event loop are sent
while the server is paused.
"""

import time

import pytest

from harness import fewer, scaled_ms, wait_for
from harness.schedule import granted, run_schedule, schedules
from model.crowd import Crowd
from model.deadlock_scene import TWO, counters, holds, refused, releases, deadlock, waits
from model.newcomer_schedules import A_ASKS, HERE, NO_CYCLE, SAME_ITERATION


@pytest.fixture
def refusals(server):
    """Returns how many waits have been refused in this test."""
    before = counters(server)[0]
    return lambda: counters(server)[0] - before


@schedules(**HERE)
def test_cycle_is_refused_and_other_waiters_are_granted(server, schedule):
    run_schedule(server, schedule)


def test_refusal_leaves_nothing(server, refusals):
    steps = [holds("a", "k"), holds("b", "l"), waits("a", "l"), refused("b", "k", TWO, "FAIR")]
    steps += [releases("b", "l"), ("a", granted(1)), releases("a", "l"), releases("a", "k")]
    run_schedule(server, steps)
    assert refusals() == 1
    wait_for(lambda: server.control.dbsize() == 0, what="the fair queue's keys to be removed")
    info = server.info("lock")
    assert (info["lock_waiters"], info["lock_contended_locks"]) == (0, 0)


# ---- events before the search ----


@schedules(**SAME_ITERATION)
def test_last_of_the_waits_that_begin_in_one_iteration_is_refused(server, refusals, schedule):
    run_schedule(server, schedule)
    assert refusals() == 1


@schedules(**NO_CYCLE)
def test_no_cycle_when_a_wait_has_ended_before_the_search(server, refusals, schedule):
    run_schedule(server, schedule)
    assert refusals() == 0


class Paused:
    """a waits for b and b for a, and since then the server may not write, and so does not search."""

    def __init__(self, server, command="LOCK.ACQUIRE k b BLOCK 0"):
        self.server = server
        self.a, self.b, self.z = (server.actor(name) for name in "abz")
        assert self.a.call("LOCK.ACQUIRE", "k", "a") == self.b.call("LOCK.ACQUIRE", "l", "b") == 1
        server.control.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
        self.a.send(*A_ASKS[1].split())
        self.a.wait_blocked()
        self.b.send(*command.split())
        self.b.wait_blocked()
        assert self.z.call("MULTI") == "OK"
        for words in (("DEL", "nothing"), ("CLIENT", "PAUSE", 600_000, "WRITE"), ("EXEC",)):
            self.z.send(*words)
        self.z.wait_blocked()
        server.control.execute_command("CLIENT", "UNPAUSE")
        assert [self.z.reply() for _ in range(3)] == ["QUEUED", "QUEUED", [0, "OK"]]
        self.waiters(2)

    def waiters(self, count):
        wait_for(lambda: self.server.info("lock")["lock_waiters"] == count, what=f"{count} waiters")

    def resume(self):
        self.server.control.execute_command("CLIENT", "UNPAUSE")


def test_search_waits_for_the_end_of_a_pause(server, refusals):
    paused = Paused(server)
    server.settle(50)
    assert refusals() == 0 and not paused.b.has_reply()
    paused.resume()
    assert deadlock(TWO)(paused.b.outcome())
    assert paused.a.is_blocked()


def test_no_cycle_when_a_client_has_died_before_the_search(server, refusals):
    paused = Paused(server)
    paused.a.kill_socket()
    paused.waiters(1)
    paused.resume()
    server.settle()
    assert paused.b.is_blocked() and not paused.b.has_reply()
    assert refusals() == 0


def test_no_cycle_when_the_later_client_has_died_before_the_search(server, refusals):
    paused = Paused(server, "LOCK.FAIR k b BLOCK 0")
    paused.b.kill_socket()
    paused.waiters(1)
    paused.resume()
    server.settle()
    assert paused.a.is_blocked() and not paused.a.has_reply()
    assert refusals() == 0
    assert server.control.zcard("lock:queue:{k}") == 1  # it keeps its position


def test_no_cycle_when_a_wait_has_timed_out_before_the_search(server, refusals):
    paused = Paused(server, f"LOCK.ACQUIRE k b BLOCK {scaled_ms(500)}")
    assert paused.b.reply() is None
    paused.resume()
    server.settle()
    assert paused.a.is_blocked() and not paused.a.has_reply()
    assert refusals() == 0


def test_no_cycle_when_detection_was_switched_off_before_the_search(server, refusals):
    paused = Paused(server)
    server.control.config_set("lock.deadlock-detection", "no")
    paused.resume()
    server.settle()
    assert paused.b.is_blocked() and not paused.b.has_reply()
    assert refusals() == 0


def test_client_that_dies_as_it_is_refused_leaves_nothing(server):
    paused = Paused(server)
    paused.b.send("PING")
    paused.b.kill_socket()
    paused.waiters(1)
    paused.resume()
    paused.z.call("LOCK.RELEASE", "l", "b")
    assert paused.a.reply() == 1


@pytest.mark.parametrize("attempt", range(3))
def test_no_cycle_while_the_holders_other_wait_is_yet_to_be_granted(server, refusals, attempt):
    """A grant of 1,024 keys uses up the time slice: x, which has acquired l with them, is still behind v in the queue
    of l."""
    for owner, key in (("s", "l"), ("a", "m"), ("x", "k")):
        server.control.execute_command("LOCK.ACQUIRE", key, owner, "PX", 600_000)
    x, v, x2, a = (server.actor(name) for name in ("x", "v", "x2", "a"))
    many = [f"key{number}" for number in range(1023)]
    x.send("LOCK.MACQUIRE", 1024, "l", *many, "x", "PX", 600_000, "BLOCK", 0)
    x.wait_blocked()
    v.send("LOCK.MACQUIRE", 2, "l", "m", "v", "PX", 600_000, "BLOCK", 0)
    v.wait_blocked()
    x2.send("LOCK.ACQUIRE", "l", "x", "PX", 600_000, "BLOCK", 0)
    x2.wait_blocked()
    server.all_searched()
    a.send("LOCK.ACQUIRE", "k", "a", "PX", 600_000, "BLOCK", 0)
    server.control.delete("l")
    assert (x.reply(), x2.reply()) == (1024, 2)
    server.all_searched()
    assert refusals() == 0
    assert a.is_blocked()


def test_search_that_a_pause_interrupts_leaves_no_memory(server, checking_build):
    """The checking build checks after each drain, also in the pause, that no memory is left."""
    owners = fewer(5000)
    server.control.config_set("maxclients", 3 * owners)
    pipeline = server.control.pipeline(transaction=False)
    for number in range(owners):
        pipeline.execute_command("LOCK.ACQUIRE", f"k{number}", f"o{number}", "PX", 600_000)
    pipeline.execute()
    Crowd(server, *(f"LOCK.ACQUIRE k{number + 1} o{number} PX 600000 BLOCK 0" for number in range(owners - 1)))
    server.all_searched(60)
    last = server.actor("last")
    last.send("LOCK.ACQUIRE", "k0", f"o{owners - 1}", "PX", 600_000, "BLOCK", 0)
    time.sleep(0.008)  # the search begins after 2 ms, and takes about 50
    server.control.execute_command("CLIENT", "PAUSE", 60_000, "WRITE")
    server.disconnect_clients()
    wait_for(lambda: server.info("lock")["lock_waiters"] == 0, what="all waits to end")
    server.control.execute_command("CLIENT", "UNPAUSE")
    server.settle()


@pytest.mark.parametrize("attempt", range(20))
def test_search_whose_waiters_leave_between_two_steps_keeps_no_memory(make_server, checking_build, attempt):
    """The checking build checks after each drain, also before the next step of the search."""
    server, size = make_server(), 500
    for key in range(size):
        server.control.execute_command("LOCK.ACQUIRE", f"k{key}", "holder", "PX", 600_000)
    three = (" ".join(f"k{(key + step) % size}" for step in (0, 1, 7)) for key in range(size))
    crowd = Crowd(server, *(f"LOCK.MACQUIRE 3 {keys} o{number} PX 600000 BLOCK 0" for number, keys in enumerate(three)))
    crowd.die()
    wait_for(lambda: server.info("lock")["lock_waiters"] == 0, what="all waits to end")
    server.settle()
