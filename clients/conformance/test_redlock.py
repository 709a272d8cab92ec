"""Several programs of a language acquire one RedLock while servers fail; the history checker of tests/torture verifies
that no two relied on it at the same time. REDLOCK_KEYS is the number of locks that
they acquire at the same time; with more than one most holds are short.

    REDLOCK_SECONDS=600 LOCK_SEED=7 build/venv/bin/python -m pytest clients/conformance/test_redlock.py --languages go -s
"""

import os

import pytest
from conftest import runner_of
from programs import ProgramTorment

from harness import scaled_ms
from harness.seeds import seed_of_run

SECONDS = float(os.environ.get("REDLOCK_SECONDS") or 4)
KEYS = int(os.environ.get("REDLOCK_KEYS") or 1)
LEASE_S = 1.0


@pytest.fixture
def start(start_program, flavour):
    """start(ring): a program of the flavour, connected to the servers of the ring."""
    language, name = flavour
    return lambda ring: start_program([str(runner_of(language)), name], ring)


@pytest.mark.timeout(200 + 9 * SECONDS)
def test_while_servers_fail(make_ring, start, judge):
    """Servers are killed and restart empty, are stopped, and cut off. With lock.quarantine there is only one holder."""
    lease = scaled_ms(1000 * LEASE_S)
    ring = make_ring(lock_max_lease=lease, lock_default_lease=lease, lock_quarantine=lease + max(scaled_ms(200), lease // 10))
    torment = ProgramTorment(ring, start, seed := seed_of_run(), LEASE_S, KEYS)

    def enough():
        return len(torment.holds) >= 2 * SECONDS and len(torment.failures) >= 5

    torment.run(SECONDS, enough)
    text = f"seed {seed}: {torment.summary()}"
    print(text)
    for key, holds in torment.histories.items():
        assert judge(holds) == set(), f"{text}\n{key}: {judge.text}"
    assert enough(), text


@pytest.mark.parametrize("is_delayed", [False, True], ids=["without quarantine", "with quarantine"])
def test_restarts_within_a_lease(make_ring, start, judge, is_delayed):
    """Three of five servers restart empty, one after the other. Without a quarantine they are a majority that grants the
    lock to another program, and the first one notices when it renews its lease."""
    ring = make_ring()
    if is_delayed:
        # For the next start only, as if these servers had been running for a long time.
        for server in ring.servers:
            server.config["lock.quarantine"] = 66_000
    first, second = start(ring).lock(), start(ring).lock()
    assert first.acquire(60_000, scaled_ms(5000)) is None
    ring.wait_held(first.owner, *range(5))
    for number in range(3):
        ring.kill(number)
        ring.start(number)
    assert second.acquire(60_000, scaled_ms(5000)) == ("not_acquired" if is_delayed else None)
    holders = [first] if is_delayed else [first, second]
    assert all(lock.relies() for lock in holders)
    holds = [lock.release() for lock in holders]
    assert ("holder" in judge(holds)) != is_delayed, judge.text
