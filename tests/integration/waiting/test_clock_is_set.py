"""The wall clock of the server is set while clients wait: each wait lasts as long as requested.

Times are measured with the monotonic clock of the machine; only the wall clock of the server is moved.
"""

import time

import pytest

from harness import scaled, scaled_ms, wait_for
from model.replicas_scene import add_replica, silent
from model.waiting_scene import HOUR

HOUR_S = 3600
BLOCK = scaled_ms(500)

each_step = pytest.mark.parametrize("step", [-HOUR_S, HOUR_S])

# The command that holds the lock, and the command that waits until its timeout.
WAITS = {
    "plain": (f"LOCK.ACQUIRE k h PX {2 * HOUR}", f"LOCK.ACQUIRE k w BLOCK {BLOCK}"),
    "fair": (f"LOCK.ACQUIRE k h PX {2 * HOUR}", f"LOCK.FAIR k w BLOCK {BLOCK}"),
    "reader": (f"LOCK.RWWRITE k h PX {2 * HOUR}", f"LOCK.RWREAD k w BLOCK {BLOCK}"),
    "permits": (f"LOCK.SEMAPHORE k h 1 PX {2 * HOUR}", f"LOCK.SEMAPHORE k w 1 BLOCK {BLOCK}"),
    "multi-key": (f"LOCK.ACQUIRE k h PX {2 * HOUR}", f"LOCK.MACQUIRE 2 k l w BLOCK {BLOCK}"),
    "watch": (f"LOCK.ACQUIRE k h PX {2 * HOUR}", f"LOCK.WATCH k h BLOCK {BLOCK}"),
    "latch": ("LATCH.SET k 1", f"LATCH.WAIT k BLOCK {BLOCK}"),
}
each_wait = pytest.mark.parametrize("holds, waits", WAITS.values(), ids=WAITS)


@pytest.fixture
def server(clock, make_server):
    return make_server(hz=50)


def begin(server, words, **options):
    """Returns the waiter, and the earliest time at which its wait began."""
    waiter = server.actor("waiter", **options)
    began = time.monotonic()
    waiter.send(*words.split())
    return waiter.wait_blocked(), began


def assert_lasted(began, block_ms=BLOCK):
    lasted = time.monotonic() - began
    assert block_ms / 1000 - 0.001 <= lasted < block_ms / 1000 + scaled(3)


@each_step
@each_wait
def test_wait_lasts_as_long_as_requested(clock, server, holds, waits, step):
    server.control.execute_command(*holds.split())
    waiter, began = begin(server, waits)
    clock.step(step)
    assert waiter.reply() is None
    assert_lasted(began)


@each_wait
def test_many_waits_end_in_the_order_of_their_deadlines(clock, server, holds, waits):
    server.control.execute_command(*holds.split())

    def words(n):
        return waits.replace(f"BLOCK {BLOCK}", f"BLOCK {BLOCK + scaled_ms(30) * n}").replace(" w ", f" w{n} ")

    waiters = [begin(server, words(n)) for n in range(5)]
    clock.step(-HOUR_S)
    for n, (waiter, began) in enumerate(waiters):
        assert waiter.reply() is None
        assert_lasted(began, BLOCK + scaled_ms(30) * n)


def test_wait_that_began_before_two_steps_lasts_as_long_as_requested(clock, server):
    """The clock steps back and then to the true time again: Redis 7.2 and later would sleep for the hour."""
    server.control.execute_command("LOCK.ACQUIRE", "k", "h", "PX", 2 * HOUR)
    waiter, began = begin(server, f"LOCK.ACQUIRE k w BLOCK {2 * BLOCK}")
    clock.step_for(server, -HOUR_S)
    clock.step_for(server, 0)
    assert waiter.reply() is None
    assert_lasted(began, 2 * BLOCK)


@each_step
def test_deadlock_is_found(clock, server, step):
    a, b = server.actor("a"), server.actor("b")
    for actor, key in ((a, "ka"), (b, "kb")):
        assert actor.call("LOCK.ACQUIRE", key, actor.name, "PX", 10 * HOUR) == 1
    a.send("LOCK.ACQUIRE", "kb", "a", "BLOCK", 0)
    a.wait_blocked()
    clock.step(step)
    assert str(b.attempt("LOCK.ACQUIRE", "ka", "b", "BLOCK", 0)).startswith("DEADLOCK")


