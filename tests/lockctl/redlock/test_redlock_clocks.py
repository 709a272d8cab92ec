"""Servers whose clocks run fast, or jump: how many of them a majority tolerates."""

import os
import shutil
import subprocess

import pytest

from harness import ServerDied, scaled, scaled_ms, wait_for
from harness.clock import Clock
from redlock_ring import patient

LEASE_S = 3


@pytest.fixture
def twice_as_fast(make_ring, monkeypatch):
    """twice_as_fast(ring, 0): restarts the server with a clock that runs twice as fast.

    Uses libfaketime, which allocates memory before it has found the real time; and jemalloc reads the time at the first
    allocation. So the servers here use the allocator of the C library.
    """
    if not shutil.which("faketime"):
        pytest.skip("no faketime: apt-get install faketime")
    library = subprocess.run(["faketime", "-m", "-f", "+0", "printenv", "LD_PRELOAD"], capture_output=True, text=True)

    def start(ring, *numbers):
        for number in numbers:
            ring.kill(number)
            with monkeypatch.context() as patch:
                patch.setenv("LD_PRELOAD", f"{library.stdout.strip()}:libc.so.6")
                patch.setenv("FAKETIME", "+0 x2")
                try:
                    ring.start(number)
                except ServerDied as error:
                    pytest.skip("this server does not start under faketime: " + " ".join(str(error).split())[-200:])
            # On a busy machine the program may be stalled between two readings: a wrong speed may look right once.
            wait_for(lambda: is_fast(ring, ring.servers[number]), scaled(10), "a clock that runs twice as fast")

    def is_fast(ring, server):
        return all(1.5 < speed(ring, server) < 2.5 for _ in range(3))

    def speed(ring, server):
        before, began = server.now_ms(), ring.servers[-1].now_ms()
        ring.let_pass(200, -1)
        return (server.now_ms() - before) / (ring.servers[-1].now_ms() - began)

    return start


def play(ring, lock_run, judge, late=(), spoil=lambda: None):
    """The faults that the checker finds when a holder is cut off from all servers, and another client is not.

    `late`: these servers start only then, and have not granted the first holder the lock. The first holder ignores
    SIGTERM, so it works as long as it can.
    """
    ring.kill(*late)
    first = lock_run(ring, "-l", patient(LEASE_S), deaf=True)
    owner = first.wait_holds().owner
    ring.wait_held(owner, *(number for number in range(len(ring.servers)) if number not in late))
    ring.cut(*range(len(ring.servers)))
    ring.start(*late)
    spoil()
    second = lock_run(ring, "-l", patient(60), "--wait", patient(30), direct=True)
    second.wait_holds(30)
    assert first.status() == 76
    assert second.finish() == (0, "")
    return judge([first.hold(), second.hold()])


# With a fast clock the lease expires early. The number of servers, which are fast, which are late, a fault is found.

FAST = {
    "one of three": (3, [0], (), False),
    "two of five": (5, [0, 1], (), False),
    # The fast servers are a majority, alone or with those that have not granted the lock: docs/redlock.md.
    "two of three": (3, [0, 1], (), True),
    "three of five": (5, [0, 1, 2], (), True),
    "one of two that have granted it": (3, [0], (2,), True),
    "one of three that have granted it": (5, [0], (3, 4), True),
}


@pytest.mark.parametrize("which", FAST)
def test_clocks_that_run_twice_as_fast(make_ring, lock_run, judge, twice_as_fast, which):
    count, fast, late, finds = FAST[which]
    ring = make_ring(count, proxied=True)
    twice_as_fast(ring, *fast)
    assert ("holder" in play(ring, lock_run, judge, late)) == finds, judge.text


def test_renewals_come_before_the_end_by_a_fast_clock(make_ring, lock_run, twice_as_fast):
    """A third of the lease is less than half of it."""
    ring = make_ring(3)
    twice_as_fast(ring, 0, 1)
    run = lock_run(ring, "-l", patient(LEASE_S))
    run.wait_holds()
    ends = ring.ends_ms(2)
    wait_for(lambda: ring.ends_ms(2) > ends + 2 * scaled_ms(1000 * LEASE_S), 20, "renewals")
    assert run.lives_on() and run.finish() == (0, "")


# When a clock jumps, the lease expires at once.


@pytest.mark.parametrize("jumps", [1, 2])
def test_clocks_that_jump(make_ring, lock_run, judge, tmp_path, monkeypatch, jumps):
    ring = make_ring(3, proxied=True)
    with monkeypatch.context() as patch:
        clock = Clock(tmp_path, patch)
        for number in range(jumps):
            ring.kill(number)
            ring.start(number)

    def jump():
        clock.step(3600)
        for number in range(jumps):
            wait_for(lambda number=number: ring.is_free(number), what="the server to notice the jump")

    faults = play(ring, lock_run, judge, spoil=jump)
    assert ("holder" in faults) == (jumps == 2), judge.text


def test_a_clock_that_is_set_back_keeps_the_lock(make_ring, lock_run, tmp_path, monkeypatch):
    """The lease lasts longer there. A minority of such servers does not prevent a grant."""
    ring = make_ring(3)
    with monkeypatch.context() as patch:
        clock = Clock(tmp_path, patch)
        ring.kill(0)
        ring.start(0)
    first = lock_run(ring, "-l", patient(1))
    ring.wait_held(first.wait_holds().owner, 0, 1, 2)
    clock.step_for(ring.servers[0], -3600)
    os.kill(first.process.pid, 9)
    second = lock_run(ring, "--wait", patient(10))
    second.wait_holds()
    assert set(ring.holders(0)) == {first.worker().owner}
    assert second.finish(scaled(20)) == (0, "")
