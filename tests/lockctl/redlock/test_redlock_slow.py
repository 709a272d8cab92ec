"""Servers that reply late, and a lockctl that reads replies late: what counts, and until when."""

import harness.clock
from harness import scaled, scaled_ms, wait_for
from redlock_ring import patient

LEASE_S = 1.5


def test_late_grants_count_too(make_ring, lock_run):
    """The other servers grant the lock after a majority has replied and the work has begun: they count as well."""
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
    """Its grants count in no round, and they are released."""
    ring = make_ring(5, proxied=True)
    ring.slow(scaled(1.5), 0, 1, 2)
    run = lock_run(ring, "-l", patient(1), "--wait", patient(4), "--timeout", "60")
    assert run.status() == 69 and not run.has_begun()
    assert all(ring.calls(number, "lock.acquire") >= 2 for number in range(3)), "only one request was sent"
    ring.wait_free(*range(5))


def test_a_majority_answers_renewals_after_the_lease(make_ring, lock_run):
    ring = make_ring(3, proxied=True)
    run = lock_run(ring, "-l", patient(LEASE_S), deaf=True)
    ring.wait_held(run.wait_holds().owner, 0, 1, 2)
    ring.slow(scaled(2 * LEASE_S), 0, 1)
    ends = ring.ends_ms(2)
    assert run.status() == 76
    # The last renewal that got a reply, or would have got one, was at most one lease before.
    assert run.worker().lives_by_day / 1e6 < ends + scaled_ms(1000 * LEASE_S) / 3
    ring.slow(0, 0, 1)
    ring.wait_free(0, 1, 2)


def test_the_lease_counts_from_the_question(make_ring, lock_run):
    """The grants take time to arrive, and the rest of the lease is shorter by that time."""
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
    """After --timeout. Otherwise each such connection would lose a server for as long as the lock is held."""
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
            f"server {number} to get a request again",
        )
    assert run.lives_on() and run.finish() == (0, "")


def test_a_renewed_lease_counts_from_the_question(make_ring, lock_run):
    """The same for renewals. The reply to a renewal may take longer, up to a tenth of the lease."""
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


# Late replies


def test_answers_of_an_earlier_round_do_not_count(make_ring, lock_run):
    """They arrive during a later round, and the release that follows them takes back the grant."""
    ring = make_ring(5, proxied=True)
    for number, delay in enumerate((0.23, 0.31, 0.37)):
        ring.slow(scaled(delay), number)
    run = lock_run(ring, "-l", patient(1), "--wait", patient(4), "--timeout", "60")
    assert run.status() == 69 and not run.has_begun()
    # Often enough that some have arrived within a round.
    assert all(ring.calls(number, "lock.acquire") >= 4 for number in range(3))
    ring.wait_free(*range(5))


def test_grants_that_are_read_after_the_lease(make_ring, lock_run, tmp_path, monkeypatch):
    """The machine of lockctl sleeps while the grants are in transit: its clock counts meanwhile, its timers do not."""
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
        wait_for(lambda number=number: ring.calls(number, "lock.acquire") == 1, what="the request to arrive")
    clock.step(70)
    ring.keep_replies(False)
    assert run.status() == 75 and not run.has_begun()
    ring.wait_free(0, 1, 2)
