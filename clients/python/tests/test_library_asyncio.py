"""What docs/clients/python.md says of redis-py with asyncio, against the library itself, without our package."""

import asyncio
import sys

import pytest
import redis
from redis.asyncio import BlockingConnectionPool, Redis
from redis.backoff import NoBackoff
from redis.asyncio.retry import Retry

from harness import scaled, wait_for
from seen import KEEPALIVE, SILENT, calls, held, holds, info, keepalive_of, wait_calls, wait_free, wait_waiters, waiters
from wire import Wire

ONCE = Retry(NoBackoff(), 0)


def acquire(client, key, owner, *options):
    return client.execute_command("LOCK.ACQUIRE", key, owner, "PX", 600000, *options)


async def waiting(server, client, key, owner, *options):
    """The task of a request that is known to wait."""
    before = waiters(server, key)
    task = asyncio.ensure_future(acquire(client, key, owner, *options))
    await asyncio.to_thread(wait_waiters, server, key, *before, owner)
    return task


def test_defaults():
    pool = Redis().connection_pool
    connection = pool.make_connection()
    assert (connection.socket_timeout, connection.retry.get_retries(), pool.max_connections) == (5, 10, 100)


def test_keepalive(server):
    async def play():
        async with Redis(port=server.port, single_connection_client=True) as client:
            await client.ping()
            return keepalive_of(client.connection._writer.get_extra_info("socket"))

    assert asyncio.run(play()) == KEEPALIVE


def test_a_time_out_is_sent_again(server):
    async def play():
        times = {"socket_timeout": scaled(0.2), "socket_connect_timeout": scaled(20)}
        async with Redis(port=server.port, **times, **SILENT) as client:
            wait = await waiting(server, client, "k", "early", "BLOCK", 60000)
            late = server.actor("late")
            late.send("LOCK.ACQUIRE", "k", "late", "BLOCK", 0)
            await asyncio.to_thread(wait_waiters, server, "k", "late", "early")
            with pytest.raises(redis.TimeoutError):
                await wait
            await asyncio.to_thread(wait_waiters, server, "k", "late")
            late.close()

    with held(server, "k"):
        asyncio.run(play())
        wait_calls(server, "lock.acquire", 1 + 1 + 11)


def test_a_time_out_without_retries(server):
    async def play():
        times = {"socket_timeout": scaled(0.2), "socket_connect_timeout": scaled(20)}
        async with Redis(port=server.port, retry=ONCE, **times, **SILENT) as client:
            with pytest.raises(redis.TimeoutError):
                await acquire(client, "k", "o", "BLOCK", 60000)
            await asyncio.to_thread(wait_calls, server, "lock.acquire", 2)
            await asyncio.to_thread(wait_waiters, server, "k")

    with held(server, "k"):
        asyncio.run(play())


def test_a_longer_time_out(server):
    async def play():
        async with Redis(port=server.port, socket_timeout=None) as client:
            assert await acquire(client, "k", "o", "BLOCK", 50) is None

    with held(server, "k"):
        asyncio.run(play())
        assert calls(server, "lock.acquire") == 2


def test_a_lost_answer_is_a_second_hold(server):
    async def play(port):
        async with Redis(port=port) as client:
            wire.cut("LOCK.ACQUIRE", reply=0)
            assert await acquire(client, "k", "o") == 2
            wire.cut("LOCK.ACQUIRE", reply=0)
            assert await acquire(client, "l", "o", "ONCE") == 1

    with Wire(server.port) as wire:
        asyncio.run(play(wire.port))
    assert holds(server, "k") == {"o": 2} and holds(server, "l") == {"o": 1}


@pytest.mark.parametrize("how", ["cancel", "wait_for"])
def test_giving_up_closes_the_connection(server, how):
    async def play():
        async with Redis(port=server.port, socket_timeout=None) as client:
            wait = await waiting(server, client, "k", "o", "BLOCK", 0)
            if how == "cancel":
                wait.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await wait
            else:
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(wait, 0.1)
            await asyncio.to_thread(wait_waiters, server, "k")

    with held(server, "k") as give:
        asyncio.run(play())
        give()
        wait_free(server, "k")


async def cancelled_after(client, owner, turns):
    """A request that is cancelled when the loop has had so many turns, and whether it ends soon."""
    request = asyncio.ensure_future(acquire(client, "k", owner, "BLOCK", 0))
    for _ in range(turns):
        await asyncio.sleep(0)
    request.cancel()
    done, _ = await asyncio.wait({request}, timeout=scaled(2))
    return request, bool(done)


