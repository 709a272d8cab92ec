"""Situations in which a hold or a wait was wrong: exits, other threads, closing, silent servers, finalizers."""

import asyncio
import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings

import pytest
import redis
import redis.asyncio
from harness import scaled, wait_for
from harness.launch import TOP

import lock_so
from lock_so import Cancellation, Closed, Locks, NotHeld, _sync, aio
from seen import calls, holds, info, wait_free, wait_waiters


def program(text, server, *words):
    """Runs a program with the package."""
    text = f"import redis\nfrom lock_so import Locks\nlocks = Locks(redis.Redis(port={server.port}))\n{text}"
    where = {**os.environ, "PYTHONPATH": str(TOP / "clients" / "python")}
    done = subprocess.run([sys.executable, "-B", *words, "-c", text], env=where, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def locks(server):
    with Locks(redis.Redis(port=server.port)) as found:
        yield found


def in_thread(work):
    failed = []

    def guarded():
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join(60)
    assert not thread.is_alive() and not failed, failed


@pytest.mark.parametrize("options", ["", "session=True", "on_lost=print"])
def test_a_hold_at_the_end_of_a_program_is_released(server, options):
    done = program(f'hold = locks.lock("k", {options}).acquire()\ncycle = [hold]; cycle.append(cycle)', server)
    assert done.stderr == "" and info(server, "k") is None


def test_a_late_grant_of_a_redlock_at_the_end_of_a_program_is_released(servers):
    three = [servers.make() for _ in range(3)]
    text = f"""
import os, signal, threading
from lock_so import RedLock
silent = {three[0].pid}
redlock = RedLock([locks, *(Locks(redis.Redis(port=port)) for port in {[server.port for server in three[1:]]})])
with redlock.lock("other", wait=10):
    pass
os.kill(silent, signal.SIGSTOP)
redlock.lock("k", wait=10, lease=600).acquire().release()
speaks = threading.Timer(0.2, os.kill, (silent, signal.SIGCONT))
speaks.daemon = True
speaks.start()
"""
    try:
        assert program(text, three[0]).stderr == ""
    finally:
        os.kill(three[0].pid, signal.SIGCONT)
    for server in three:
        wait_free(server, "k")


def test_a_hold_at_exit_is_released_though_no_thread_can_be_started(server):
    """As with Python 3.12 at its exit."""
    text = """
import atexit, threading
def failing(_):
    raise RuntimeError("can't create new thread at interpreter shutdown")
atexit.register(setattr, threading.Thread, "start", failing)
hold = locks.lock("k").acquire()"""
    assert program(text, server).stderr == "" and info(server, "k") is None


@pytest.mark.parametrize("kind", ["lock", "read"])
def test_with_is_left_in_another_thread(server, locks, kind):
    lock = getattr(locks, kind)("k")
    lock.__enter__()
    in_thread(lambda: lock.__exit__(None, None, None))
    assert info(server, "k") is None


def test_each_thread_leaves_its_own(server, locks):
    lock = locks.read("k")
    first = lock.__enter__()
    in_thread(lambda: lock.__enter__() and None)
    lock.__exit__(None, None, None)
    assert list(holds(server, "k")) != [first.owner] and len(holds(server, "k")) == 1
    lock.__exit__(None, None, None)
    assert info(server, "k") is None


def test_async_with_is_left_in_another_task(server):
    async def play():
        async with aio.Locks(redis.asyncio.Redis(port=server.port)) as locks:
            lock = locks.lock("k")
            await asyncio.ensure_future(lock.__aenter__())
            await asyncio.ensure_future(lock.__aexit__(None, None, None))
            assert info(server, "k") is None
            async with await lock.acquire() as hold:
                assert list(holds(server, "k")) == [hold.owner]
            assert info(server, "k") is None

    asyncio.run(play())


@pytest.mark.parametrize("session", [False, True])
def test_close_while_a_hold_is_made(server, monkeypatch, session):
    """The reply was received, but close() cannot see the hold yet."""
    locks, reached, go_on, ends = Locks(redis.Redis(port=server.port)), threading.Event(), threading.Event(), []
    make = _sync.Hold.__init__

    def slow(*words):
        reached.set()
        go_on.wait(60)
        make(*words)

    monkeypatch.setattr(_sync.Hold, "__init__", slow)

    def acquire():
        with pytest.raises(Closed):
            locks.lock("k", session=session).acquire()
        ends.append(1)

    thread = threading.Thread(target=acquire)
    thread.start()
    assert reached.wait(60)
    locks.close(timeout=0.2)
    go_on.set()
    thread.join(60)
    assert ends == [1]
    wait_free(server, "k")


@pytest.mark.parametrize("session", [False, True])
def test_close_while_an_async_hold_is_made(server, monkeypatch, session):
    make = aio.Hold.__init__

    def closed_by_now(hold, locks, state):
        locks._shared.is_closed = True  # close() listed the holds before
        make(hold, locks, state)

    monkeypatch.setattr(aio.Hold, "__init__", closed_by_now)

    async def play():
        locks = aio.Locks(redis.asyncio.Redis(port=server.port))
        with pytest.raises(Closed):
            await locks.lock("k", session=session).acquire()
        await locks._shared.ended(5.0)

    asyncio.run(play())
    wait_free(server, "k")


def test_a_session_whose_lease_expired_by_the_clock_is_not_kept(server, locks):
    lost = threading.Event()
    hold = locks.lock("k", session=True, lease=2, on_lost=lambda _: lost.set()).acquire()
    hold._state.until = 0  # the process was stopped
    hold._state.confirm = lambda *_: None
    assert lost.wait(60)
    wait_free(server, "k")


def fails_once(monkeypatch, number=1):
    """The n-th thread from now on cannot be started."""
    start, left = threading.Thread.start, [number]

    def failing(thread):
        left[0] -= 1
        if left[0] == 0:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", failing)


@pytest.mark.parametrize("options", [{}, {"session": True}, {"on_lost": print}])
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_thread_that_cannot_be_started(server, locks, monkeypatch, number, options):
    with monkeypatch.context() as patch:
        fails_once(patch, number)
        try:
            locks.lock("a", wait=scaled(2), **options).acquire().release()
        except (RuntimeError, redis.ConnectionError):
            pass
    wait_free(server, "a")
    with locks.lock("b", lease=scaled(1), on_lost=print) as hold:
        renewals = calls(server, "lock.renew")
        wait_for(lambda: calls(server, "lock.renew") > renewals + 2, 20, "the lock to be renewed")
        assert not hold.is_lost


def test_a_renewal_whose_thread_cannot_be_started_is_repeated(server, locks, monkeypatch):
    with locks.lock("k", lease=scaled(3)) as hold:
        with monkeypatch.context() as patch:
            fails_once(patch)
            wait_for(lambda: calls(server, "lock.renew") > 1, 20, "the lock to be renewed")
        assert not hold.is_lost


def test_a_release_that_was_interrupted_is_repeated(server, locks, monkeypatch):
    hold = locks.lock("k").acquire()
    with monkeypatch.context() as patch:

        def interrupted(_):
            raise KeyboardInterrupt

        patch.setattr(_sync, "_exchange", interrupted)
        with pytest.raises(KeyboardInterrupt):
            hold.release()
    assert info(server, "k")
    hold.release()
    assert info(server, "k") is None
    with pytest.raises(NotHeld, match="released before"):
        hold.release()


def test_several_waits_at_a_silent_server_end_in_time(server, locks):
    with locks.lock("k"):
        pass
    os.kill(server.pid, signal.SIGSTOP)
    late = []

    def wait(number):
        time.sleep(0.3 * number)
        began = time.monotonic()
        with pytest.raises(lock_so.NotAcquired):
            locks.lock(f"k{number}").acquire(wait=1)
        late.append(time.monotonic() - began - 1)

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    os.kill(server.pid, signal.SIGCONT)
    assert len(late) == 3 and max(late) < 0.4, late


@pytest.mark.parametrize("options", ["", "session=True"])
def test_a_forgotten_hold_is_released_though_warnings_are_errors(server, options):
    text = f"""
import time
locks.lock("k", {options}).acquire()
while redis.Redis(port={server.port}).execute_command("LOCK.INFO", "k"):
    time.sleep(0.01)
"""
    assert 'ResourceWarning: lock "k" was never released; it is released now' in program(text, server, "-W", "error").stderr


def test_forgotten_with_its_locks(server):
    async def play():
        await aio.Locks(redis.asyncio.Redis(port=server.port)).lock("k").acquire()
        gc.collect()
        while info(server, "k"):
            await asyncio.sleep(0.01)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asyncio.run(asyncio.wait_for(play(), scaled(10)))
        Locks(redis.Redis(port=server.port)).lock("l").acquire()
        gc.collect()
        wait_free(server, "l")


def test_a_release_and_close_at_the_same_time(server):
    async def play():
        locks = aio.Locks(redis.asyncio.Redis(port=server.port))
        hold = await locks.lock("k").acquire()
        os.kill(server.pid, signal.SIGSTOP)
        asyncio.get_running_loop().call_later(0.5, os.kill, server.pid, signal.SIGCONT)
        await asyncio.gather(hold.release(), locks.close())

    asyncio.run(play())
    assert info(server, "k") is None


def test_a_wait_is_cancelled_by_a_signal_handler(server, locks):
    """Also if the handler interrupts the wait wherever it is."""
    server.control.execute_command("LOCK.ACQUIRE", "k", "other", "PX", 600000)
    before = signal.getsignal(signal.SIGALRM)
    try:
        for number in range(100):
            cancellation = Cancellation()
            signal.signal(signal.SIGALRM, lambda *_: cancellation.cancel())  # noqa: B023
            signal.setitimer(signal.ITIMER_REAL, 0.0002 + number * 0.00005)
            with pytest.raises(lock_so.Cancelled):
                locks.lock("k").acquire(cancel=cancellation)
    finally:
        signal.signal(signal.SIGALRM, before)
    wait_waiters(server, "k")


async def acquire_and_release(locks):
    async with locks.lock("k", wait=scaled(5)):
        pass


def use_in_two_loops(server):
    locks = aio.Locks(redis.asyncio.Redis(port=server.port))
    asyncio.run(acquire_and_release(locks))
    asyncio.run(acquire_and_release(locks))


def test_a_second_loop(server):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of redis-py, about connections that were not closed
        use_in_two_loops(server)
        gc.collect()


def test_a_loss_is_reported_once(locks):
    losses = []
    for _ in range(50):
        hold = locks.lock("k").acquire()
        threads = [threading.Thread(target=lambda: losses.append(hold._state.lose())) for _ in range(4)]  # noqa: B023
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with pytest.raises(NotHeld):
            hold.release()
    assert sum(losses) == 50


@pytest.mark.parametrize("name", [name for name in lock_so.__all__ if name[0].isupper() and issubclass(getattr(lock_so, name), Exception)])
def test_errors_are_pickled(name):
    details = {
        "NotAcquired": {"keys": ("k", b"l"), "wait": 2.5, "holders": ["a"]},
        "NotHeld": {"keys": ("k",)},
        "Refused": {"code": "WRONGTYPE"},
    }.get(name, {})
    error = getattr(lock_so, name)("a text", **details)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error) and str(again) == "a text" and vars(again) == vars(error)
