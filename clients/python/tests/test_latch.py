"""Latches, in both flavours."""

import asyncio
import os
import signal
import threading
import time

import pytest
import redis
import redis.asyncio
from harness import wait_for

from lock_so import Cancellation, Cancelled, Closed, Locks, Refused, aio
from seen import calls


def blocked(server, number=1):
    wait_for(lambda: server.info("clients")["blocked_clients"] == number, 20, f"{number} waits")


def in_thread(work):
    """Its result or error is appended to the list."""
    ended = []

    def run():
        try:
            ended.append(work())
        except Exception as error:
            ended.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, ended


def test_count_down(server, do):
    locks = do.locks(server)
    latch = locks.latch("k")
    assert do(latch.count()) == 0 and do(latch.wait(wait=0)) is True
    do(latch.set(3))
    assert do(latch.wait(wait=0)) is False and do(latch.count_down()) == 2 and do(latch.count()) == 2
    thread, ended = in_thread(lambda: do(latch.wait()))
    blocked(server)
    assert do(latch.count_down(5)) == 0
    thread.join(60)
    assert ended == [True]
    do(latch.set(1, lease=0.2))
    assert do(latch.wait(wait=20)) is True
    do(locks.close())
    with pytest.raises(Closed):
        do(latch.count())


def test_a_wait_ends_in_time(server, do):
    locks = do.locks(server)
    latch = locks.latch("k")
    do(latch.set(1))
    began = time.monotonic()
    assert do(latch.wait(wait=0.2)) is False
    os.kill(server.pid, signal.SIGSTOP)
    try:
        assert do(latch.wait(wait=0.2)) is False and time.monotonic() - began < 1
    finally:
        os.kill(server.pid, signal.SIGCONT)
    do(locks.close())


def test_a_wait_survives_its_connection(server, do, caplog):
    locks = do.locks(server)
    latch = locks.latch("k")
    do(latch.set(1))
    thread, ended = in_thread(lambda: do(latch.wait()))
    blocked(server)
    server.control.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    wait_for(lambda: calls(server, "latch.wait") > 1, 20, "the second wait")
    do(latch.count_down())
    thread.join(60)
    assert ended == [True] and 'latch "k": no connection to' in caplog.messages[0]
    do(locks.close())


def test_close_ends_a_wait(server, do):
    locks = do.locks(server)
    do(locks.latch("k").set(1))
    thread, ended = in_thread(lambda: do(locks.latch("k").wait()))
    blocked(server)
    do(locks.close())
    thread.join(60)
    assert isinstance(ended[0], Closed)
    blocked(server, 0)


def test_a_cancellation_ends_a_wait(server):
    locks, cancellation = Locks(redis.Redis(port=server.port)), Cancellation()
    locks.latch("k").set(1)
    thread, ended = in_thread(lambda: locks.latch("k").wait(cancel=cancellation))
    blocked(server)
    cancellation.cancel()
    thread.join(60)
    assert isinstance(ended[0], Cancelled)
    blocked(server, 0)
    locks.close()


def test_a_task_that_is_cancelled(server):
    async def play():
        locks = aio.Locks(redis.asyncio.Redis(port=server.port))
        await locks.latch("k").set(1)
        task = asyncio.create_task(locks.latch("k").wait())
        await asyncio.to_thread(blocked, server)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(blocked, server, 0)
        await locks.close()

    asyncio.run(play())


def test_options_are_checked(server, do):
    locks = do.locks(server)
    latch = locks.latch("k")
    for work in (lambda: latch.set(-1), lambda: latch.count_down(0), lambda: latch.set(1, lease=0), lambda: latch.wait(wait=-1)):
        with pytest.raises(ValueError):
            do(work())
    with pytest.raises(TypeError):
        locks.latch(7)
    server.control.set("k", "text")
    with pytest.raises(Refused):
        do(latch.count())
    assert not calls(server, "latch.set")
    do(locks.close())
