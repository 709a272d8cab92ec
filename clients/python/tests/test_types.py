"""The package's types, as a program sees them that is checked strictly."""

import subprocess
import sys

import pytest
from harness.launch import TOP

PACKAGE = TOP / "clients" / "python"
RIGHT = """
import asyncio

import redis
import redis.asyncio
from lock_so import Cancellation, Hold, Job, LockInfo, Locks, NotAcquired, RedLock, combine
from lock_so.aio import Locks as AsyncLocks


def lost(hold: Hold) -> None:
    print(hold.owner)


locks = Locks(redis.Redis(), max_block=20, connect_timeout=1.5)
with locks.lock("k", wait=3, lease=10, fenced=True, replicas=(1, 0.5), on_lost=lost) as hold:
    token: int | None = hold.token
try:
    locks.semaphore(b"k", 3, permits=2).acquire(wait=0, cancel=Cancellation()).release()
except NotAcquired as error:
    holders: list[str] = error.holders
with combine(locks.lock("k"), locks.fair("l", reentrant=True), wait=1, on_lost=lost) as both:
    owners: list[str] = [one.owner for one in both.holds]
    both.renew(5)
found: LockInfo = locks.multi("k", "l").info()
left: list[float | None] = [waiter.left for waiter in found.waiters]
is_open: bool = locks.latch("k").wait(wait=3)
RedLock([locks, locks, locks]).lock("k", lease=5).acquire(wait=0).release()


def work(job: Job) -> None:
    print(job.value, job.tries)


locks.delayed_queue("q").push(b"v", 1.5, id="x")


async def main() -> None:
    async with AsyncLocks(redis.asyncio.Redis()) as locks:
        async with locks.multi("k", "l", cancel_on_loss=True) as hold:
            print(hold.is_lost, await hold.guard("GET", "k"))
        await locks.latch("k").count_down()
        await locks.delayed_queue("q").consume(work, timeout=5)


asyncio.run(main())
"""


def check(folder, *words):
    # In a folder of its own, because mypy keeps a cache where it runs.
    words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache"), *words]
    found = subprocess.run(words, capture_output=True, text=True, cwd=PACKAGE, timeout=300)
    return found.returncode, found.stdout


def test_the_package_is_typed(tmp_path):
    assert (PACKAGE / "lock_so" / "py.typed").exists()
    assert check(tmp_path, "lock_so")[0] == 0, check(tmp_path, "lock_so")[1]


def test_a_program_is_typed(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(RIGHT)
    status, output = check(tmp_path, str(program))
    assert status == 0, output


@pytest.mark.parametrize(
    "right, wrong",
    [
        ("lease=10", "leese=10"),
        ("lease=10", "cancel_on_loss=True"),
        ("wait=0, cancel", "0, cancel"),
        ("Redis(), max_block=20", "Redis(), 20"),
        ("wait=3, lease", 'wait="3", lease'),
        ("fenced=True", "permits=2"),
        ("redis.Redis(), max", "redis.asyncio.Redis(), max"),
        ("(b\"k\", 3,", "(b\"k\","),
        ("hold: Hold", "hold: str"),
    ],
)
def test_a_program_that_is_wrong_is_refused(tmp_path, right, wrong):
    assert right in RIGHT
    program = tmp_path / "program.py"
    program.write_text(RIGHT.replace(right, wrong))
    assert check(tmp_path, str(program))[0] == 1
