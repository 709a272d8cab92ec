"""Servers that fail: before the request, while the lock is held, and when it is released."""

import os
import signal

import pytest

from harness import scaled_ms, wait_for
from redlock_ring import FAILURES, patient, wait_gone

failure = pytest.mark.parametrize("how", FAILURES)
LEASE_S = 1.5


def ring_for(make_ring, how, count=5):
    return make_ring(count, proxied=how == "cut off")


# Two of five


@failure
def test_two_fail_before(make_ring, lock_run, how):
    ring, (fail, _) = ring_for(make_ring, how), FAILURES[how]
    fail(ring, 0, 3)
    run = lock_run(ring, "--wait", "0")
    owner = run.wait_holds().owner
    ring.wait_held(owner, 1, 2, 4)
    assert run.finish() == (0, "")
    assert all(ring.is_free(number) for number in (1, 2, 4))


@failure
@pytest.mark.parametrize("which", [(0, 1), (1, 2), (3, 4)], ids=str)
def test_two_fail_while_it_is_held(make_ring, lock_run, how, which):
    ring, (fail, _) = ring_for(make_ring, how), FAILURES[how]
    run = lock_run(ring, "-l", patient(LEASE_S))
    owner = run.wait_holds().owner
    ring.wait_held(owner, *range(5))
    fail(ring, *which)
    well = [number for number in range(5) if number not in which]
    ends = [ring.ends_ms(number) for number in well]
    for number, end in zip(well, ends, strict=True):
        wait_for(
            lambda number=number, end=end: ring.ends_ms(number) > end + 2 * scaled_ms(1000 * LEASE_S),
            10,
            "renewals to go on",
        )
    assert run.lives_on() and run.finish() == (0, "")
    assert all(ring.is_free(number) for number in well)


@failure
def test_two_fail_when_it_is_given_back(make_ring, lock_run, how):
    ring, (fail, repair) = ring_for(make_ring, how), FAILURES[how]
    run = lock_run(ring, "-l", "60")
    ring.wait_held(run.wait_holds().owner, *range(5))
    fail(ring, 2, 4)
    assert run.finish() == (0, "")
    assert all(ring.is_free(number) for number in (0, 1, 3))
    if how == "cut off":
        # Data in transit arrives now.
        ring.heal(2, 4, late=True)
    else:
        repair(ring, 2, 4)
    # Long before the lease expires.
    ring.wait_free(2, 4)


@failure
def test_a_third_fails_and_it_is_lost_in_time(make_ring, lock_run, how):
    """The command is dead before the lease expires on the running servers, although it ignores SIGTERM."""
    ring, (fail, _) = ring_for(make_ring, how), FAILURES[how]
    run = lock_run(ring, "-l", patient(LEASE_S), deaf=True)
    owner = run.wait_holds().owner
    ring.wait_held(owner, *range(5))
    fail(ring, 0, 1)
    first = ring.ends_ms(2)
    wait_for(lambda: ring.ends_ms(2) > first, what="a renewal by three")
    fail(ring, 4)
    # Their leases are still renewed while lockctl tries; what counts is the last lease that a majority has granted.
    living = [2, 3] + ([4] if how == "cut off" else [])
    ends = min(ring.ends_ms(number) for number in living)
    status, said = run.end()
    assert status == 76 and "the lock is lost" in said
    assert run.worker().lives_by_day / 1e6 < ends
    # The remaining grants are released.
    ring.wait_free(2, 3)


def test_a_command_that_ends_by_sigterm_is_told_before(make_ring, lock_run):
    ring = make_ring(3)
    run = lock_run(ring, "-l", patient(6), "--grace", patient(5))
    ring.wait_held(run.wait_holds().owner, 0, 1, 2)
    ring.stop(0, 1)
    ends = min(ring.ends_ms(2), run.worker().lives_by_day / 1e6 + scaled_ms(6000))
    assert run.status() == 76
    # A third of the lease before its end, because the grace time is longer than that.
    assert run.worker().lives_by_day / 1e6 < ends - scaled_ms(1000)


# Releases


@pytest.mark.parametrize("how", ["stopped", "cut off"])
def test_a_release_reaches_who_had_not_answered(make_ring, lock_run, how):
    """They have not even replied to the acquisition, which is still pending when the lock is released."""
    ring, (fail, repair) = ring_for(make_ring, how), FAILURES[how]
    fail(ring, 0, 1)
    run = lock_run(ring, "-l", "60", until=0)
    assert run.status() == 0
    repair(ring, 0, 1, late=True) if how == "cut off" else repair(ring, 0, 1)
    for number in (0, 1):
        wait_for(lambda number=number: ring.calls(number, "lock.acquire") == 1, what="the request to arrive")
    ring.wait_free(0, 1)


def test_a_round_in_vain_is_given_back_by_who_had_not_answered(make_ring, lock_run):
    ring = make_ring(5)
    ring.take("other", 3_600_000, 0, 1, 2)
    ring.stop(3)
    assert lock_run(ring, "-l", "60", "--wait", "0").status() == 75
    ring.wait_free(4)
    ring.go_on(3)
    wait_for(lambda: ring.calls(3, "lock.acquire") == 1, what="the request to arrive")
    ring.wait_free(3)


