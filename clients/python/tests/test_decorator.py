"""lock_so.decorator: functions and coroutines that run with a lock held."""

import asyncio
import inspect
import subprocess
import sys
import threading

import pytest
import redis
import redis.asyncio
from harness import wait_for
from harness.launch import TOP

from lock_so import Locks, NotAcquired, NotHeld, aio
from lock_so.decorator import current_hold, locked
from seen import calls, holds, info, wait_free, waiters


@pytest.fixture
def locks(server):
    with Locks(redis.Redis(port=server.port)) as found:
        yield found


def with_aio(server, play):
    """Runs a coroutine function with the aio.Locks of its loop."""

    async def main():
        async with redis.asyncio.Redis(port=server.port) as client, aio.Locks(client) as locks:
            return await play(locks)

    return asyncio.run(main())


def test_a_function_runs_with_the_lock_held(server, locks):
    @locked(locks.lock("k"))
    def work(a, b=2):
        """Works."""
        return a, b, list(holds(server, "k")) == [current_hold().owner]

    assert work(1, b=3) == (1, 3, True)
    assert (work.__name__, work.__doc__, str(inspect.signature(work))) == ("work", "Works.", "(a, b=2)")
    assert info(server, "k") is None and current_hold() is None


def test_a_coroutine_runs_with_the_lock_held(server):
    async def play(locks):
        @locked(locks.lock("k"))
        async def work(a):
            await asyncio.sleep(0)
            return a, list(holds(server, "k")) == [current_hold().owner]

        assert inspect.iscoroutinefunction(work)
        return await work(1)

    assert with_aio(server, play) == (1, True)
    assert info(server, "k") is None


def test_a_key_is_made_of_the_arguments(server, locks):
    @locked(lambda account, amount=0: locks.lock(f"account:{account}"))
    def pay(account, amount=0):
        return current_hold().keys

    assert pay(1, 5) == pay(account=1) == ("account:1",)
    with pytest.raises(TypeError, match="acount"):
        pay(acount=1)


def test_a_method_uses_the_locks_of_its_object(server, locks):
    class Bank:
        def __init__(self):
            self.locks = locks

        @locked(lambda self, one, other: self.locks.multi(one, other))
        def move(self, one, other):
            return current_hold().keys

    assert Bank().move("{a}1", "{a}2") == ("{a}1", "{a}2")


@pytest.mark.parametrize("kind", ["lock", "fair", "read", "write", "semaphore"])
def test_all_kinds_and_their_options(server, locks, kind):
    more = {"limit": 2, "permits": 2} if kind == "semaphore" else {"fenced": True} if kind in ("lock", "fair", "write") else {}

    @locked(lambda: getattr(locks, kind)("k", session=True, wait=1, **more))
    def work():
        return current_hold().token

    token = work()
    assert token > 0 if "fenced" in more else token is None
    wait_free(server, "k")


def test_not_acquired_means_that_it_has_not_begun(server, locks):
    begun = []

    @locked(locks.lock("k", wait=0))
    def work():
        begun.append(1)

    with locks.lock("k"), pytest.raises(NotAcquired):
        work()
    assert not begun


