"""The runner of the flavour `sync`: each request in a thread of its own."""

import contextlib
import gc
import itertools
import random
import threading
import time

import redis
import redis.asyncio
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
from lock_so import Cancellation, Cancelled, Locks, NotAcquired, RedLock, combine
from redis.sentinel import Sentinel


class Runner:
    def __init__(self):
        self.clients, self.holds, self.waits, self.bodies = {}, {}, {}, {}
        self.locks = AllLocks(combine, RedLock)

    def connect(self, request):
        name = request.get("as") or "main"
        self.clients[name] = user_client(request["to"], request.get("pool"), redis.Redis, redis.RedisCluster, Sentinel)
        client = redis.asyncio.Redis() if request.get("wrong") else self.clients[name]
        self.locks[name] = make_locks(Locks, client, request)

    def _on(self, request):
        return self.locks[request.get("on") or "main"], self.clients[request.get("on") or "main"]

    def acquire(self, request):
        name = request["as"]
        self.holds.pop(name, None)
        report = report_of(request)
        lock = make_lock(self.locks.of(request), request["lock"], wait=wait_of(request), on_lost=report)
        hold = self.holds[name] = lock.acquire(cancel=self.waits[name])
        if report:
            report.hold = hold  # as a method of the object that has the hold would refer to it
        return hold_fields(hold)

    def release(self, request):
        self.holds[request["as"]].release()

    def close(self, request):
        limit = request.get("timeout_ms")
        self._on(request)[0].close(**({"timeout": limit / 1000} if limit else {}))

    def abandon(self, request):
        del self.holds[request["as"]]
        gc.collect()

    def crowd(self, request):
        locks, done = self._on(request)[0], []

        def work(number):
            hold = make_lock(locks, own_lock(request, number)).acquire()
            time.sleep(request["hold_ms"] / 1000)
            hold.release()
            done.append(1)

        _together([lambda number=number: work(number) for number in range(request["tasks"])])
        return {"done": len(done)}

    def short_lived(self, request):
        for _ in range(request["times"]):
            locks = Locks(self._on(request)[1])
            with make_lock(locks, request["lock"]):
                pass
            if request.get("close"):
                locks.close()
        del locks
        gc.collect()

    def cancel(self, request):
        self.waits[request["as"]].cancel()

    def lost(self, request):
        return {"lost": self.holds[request["as"]].is_lost}

    def within(self, request):
        leave = self.bodies[request["id"]]
        with make_lock(self.locks.of(request), request["lock"], wait=wait_of(request)):
            write({"event": "inside", "id": request["id"]})
            if request.get("until"):
                leave.wait()
            if request.get("raise"):
                raise BodyError("the body")

    def locked(self, request):
        return {"locked": make_lock(self.locks.of(request), request["lock"]).locked()}

    def info(self, request):
        return info_of(make_lock(self.locks.of(request), request["lock"]).info())

    def force(self, request):
        return {"forced": make_lock(self.locks.of(request), request["lock"]).force()}

    def renew(self, request):
        self.holds[request["as"]].renew(lease_of(request))

    def guard(self, request):
        return {"reply": text_of(self.holds[request["as"]].guard(*request["command"]))}

    def reenter(self, request):
        lock, owners = make_lock(self.locks.of(request), request["lock"], wait=wait_of(request)), []
        with contextlib.ExitStack() as stack:
            for _ in range(request["times"]):
                owners.append(stack.enter_context(lock).owner)
            write({"event": "inside", "id": request["id"]})
            self.bodies[request["id"]].wait()
        return {"owners": owners}

    def latch_set(self, request):
        self._latch(request).set(request["count"], lease=lease_of(request))

    def latch_down(self, request):
        by = {} if request.get("by") is None else {"by": request["by"]}
        return {"left": self._latch(request).count_down(**by)}

    def latch_count(self, request):
        return {"count": self._latch(request).count()}

    def latch_wait(self, request):
        return {"open": self._latch(request).wait(wait=wait_of(request), cancel=self.waits.get(request.get("as")))}

    def delay_push(self, request):
        queue, item = self._queue(request), request.get("item")
        return {"item": queue.push(request["value"], request["delay_ms"] / 1000, id=item)}

    def delay_cancel(self, request):
        return {"cancelled": self._queue(request).cancel(request["item"])}

    def delay_list(self, request):
        items = self._queue(request).list()
        return {"items": [{"item": item.id, "value": text_of(item.value)} for item in items]}

    def consume(self, request):
        calls, stop, leave = itertools.count(1), self.waits.get(request.get("as")) or Cancellation(), self.bodies[request["id"]]

        def handle(job):
            value = begun(request, job)
            if request.get("jobs") == next(calls):
                stop.cancel()  # it ends when this one has been settled
            if value in (request.get("hold") or ()):
                leave.wait()
            fail(request, value)

        try:
            self._queue(request).consume(handle, cancel=stop, **consumer_of(request))
        except Cancelled:
            if next(calls) <= (request.get("jobs") or float("inf")):
                raise

    def _latch(self, request):
        return self._on(request)[0].latch(request["key"])

    def _queue(self, request):
        return self._on(request)[0].delayed_queue(request["queue"])

    def leave(self, request):
        self.bodies[request["of"]].set()

    def count(self, request):
        client = self._on(request)[1]
        lock, counter, done = make_lock(self.locks.of(request), request["lock"]), request["counter"], []

        def work():
            for _ in range(request["times"]):
                with lock:
                    value = int(client.get(counter) or 0)
                    if request["lock"]["kind"] != "read":
                        client.set(counter, value + 1)
                    done.append(1)

        _together([work] * request["workers"])
        return {"done": len(done)}

    def storm(self, request):
        lock, chance = make_lock(self.locks.of(request), request["lock"]), random.Random(request["seed"])
        acquired = 0
        for _ in range(request["times"]):
            if request["kind"] == "cancel":
                cancellation = Cancellation()
                timer = threading.Timer(chance.uniform(0, 0.003), cancellation.cancel)
                options = {"wait": None, "cancel": cancellation}
                timer.start()
            else:
                timer, options = None, {"wait": chance.randint(1, 3) / 1000}
            try:
                lock.acquire(**options).release()
                acquired += 1
            except (Cancelled, NotAcquired):
                pass
            if timer:
                timer.join()
        return {"acquired": acquired, "given_up": request["times"] - acquired}

    def ping(self, request):
        return {"pong": bool(self._on(request)[1].ping())}

    def handoff(self, request):
        clients = [user_client(request["to"], None, redis.Redis, redis.RedisCluster, Sentinel) for _ in "AB"]
        locks = [make_lock(Locks(client), request["lock"]) for client in clients]
        lists, lock_us, blpop_us = f"{request['lock']['keys'][0]}-list", [], []

        def blocked():
            return clients[0].info("clients")["blocked_clients"] > 0

        for _ in range(request["rounds"]):
            hold = locks[0].acquire()
            lock_us.append(_handed(blocked, lambda: locks[1].acquire(), hold.release, lambda got: got.release()))
            blpop_us.append(_handed(blocked, lambda: clients[1].blpop(lists, 20), lambda: clients[0].rpush(lists, "x")))
        return {"lock_us": lock_us, "blpop_us": blpop_us}


def _handed(blocked, wait, give, after=lambda got: None):
    """µs from just before give() until wait() returns."""
    got = []

    def waiter():
        result = wait()
        got.append(time.perf_counter())
        got.append(result)

    thread = threading.Thread(target=waiter)
    thread.start()
    while not blocked():
        time.sleep(0.0005)
    began = time.perf_counter()
    give()
    thread.join()
    after(got[1])
    return (got[0] - began) * 1e6


def _together(works):
    failed = []

    def guarded(work):
        try:
            work()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def _play(runner, request):
    try:
        answer(request, getattr(runner, request["do"])(request))
    except Exception as error:
        refuse(request, error)


def main():
    runner, last = Runner(), None
    for request in requests():
        if request["do"] == "quit":
            last = request
            break
        if request["do"] in ("within", "reenter", "consume"):
            runner.bodies[request["id"]] = threading.Event()
        if request["do"] in ("acquire", "latch_wait", "consume") and request.get("as"):
            runner.waits[request["as"]] = Cancellation()  # here, because a request to cancel may follow
        threading.Thread(target=_play, args=(runner, request), daemon=True).start()
    for locks in runner.locks.values():
        locks.close()
    for client in runner.clients.values():
        client.close()
    if last:
        answer(last, None)