def test_a_release_after_the_connections_were_lost(make_ring, lock_run):
    """lockctl reconnects to send it: the lease would last long."""
    ring = make_ring(5)
    run = lock_run(ring, "-l", "60")
    ring.wait_held(run.wait_holds().owner, *range(5))
    os.kill(run.process.pid, signal.SIGSTOP)
    for number in (0, 1, 2):
        ring.servers[number].control.client_kill_filter(_type="normal", skipme=True)
    run.process.stdin.close()
    # It has ended, but is not reaped before lockctl continues.
    wait_gone(run.worker().pid)
    os.kill(run.process.pid, signal.SIGCONT)
    assert run.status() == 0
    ring.wait_free(*range(5))


def test_a_round_in_vain_on_a_connection_that_was_lost(make_ring, lock_run):
    """The grant has not arrived, and there is no connection on which to release it: lockctl opens another one."""
    ring = make_ring(5, proxied=True)
    ring.take("other", 3_600_000, 0, 1, 2)
    # So that the connection is lost before the round ends, and the round ends before the next attempt to connect.
    ring.slow(0.05, 0, 1, 2)
    ring.proxies[4].unanswered = b"LOCK.ACQUIRE"
    assert lock_run(ring, "-l", "60", "--wait", "0").status() == 75
    assert ring.proxies[4].has_cut() and ring.calls(4, "lock.acquire") == 1
    ring.wait_free(3, 4)


def test_a_wait_that_is_broken_off(make_ring, lock_run):
    ring = make_ring(5)
    ring.take("other", 3_600_000, 0, 1, 2)
    run = lock_run(ring, "-l", "60")
    wait_for(lambda: ring.calls(4, "lock.acquire") >= 2, 10, "two rounds")
    run.process.terminate()
    assert run.status() == -signal.SIGTERM
    ring.wait_free(3, 4)


# Servers that come back empty


def test_one_that_comes_back_empty_is_asked_again_and_counts_later(make_ring, lock_run):
    ring = make_ring(3)
    run = lock_run(ring, "-l", patient(LEASE_S))
    owner = run.wait_holds().owner
    ring.wait_held(owner, 0, 1, 2)
    ring.kill(0)
    ring.start(0)
    ring.wait_held(owner, 0)
    # First a round with a majority of the other two, then a round that finds the lock on this server.
    ends = ring.ends_ms(1)
    wait_for(lambda: ring.ends_ms(1) > ends + scaled_ms(1000 * LEASE_S), 10, "renewals")
    ring.kill(1)
    ends = ring.ends_ms(0)
    wait_for(lambda: ring.ends_ms(0) > ends + 2 * scaled_ms(1000 * LEASE_S), 10, "renewals to go on")
    assert run.lives_on() and run.finish() == (0, "")
    assert ring.is_free(0) and ring.is_free(2)


def test_a_majority_that_comes_back_empty_does_not_count(make_ring, lock_run):
    """Each of them grants the lock again, to the first client. If that is the old holder, it is by chance only."""
    ring = make_ring(3)
    run = lock_run(ring, "-l", patient(3))
    ring.wait_held(run.wait_holds().owner, 0, 1, 2)
    ring.kill(0, 1)
    ring.start(0, 1)
    status, said = run.end()
    assert status == 76 and "it is no longer held at a majority of the servers" in said
    ring.wait_free(0, 1, 2)


def test_a_minority_that_comes_back_empty_is_no_loss(make_ring, lock_run):
    ring = make_ring(5)
    run = lock_run(ring, "-l", patient(LEASE_S))
    owner = run.wait_holds().owner
    for which in ((0, 1), (2, 3), (4, 0)):
        ring.wait_held(owner, *range(5))
        ring.kill(*which)
        ring.start(*which)
        ring.wait_held(owner, *which)
        well = next(number for number in range(5) if number not in which)
        ends = ring.ends_ms(well)
        wait_for(lambda well=well, ends=ends: ring.ends_ms(well) > ends + scaled_ms(1000 * LEASE_S), 10, "renewals")
    assert run.lives_on() and run.finish() == (0, "")
    ring.wait_free(*range(5))


def test_one_that_was_not_there_at_first_is_asked_later(make_ring, lock_run):
    ring = make_ring(3)
    ring.kill(0)
    run = lock_run(ring, "-l", patient(LEASE_S))
    owner = run.wait_holds().owner
    ring.start(0)
    ring.wait_held(owner, 0)
    ends = ring.ends_ms(1)
    wait_for(lambda: ring.ends_ms(1) > ends + scaled_ms(1000 * LEASE_S), 10, "renewals")
    ring.kill(2)
    ends = ring.ends_ms(0)
    wait_for(lambda: ring.ends_ms(0) > ends + 2 * scaled_ms(1000 * LEASE_S), 10, "renewals to go on")
    assert run.lives_on() and run.finish() == (0, "")
    ring.wait_free(0, 1)