@each_step
def test_wait_for_replicas_lasts_as_long_as_requested(clock, server, step):
    replica = add_replica(server)
    with silent(replica):
        waiter, began = begin(server, f"LOCK.ACQUIRE k w PX {2 * HOUR} REPLICAS 1 {BLOCK}")
        clock.step(step)
        assert str(waiter.outcome()).startswith("NOREPLICAS")
        assert_lasted(began)


@each_step
def test_grace_of_a_session_lasts_as_long_as_configured(clock, make_server, step):
    server = make_server(hz=50, lock_session_grace=BLOCK, lock_default_lease=10 * HOUR)
    holder = server.actor("holder")
    assert holder.call("LOCK.ACQUIRE", "k", "h", "SESSION") == 1
    waiter, _ = begin(server, "LOCK.ACQUIRE k w BLOCK 0")
    began = time.monotonic()
    holder.kill_socket()
    wait_for(lambda: not holder.is_connected(), what="the server to notice the close")
    clock.step(step)
    assert waiter.reply() == 1
    assert_lasted(began)


def test_lease_of_a_session_is_renewed_when_the_clock_steps_back(clock, make_server):
    """The lease ends later by as much as the clock was set back; later renewals are made in time."""
    lease = scaled_ms(600)
    server = make_server(hz=50, lock_default_lease=lease)
    holder = server.actor("holder")
    assert holder.call("LOCK.ACQUIRE", "k", "h", "SESSION") == 1
    clock.step_for(server, -HOUR_S)
    assert server.control.pttl("k") > HOUR
    clock.step_for(server, 0)
    end = time.monotonic() + 3 * lease / 1000
    wait_for(lambda: time.monotonic() > end, 30, "some leases to pass")
    assert 0 < server.control.pttl("k") <= lease


def test_lease_follows_the_wall_clock(clock, server):
    """A lease is the TTL of a key."""
    server.control.execute_command("LOCK.ACQUIRE", "k", "h", "PX", HOUR // 2)
    waiter, _ = begin(server, "LOCK.ACQUIRE k w BLOCK 0")
    clock.step(HOUR_S)
    assert waiter.reply() == 1


def test_reserved_position_follows_the_wall_clock(clock, make_server):
    server = make_server(hz=50, lock_fair_reserve=HOUR // 2)
    server.control.execute_command("LOCK.ACQUIRE", "k", "h", "PX", 10 * HOUR)
    begin(server, "LOCK.FAIR k w BLOCK 0")[0].kill_socket()
    wait_for(lambda: server.info("lock")["lock_waiters"] == 0, what="the position to be reserved")
    clock.step(HOUR_S)
    wait_for(lambda: server.info("lock")["lock_contended_locks"] == 0, what="the position to end")


@each_step
def test_fair_positions_are_written_again(clock, server, step):
    """Otherwise their keys would expire an hour too early, or have an end that is wrong by an hour."""
    server.control.execute_command("LOCK.ACQUIRE", "k", "h", "PX", 10 * HOUR)
    begin(server, "LOCK.FAIR k finite BLOCK 60000")
    begin(server, "LOCK.FAIR k endless BLOCK 0")
    clock.step_for(server, step)

    def ends():
        return dict(server.control.zrange("lock:timeout:{k}", 0, -1, withscores=True))

    wait_for(lambda: 0 < ends().get("finite", 0) - server.now_ms() <= 60_000, what="the end to be written again")
    assert ends()["endless"] == float("inf")
    assert server.control.zrange("lock:queue:{k}", 0, -1) == ["finite", "endless"]
    assert min(server.control.pttl(key) for key in ("lock:queue:{k}", "lock:timeout:{k}")) > 60_000


def test_module_can_be_unloaded_after_waits(clock, make_server):
    """No timer is left."""
    server = make_server(enable_module_command="yes", lock_allow_unload="yes")
    server.control.execute_command("LOCK.ACQUIRE", "k", "h")
    waiter, _ = begin(server, f"LOCK.ACQUIRE k w BLOCK {HOUR}")
    clock.step_for(server, -HOUR_S)
    server.control.execute_command("LOCK.FORCE", "k")
    assert waiter.reply() == 1
    assert server.control.execute_command("LOCK.RELEASE", "k", "w") == 0
    admin = server.actor()
    wait_for(lambda: admin.attempt("MODULE", "UNLOAD", "lock") == "OK", what="the module to unload")


def test_delayed_element_is_delivered_when_the_clock_steps_past_its_time(clock, server):
    server.control.execute_command("DELAY.PUSH", "q", "a", HOUR // 2, "v")
    clock.step(HOUR_S)
    wait_for(lambda: server.control.lrange("q", 0, -1) == ["v"], what="the element")
