"""The runner of the flavour `asyncio`: each request in a task of its own."""

import asyncio
import contextlib
import gc
import itertools
import random
import threading
import time

import redis.asyncio as redis
from common import (
    AllLocks,
    BodyError,
    answer,
    begun,
    consumer_of,
    fail,
    hold_fields,
    info_of,
    lease_of,
    make_lock,
    make_locks,
    own_lock,
    refuse,
    report_of,
    requests,
    text_of,
    user_client,
    wait_of,
    write,
)
from lock_so import NotAcquired, aio
from redis import Redis as SyncRedis
from redis.asyncio.sentinel import Sentinel


class Runner:
    def __init__(self):
        self.clients, self.holds, self.waits, self.bodies = {}, {}, {}, {}
        self.locks = AllLocks(aio.combine, aio.RedLock)

    async def connect(self, request):
        name = request.get("as") or "main"
        self.clients[name] = user_client(request["to"], request.get("pool"), redis.Redis, redis.RedisCluster, Sentinel)
        client = SyncRedis() if request.get("wrong") else self.clients[name]
        self.locks[name] = make_locks(aio.Locks, client, request)

    def _on(self, request):
        return self.locks[request.get("on") or "main"], self.clients[request.get("on") or "main"]

    async def acquire(self, request):
        name = request["as"]
        self.holds.pop(name, None)
        report = report_of(request)
        lock = make_lock(self.locks.of(request), request["lock"], wait=wait_of(request), on_lost=report)
        task = self.waits[name] = asyncio.ensure_future(lock.acquire())
        # A task that is cancelled before it has started does not answer itself.
        hold = self.holds[name] = await task
        if report:
            report.hold = hold  # as a method of the object that has the hold would refer to it
        return hold_fields(hold)

    async def release(self, request):
        await self.holds[request["as"]].release()

    async def close(self, request):
        limit = request.get("timeout_ms")
        await self._on(request)[0].close(**({"timeout": limit / 1000} if limit else {}))

    async def abandon(self, request):
        del self.holds[request["as"]], self.waits[request["as"]]
        gc.collect()

    async def crowd(self, request):
        locks, done = self._on(request)[0], []

        async def work(number):
            hold = await make_lock(locks, own_lock(request, number)).acquire()
            await asyncio.sleep(request["hold_ms"] / 1000)
            await hold.release()
            done.append(1)

        await asyncio.gather(*(work(number) for number in range(request["tasks"])))
        return {"done": len(done)}

    async def short_lived(self, request):
        for _ in range(request["times"]):
            locks = aio.Locks(self._on(request)[1])
            async with make_lock(locks, request["lock"]):
                pass
            if request.get("close"):
                await locks.close()
        del locks
        gc.collect()

    async def cancel(self, request):
        self.waits[request["as"]].cancel()

    async def lost(self, request):
        return {"lost": self.holds[request["as"]].is_lost}

    async def within(self, request):
        leave = self.bodies[request["id"]]
        stop = {"cancel_on_loss": True} if request.get("stop") else {}
        async with make_lock(self.locks.of(request), request["lock"], wait=wait_of(request), **stop):
            write({"event": "inside", "id": request["id"]})
            if request.get("until") or request.get("stop"):
                await leave.wait()
            if request.get("raise"):
                raise BodyError("the body")

    async def locked(self, request):
        return {"locked": await make_lock(self.locks.of(request), request["lock"]).locked()}

    async def info(self, request):
        return info_of(await make_lock(self.locks.of(request), request["lock"]).info())

    async def force(self, request):
        return {"forced": await make_lock(self.locks.of(request), request["lock"]).force()}

    async def renew(self, request):
        await self.holds[request["as"]].renew(lease_of(request))

    async def guard(self, request):
        return {"reply": text_of(await self.holds[request["as"]].guard(*request["command"]))}

    async def reenter(self, request):
        lock, owners = make_lock(self.locks.of(request), request["lock"], wait=wait_of(request)), []
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(request["times"]):
                owners.append((await stack.enter_async_context(lock)).owner)
            write({"event": "inside", "id": request["id"]})
            await self.bodies[request["id"]].wait()
        return {"owners": owners}

    async def latch_set(self, request):
        await self._latch(request).set(request["count"], lease=lease_of(request))

    async def latch_down(self, request):
        by = {} if request.get("by") is None else {"by": request["by"]}
        return {"left": await self._latch(request).count_down(**by)}

    async def latch_count(self, request):
        return {"count": await self._latch(request).count()}

    async def latch_wait(self, request):
        self.waits[request.get("as")] = asyncio.current_task()
        return {"open": await self._latch(request).wait(wait=wait_of(request))}

    async def delay_push(self, request):
        queue, item = self._queue(request), request.get("item")
        return {"item": await queue.push(request["value"], request["delay_ms"] / 1000, id=item)}

    async def delay_cancel(self, request):
        return {"cancelled": await self._queue(request).cancel(request["item"])}

    async def delay_list(self, request):
        items = await self._queue(request).list()
        return {"items": [{"item": item.id, "value": text_of(item.value)} for item in items]}

    async def consume(self, request):
        calls, leave, task = itertools.count(1), self.bodies[request["id"]], asyncio.current_task()
        self.waits[request.get("as")] = task

        async def handle(job):
            value, number = begun(request, job), next(calls)
            if value in (request.get("hold") or ()):
                await leave.wait()
            if request.get("jobs") == number:
                asyncio.get_running_loop().call_soon(task.cancel)  # it ends when this one has been settled
            fail(request, value)

        try:
            await self._queue(request).consume(handle, **consumer_of(request))
        except asyncio.CancelledError:
            if next(calls) <= (request.get("jobs") or float("inf")):
                raise

    def _latch(self, request):
        return self._on(request)[0].latch(request["key"])

    def _queue(self, request):
        return self._on(request)[0].delayed_queue(request["queue"])

    async def leave(self, request):
        self.bodies[request["of"]].set()

    async def count(self, request):
        client = self._on(request)[1]
        lock, counter, done = make_lock(self.locks.of(request), request["lock"]), request["counter"], []

        async def work():
            for _ in range(request["times"]):
                async with lock:
                    value = int(await client.get(counter) or 0)
                    if request["lock"]["kind"] != "read":
                        await client.set(counter, value + 1)
                    done.append(1)

        await asyncio.gather(*(work() for _ in range(request["workers"])))
        return {"done": len(done)}

    async def storm(self, request):
        lock, chance = make_lock(self.locks.of(request), request["lock"]), random.Random(request["seed"])
        acquired = 0
        for _ in range(request["times"]):
            if request["kind"] == "cancel":
                task = asyncio.ensure_future(lock.acquire(wait=None))
                asyncio.get_running_loop().call_later(chance.uniform(0, 0.003), task.cancel)
            else:
                task = asyncio.ensure_future(lock.acquire(wait=chance.randint(1, 3) / 1000))
            try:
                await (await task).release()
                acquired += 1
            except (asyncio.CancelledError, NotAcquired):
                pass
        return {"acquired": acquired, "given_up": request["times"] - acquired}

    async def ping(self, request):
        return {"pong": bool(await self._on(request)[1].ping())}

    async def handoff(self, request):
        clients = [user_client(request["to"], None, redis.Redis, redis.RedisCluster, Sentinel) for _ in "AB"]
        locks = [make_lock(aio.Locks(client), request["lock"]) for client in clients]
        lists, lock_us, blpop_us = f"{request['lock']['keys'][0]}-list", [], []

        async def blocked():
            return (await clients[0].info("clients"))["blocked_clients"] > 0

        async def pop():
            await clients[1].blpop(lists, 20)

        async def push():
            await clients[0].rpush(lists, "x")

        for _ in range(request["rounds"]):
            hold = await locks[0].acquire()
            took, got = await _handed(blocked, locks[1].acquire, hold.release)
            lock_us.append(took)
            await got.release()
            blpop_us.append((await _handed(blocked, pop, push))[0])
        for client in clients:
            await client.aclose()
        return {"lock_us": lock_us, "blpop_us": blpop_us}