@pytest.mark.parametrize("time_out, unheard", [(60, sys.version_info < (3, 12)), (None, False)])
def test_a_cancellation_that_is_not_heard(server, time_out, unheard):
    """As the command has just been sent: with a time-out, before Python 3.12; the request waits on."""

    async def play():
        unheard = 0
        async with Redis(port=server.port, socket_timeout=time_out) as client:
            await client.ping()
            for turns in range(20):
                request, has_ended = await cancelled_after(client, f"o{turns}", turns)
                if not has_ended:
                    wait_waiters(server, "k", f"o{turns}")
                    server.control.execute_command("LOCK.CANCEL", "k", f"o{turns}")
                    assert await request is None
                    unheard += 1
        return unheard

    with held(server, "k"):
        assert (asyncio.run(play()) > 0) == unheard


def test_a_grant_that_is_faster_is_a_ghost(server):
    """The answer is there, and the task is cancelled before it has been read: the hold is nobody's until its lease ends."""

    async def play():
        async with Redis(port=server.port, socket_timeout=None) as client:
            wait = await waiting(server, client, "k", "o", "BLOCK", 0, "ONCE")
            give()  # the loop does not run meanwhile
            wait_for(lambda: holds(server, "k") == {"o": 1}, 20)
            wait.cancel()
            with pytest.raises(asyncio.CancelledError):
                await wait
        await asyncio.to_thread(wait_for, lambda: len(server.control.client_list()) == 2, 20, "the connection to be gone")
        assert holds(server, "k") == {"o": 1} and info(server, "k")["holders"][0]["pttl"] > 300000
        async with Redis(port=server.port) as client:
            assert await client.execute_command("LOCK.CANCEL", "k", "o", "RELEASE") == 2

    with held(server, "k") as give:
        asyncio.run(play())
    assert info(server, "k") is None


def test_a_thread_that_is_given_up_is_a_ghost(server):
    """wait_for() on to_thread(): the thread waits on, and is granted the lock."""

    async def play():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.to_thread(acquire, client, "k", "o", "BLOCK", 0), 0.1)
        await asyncio.to_thread(wait_waiters, server, "k", "o")
        give()
        await asyncio.to_thread(wait_for, lambda: holds(server, "k") == {"o": 1}, 20)

    with held(server, "k") as give, redis.Redis(port=server.port, socket_timeout=60) as client:
        asyncio.run(play())
        assert client.execute_command("LOCK.RELEASE", "k", "o") == 0


def test_a_full_pool(server):
    async def play():
        async with Redis(port=server.port, max_connections=1) as client:
            assert await acquire(client, "k", "holder") == 1
            wait = await waiting(server, client, "k", "o", "BLOCK", 4000)
            with pytest.raises(redis.exceptions.MaxConnectionsError):
                await client.execute_command("LOCK.RELEASE", "k", "holder")
            assert calls(server, "lock.release") == 0
            server.control.execute_command("LOCK.CANCEL", "k", "o")
            assert await wait is None
            assert await client.execute_command("LOCK.RELEASE", "k", "holder") == 0

    asyncio.run(play())


def test_a_blocking_pool_that_is_full(server):
    async def play():
        default = BlockingConnectionPool()
        assert (default.max_connections, default.timeout) == (50, 20)
        pool = BlockingConnectionPool(port=server.port, max_connections=1, timeout=0.1)
        async with Redis.from_pool(pool) as client:
            wait = await waiting(server, client, "k", "o", "BLOCK", 4000)
            with pytest.raises(redis.ConnectionError):
                await client.ping()
            server.control.execute_command("LOCK.CANCEL", "k", "o")
            assert await wait is None

    with held(server, "k"):
        asyncio.run(play())


def test_a_single_connection_is_stalled(server):
    async def play():
        async with Redis(port=server.port) as client, client.client() as single:
            wait = await waiting(server, single, "k", "o", "BLOCK", 0)
            before = calls(server, "ping")
            ping = asyncio.ensure_future(single.ping())
            await client.ping()
            assert calls(server, "ping") == before + 1 and not ping.done()
            give()
            assert await wait == 1 and await ping
            assert await client.execute_command("LOCK.RELEASE", "k", "o") == 0

    with held(server, "k") as give:
        asyncio.run(play())


def test_replies(server):
    async def play():
        async with Redis(port=server.port, decode_responses=True) as client:
            assert await acquire(client, "k", "o", "FENCED") > 1
            found = await client.execute_command("LOCK.INFO", "k")
            assert found["holders"][0]["owner"] == "o" and found["waiters"] == []
            assert await client.execute_command("LOCK.RELEASE", "k", "o") == 0
            assert await client.execute_command("LOCK.WATCH", "k", "o") == "LOST"
        async with Redis(port=server.port, protocol=2) as client:
            assert await client.execute_command("LOCK.INFO", "none") is None

    asyncio.run(play())
