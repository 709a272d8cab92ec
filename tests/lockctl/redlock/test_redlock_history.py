"""Holders while servers fail, checked by the checker of tests/torture: never two at once, and tokens that grow.

    LOCK_SEED=7 REDLOCK_SECONDS=600 build/venv/bin/pytest tests/lockctl/redlock -k torment -s
"""

import os
import signal

import pytest

from harness import scaled_ms
from harness.seeds import seed_of_run
from redlock_history import Hold
from redlock_ring import patient
from redlock_torment import Torment

SECONDS = float(os.environ.get("REDLOCK_SECONDS") or 40)
LEASE_S = 1.0


def careful(lease_ms):
    """The settings for a server of a majority: docs/redlock.md."""
    return {
        "lock_max_lease": lease_ms,
        "lock_default_lease": lease_ms,
        "lock_quarantine": lease_ms + max(scaled_ms(200), lease_ms // 10),
    }


@pytest.mark.timeout(400 + 9 * SECONDS)
def test_torment(make_ring, lock_run, judge):
    """Servers are killed and restart empty, are stopped, and cut off. With lock.quarantine there is only one holder."""
    ring = make_ring(5, proxied=True, **careful(scaled_ms(1000 * LEASE_S)))
    torment = Torment(ring, lock_run, seed := seed_of_run(), LEASE_S)

    def enough():
        ended = torment.statuses
        return len(torment.holds) >= 30 and ended.count(76) >= 1 and len(torment.failures) >= 20

    torment.run(SECONDS, enough)
    text = f"seed {seed}: {torment.summary()}"
    print(text)
    assert judge(torment.holds) == set(), f"{text}\n{judge.text}"
    assert enough(), text


# Why the delayed restart is needed


@pytest.mark.timeout(400)
def test_torment_without_quarantine(make_ring, lock_run, judge):
    """Servers are killed and restart all the time, two at once: the checker must find a second holder."""
    ring, holds, text = make_ring(5), [], ""
    for part in range(12):
        torment = Torment(ring, lock_run, seed := seed_of_run(part), LEASE_S, restarts_only=True)
        torment.run(5)
        holds += torment.holds
        text += f"seed {seed}: {torment.summary()}\n"
        if "holder" in judge(holds):
            break
    print(text + judge.text)
    assert "holder" in judge(holds), text


@pytest.mark.parametrize("is_delayed", [False, True], ids=["without quarantine", "with quarantine"])
@pytest.mark.parametrize("late", [(), (3, 4)], ids=["all grant", "three grant"])
def test_restarts_within_a_lease(make_ring, lock_run, judge, late, is_delayed):
    """Servers restart empty, one after the other, so at most one is down. The holder notices when it renews.

    The servers that have not granted the lock, and those that have forgotten it, are a majority together.
    """
    ring = make_ring(5)
    if is_delayed:
        # For the next start only, as if these servers had been running for a long time.
        for server in ring.servers:
            server.config["lock.quarantine"] = 66_000
    ring.kill(*late)
    first = lock_run(ring, "-l", "60")
    first.wait_holds()
    granted = [number for number in range(5) if number not in late]
    ring.wait_held(first.worker().owner, *granted)
    for number in late:
        ring.servers[number].start(lock_quarantine=0)
    for number in (2,) if late else (0, 1, 2):
        ring.kill(number)
        ring.start(number)
    second = lock_run(ring, "-l", "60", "--wait", patient(2))
    if is_delayed:
        assert second.status() == 75
    else:
        second.wait_holds()
    assert first.lives_on()
    first.finish()
    second.finish()
    faults = judge([run.hold() for run in (first, second) if run.has_begun()])
    assert ("holder" in faults) != is_delayed, judge.text


# Faults that no setting of the servers can prevent


def test_a_holder_that_stands_still_does_not_hear_of_its_loss(make_ring, lock_run, judge):
    """lockctl is stopped, but not its command: it works when the lease has expired and another holder works."""
    ring = make_ring(5, **careful(scaled_ms(1000)))
    first = lock_run(ring, "-l", patient(1), "--wait", patient(20))
    first.wait_holds()
    os.kill(first.process.pid, signal.SIGSTOP)
    second = lock_run(ring, "-l", patient(1), "--wait", patient(20))
    second.wait_holds(20)
    assert first.lives_on()
    os.kill(first.process.pid, signal.SIGCONT)
    assert first.status() == 76
    assert second.finish() == (0, "")
    holds = [first.hold(), second.hold()]
    assert judge(holds) == {"holder"}
    # Only the token distinguishes them.
    assert holds[1].token > holds[0].token


# The checker


def hold(owner, token, *times):
    return Hold(owner, token, *times)


def test_the_judge(judge):
    before = hold("a", 1, 0, 10, 20, 30)
    assert judge([before, hold("b", 2, 0, 30, 40, 50)]) == set()
    assert judge([before, hold("b", 2, 0, 19, 40, 50)]) == {"holder"}
    assert judge([before, hold("b", 1, 11, 30, 40, 50)]) == {"token"}