def test_calls_run_one_after_the_other(server, locks):
    inside, most = [], []

    @locked(locks.lock("k"))
    def work():
        inside.append(1)
        most.append(len(inside))
        inside.pop()

    threads = [threading.Thread(target=lambda: [work() for _ in range(20)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 160


def test_the_error_of_the_function_is_raised(server, locks):
    @locked(locks.lock("k"))
    def work():
        raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        work()
    assert info(server, "k") is None


def test_a_loss_is_noticed_by_a_function(server, locks):
    lost = threading.Event()

    @locked(locks.lock("k", on_lost=lambda hold: lost.set()))
    def work(error=None):
        lost.clear()
        server.control.execute_command("LOCK.FORCE", "k")
        assert lost.wait(20) and current_hold().is_lost
        if error:
            raise error

    with pytest.raises(NotHeld):
        work()
    with pytest.raises(KeyError):
        work(KeyError())


def test_a_loss_cancels_a_coroutine(server):
    cancelled = []

    async def play(locks):
        @locked(lambda key: locks.lock(key, cancel_on_loss=True))
        async def work(key):
            server.control.execute_command("LOCK.FORCE", key)
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.append(key)
                raise

        with pytest.raises(NotHeld):
            await work("k")

    with_aio(server, play)
    assert cancelled == ["k"]


def test_a_cancelled_call_releases_or_leaves_nothing(server):
    async def play(locks):
        begun = asyncio.Event()

        @locked(locks.lock("k"))
        async def work():
            begun.set()
            await asyncio.sleep(60)

        first = asyncio.ensure_future(work())
        await begun.wait()
        second = asyncio.ensure_future(work())
        await asyncio.to_thread(wait_for, lambda: len(waiters(server, "k")) == 1, 20)
        for task in (second, first):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert info(server, "k") is None

    with_aio(server, play)


def test_holds_of_functions_that_call_each_other(server, locks):
    @locked(locks.lock("inner"))
    def inner():
        return current_hold().keys

    @locked(locks.lock("outer"))
    def outer():
        return inner() + current_hold().keys

    assert outer() == ("inner", "outer")


def test_the_tasks_of_a_coroutine_have_its_hold(server):
    async def play(locks):
        async def part():
            return current_hold().keys

        @locked(lambda key: locks.lock(key))
        async def work(key):
            return (await asyncio.gather(part(), part()))[1]

        return await asyncio.gather(work("a"), work("b"))

    assert with_aio(server, play) == [("a",), ("b",)]


def test_a_recursive_function_with_a_reentrant_lock(server, locks):
    @locked(lambda number: locks.lock("k", reentrant=True))
    def down(number):
        return down(number - 1) if number else calls(server, "LOCK.ACQUIRE")

    assert down(3) == 1
    assert info(server, "k") is None


def test_what_cannot_be_decorated(server, locks):
    with pytest.raises(TypeError, match="is a generator"):

        @locked(locks.lock("k"))
        def numbers():
            yield 1

    with pytest.raises(TypeError, match="is a generator"):

        @locked(locks.lock("k"))
        async def more_numbers():
            yield 1

    with pytest.raises(TypeError, match="must be a lock_so.aio.Lock, or a function that returns one, not <lock_so"):

        @locked(locks.lock("k"))
        async def work():
            pass

    with pytest.raises(TypeError, match="must be a lock_so.Lock or lock_so.aio.Lock, or a function"):
        locked("k")

    @locked(lambda: "k")
    def with_a_key():
        pass

    async def coroutine():
        pass

    @locked(locks.lock("k"))
    def returns_one():
        return coroutine()

    with pytest.raises(TypeError, match="must be a lock_so.Lock, or"):
        with_a_key()
    with pytest.raises(TypeError, match="returned a coroutine"):
        returns_one()
    assert info(server, "k") is None


TYPED = """
import redis
import redis.asyncio
from lock_so import Locks
from lock_so.aio import Locks as AsyncLocks
from lock_so.decorator import current_hold, locked

locks, async_locks = Locks(redis.Redis()), AsyncLocks(redis.asyncio.Redis())


@locked(lambda account, amount: locks.lock(f"account:{account}", wait=10))
def pay(account: str, amount: int) -> float:
    return 1.0


@locked(async_locks.lock("report"))
async def report(day: int) -> str:
    return ""


paid: float = pay("a", 1)
WRONG
"""


@pytest.mark.parametrize("wrong, text", [("", ""), ("pay(1, 2)", "arg-type"), ("locked(7)", "arg-type")])
def test_types_are_kept(tmp_path, wrong, text):
    program = tmp_path / "program.py"
    program.write_text(TYPED.replace("WRONG", wrong))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(program)],
        env={"MYPYPATH": str(TOP / "clients" / "python"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert text in done.stdout and (done.returncode == 0) == (not wrong), done.stdout + done.stderr
