"""Servers that answer late, and a lockctl that reads late what was answered: what counts, and until when."""

import harness.clock
from harness import scaled, scaled_ms, wait_for
from redlock_ring import patient

LEASE_S = 1.5


def test_late_grants_count_too(make_ring, lock_run):
    """A majority has answered, and the work has begun, when the rest grants it: it holds it as well."""
    ring = make_ring(5, proxied=True)
    ring.slow(scaled(0.1), 3, 4)
    run = lock_run(ring, "-l", patient(3))
    owner = run.wait_holds().owner
    ring.slow(0, 3, 4)
    ring.wait_held(owner, *range(5))
    ring.kill(0, 1)
    ends = ring.ends_ms(2)
    wait_for(lambda: ring.ends_ms(2) > ends + scaled_ms(6000), 20, "renewals to go on")
    assert run.lives_on() and run.finish() == (0, "")


def test_a_minority_answers_after_the_lease(make_ring, lock_run):
    ring = make_ring(5, proxied=True)
    ring.slow(scaled(1.5), 0, 1)
    run = lock_run(ring, "-l", patient(1))
    run.wait_holds()
    ends = ring.ends_ms(4)
    wait_for(lambda: ring.ends_ms(4) > ends + scaled_ms(2500), 10, "renewals to go on")
    assert run.lives_on() and run.finish() == (0, "")
    ring.wait_free(*range(5))


def test_a_majority_answers_after_the_lease(make_ring, lock_run):
    """Its grants count in no round, and it is given back what it has granted."""
    ring = make_ring(5, proxied=True)
    ring.slow(scaled(1.5), 0, 1, 2)
    run = lock_run(ring, "-l", patient(1), "--wait", patient(4), "--timeout", "60")
    assert run.status() == 69 and not run.has_begun()
    assert all(ring.calls(number, "lock.acquire") >= 2 for number in range(3)), "it was asked once only"
    ring.wait_free(*range(5))


def test_a_majority_answers_renewals_after_the_lease(make_ring, lock_run):
    ring = make_ring(3, proxied=True)
    run = lock_run(ring, "-l", patient(LEASE_S), deaf=True)
    ring.wait_held(run.wait_holds().owner, 0, 1, 2)
    ring.slow(scaled(2 * LEASE_S), 0, 1)
    ends = ring.ends_ms(2)
    assert run.status() == 76
    # The last renewal that was answered, or would have been, was at most one lease before.
    assert run.worker().lives_by_day / 1e6 < ends + scaled_ms(1000 * LEASE_S) / 3
    ring.slow(0, 0, 1)
    ring.wait_free(0, 1, 2)


def test_the_lease_counts_from_the_question(make_ring, lock_run):
    """The grants take their time to arrive; what is left of the lease then is less by that."""
    lease_s = 4
    ring = make_ring(3, proxied=True)
    ring.slow(scaled(lease_s) * 0.04, 0, 1, 2)
    run = lock_run(ring, "-l", patient(lease_s), deaf=True)
    ring.wait_held(run.wait_holds().owner, 0, 1, 2)
    ends = sorted(ring.ends_ms(number) for number in range(3))
    ring.cut(0, 1, 2)
    assert run.status() == 76
    assert run.worker().lives_by_day / 1e6 < ends[0]


def test_a_connection_that_is_dead_without_a_word_is_made_again(make_ring, lock_run):
    """After --timeout. Else each of them leaves one server less, for as long as the lock is held."""
    ring = make_ring(5, proxied=True)
    run = lock_run(ring, "-l", patient(LEASE_S), "--timeout", patient(1))
    owner = run.wait_holds().owner
    ring.wait_held(owner, *range(5))
    ring.forget(0, 1)
    for number in (0, 1):
        ends = ring.ends_ms(number)
        wait_for(
            lambda number=number, ends=ends: owner in ring.holders(number) and ring.ends_ms(number) > ends,
            10,
            f"server {number} to be asked again",
        )
    assert run.lives_on() and run.finish() == (0, "")


def test_a_renewed_lease_counts_from_the_question(make_ring, lock_run):
    """Likewise. A renewal may take longer to be answered, up to a tenth of the lease."""
    lease_s = 3
    ring = make_ring(3, proxied=True)
    run = lock_run(ring, "-l", patient(lease_s), deaf=True)
    ring.wait_held(run.wait_holds().owner, 0, 1, 2)
    ring.slow(scaled(lease_s) * 0.08, 0, 1, 2)
    ring.wait_replies()
    ends = sorted(ring.ends_ms(number) for number in range(3))
    ring.cut(0, 1, 2)
    assert run.status() == 76
    assert run.worker().lives_by_day / 1e6 < ends[0]


# Answers of another time


def test_answers_of_an_earlier_round_do_not_count(make_ring, lock_run):
    """They come while a later one is under way, and the release that follows them takes the grant back."""
    ring = make_ring(5, proxied=True)
    for number, delay in enumerate((0.23, 0.31, 0.37)):
        ring.slow(scaled(delay), number)
    run = lock_run(ring, "-l", patient(1), "--wait", patient(4), "--timeout", "60")
    assert run.status() == 69 and not run.has_begun()
    # Often enough that some have come within a round.
    assert all(ring.calls(number, "lock.acquire") >= 4 for number in range(3))
    ring.wait_free(*range(5))


def test_grants_that_are_read_after_the_lease(make_ring, lock_run, tmp_path, monkeypatch):
    """The machine of lockctl has slept while they were on their way: its clock goes on meanwhile, its timers do not."""
    ring = make_ring(3, proxied=True)
    ring.keep_replies(True)
    time_of_day = "clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE"
    asleep = harness.clock.SHIM.replace(time_of_day, "clock == CLOCK_BOOTTIME")
    assert asleep != harness.clock.SHIM
    monkeypatch.setattr(harness.clock, "SHIM", asleep)
    with monkeypatch.context() as patch:
        clock = harness.clock.Clock(tmp_path, patch)
        run = lock_run(ring, "-l", "60", "--wait", "0")
    for number in range(3):
        wait_for(lambda number=number: ring.calls(number, "lock.acquire") == 1, what="the question to arrive")
    clock.step(70)
    ring.keep_replies(False)
    assert run.status() == 75 and not run.has_begun()
    ring.wait_free(0, 1, 2)