async def _handed(blocked, wait, give):
    """µs from just before give() until wait() returns, and its result."""

    async def waiter():
        got = await wait()
        return time.perf_counter(), got

    task = asyncio.ensure_future(waiter())
    while not await blocked():
        await asyncio.sleep(0.0005)
    began = time.perf_counter()
    await give()
    ended, got = await task
    return (ended - began) * 1e6, got


async def _play(runner, request):
    try:
        answer(request, await getattr(runner, request["do"])(request))
    except asyncio.CancelledError:
        write({"id": request["id"], "error": "cancelled", "text": "the task was cancelled"})
    except Exception as error:
        refuse(request, error)


async def _main():
    runner, loop, received, tasks = Runner(), asyncio.get_running_loop(), asyncio.Queue(), set()

    def read():
        for request in requests():
            loop.call_soon_threadsafe(received.put_nowait, request)
        loop.call_soon_threadsafe(received.put_nowait, {"do": "quit"})

    threading.Thread(target=read, daemon=True).start()
    while True:
        request = await received.get()
        if request["do"] == "quit":
            break
        if request["do"] in ("within", "reenter", "consume"):
            runner.bodies[request["id"]] = asyncio.Event()
        task = asyncio.ensure_future(_play(runner, request))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        # The task of an acquisition must be known by name before the next request is read.
        await asyncio.sleep(0)
    for locks in runner.locks.values():
        await locks.close()
    for client in runner.clients.values():
        await client.aclose()
    if "id" in request:
        answer(request, None)


def main():
    asyncio.run(_main())
