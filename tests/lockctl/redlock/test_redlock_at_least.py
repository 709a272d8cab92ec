"""--at-least with RedLock: all servers keep the lock after the command has ended."""

from harness import scaled, scaled_ms
from runs import NOT_HAD

HOUR = ["--at-least", "1h"]


def test_a_majority_keeps_it(make_ring, lock_run):
    ring = make_ring(3)
    run = lock_run(ring, *HOUR)
    owner = run.wait_holds().owner
    ring.wait_held(owner, 0, 1, 2)
    assert run.finish() == (0, "")
    for number in range(3):
        assert 3_500_000 < ring.holders(number)[owner]["pttl"] <= 3_600_000
    assert lock_run(ring, "--wait", "0").status() == NOT_HAD


def test_a_majority_keeps_it_no_longer(make_ring, lock_run):
    ring = make_ring(3)
    run = lock_run(ring, "-l", "600", "--at-least", f"{scaled(60):g}")
    owner = run.wait_holds().owner
    ring.wait_held(owner, 0, 1, 2)
    assert run.finish() == (0, "")
    for number in range(3):
        assert ring.holders(number)[owner]["pttl"] <= scaled_ms(60_000)


def test_a_failed_round_keeps_nothing(make_ring, lock_run):
    ring = make_ring(3)
    ring.take("other", 3_600_000, 0, 1)
    assert lock_run(ring, "--wait", "0", *HOUR).status() == NOT_HAD
    ring.wait_free(2)
