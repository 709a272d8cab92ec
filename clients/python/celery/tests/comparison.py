"""The decorator, the task and the beat, compared with redis-py's Lock and with RedBeat: `make bench-adapters-python`.
RedBeat's interval is 1 s here; it is 300 s by default, and so are the pauses between its tries, with a lock of 1,500 s."""

import contextlib
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
import redis
from celery import Celery
from harness import wait_for
from redbeat.schedulers import RedBeatScheduler, acquire_distributed_beat_lock

from lock_so import Locks
from lock_so.decorator import locked
from lock_so_celery.beat import LockedScheduler
from seen import info
from test_beat import active, sent

ROUNDS = int(os.environ.get("ROUNDS", 120))
LOCKED, LOCK, BEAT, RED = "decorator", "redis-py Lock", "beat", "RedBeat"


def seconds(value):
    return f"{value * 1000:8.2f} ms" if value < 1 else f"{value:8.2f} s "


class Ways:
    """Each way is a function of an event and a callback: it acquires the lock, calls back, and releases after the event."""

    def __init__(self, server):
        self.url = f"redis://127.0.0.1:{server.port}/0"
        self.locks = Locks(redis.Redis.from_url(self.url))
        self.all = {LOCKED: self.decorator, LOCK: self.lock, BEAT: self.beat, RED: self.red}

    def decorator(self, release, acquired):
        @locked(self.locks.lock("k"))
        def work():
            acquired()
            release.wait()
            return time.perf_counter()

        return work()

    def lock(self, release, acquired):
        with redis.Redis.from_url(self.url).lock("other", timeout=30):
            acquired()
            release.wait()
            return time.perf_counter()

    def _app(self, **settings):
        return Celery("compared", broker=self.url, set_as_current=False, changes=settings)

    def beat(self, release, acquired):
        scheduler = LockedScheduler(self._app())
        while not scheduler._hold:
            scheduler.tick()
        acquired()
        release.wait()
        start = time.perf_counter()
        scheduler.close()
        return start

    def red(self, release, acquired):
        scheduler = RedBeatScheduler(self._app(beat_max_loop_interval=1))
        acquire_distributed_beat_lock(SimpleNamespace(scheduler=scheduler))
        acquired()
        while not release.wait(1):
            scheduler.tick()  # which extends the lock
        start = time.perf_counter()
        scheduler.close()
        return start


class Run(threading.Thread):
    def __init__(self, way):
        super().__init__(daemon=True)
        self.release, self.acquired = threading.Event(), threading.Event()
        self._way = way
        self.start()

    def run(self):
        self.released_at = self._way(self.release, self._acquired)

    def _acquired(self):
        self.acquired_at = time.perf_counter()
        self.acquired.set()


def handoffs(way, pause):
    """The times from a release to the grant. The waiter's tries are at random times."""
    times, holder = [], Run(way)
    for _ in range(ROUNDS):
        assert holder.acquired.wait(60)
        waiter = Run(way)
        time.sleep(0.02 + random.uniform(0, pause))
        holder.release.set()
        assert waiter.acquired.wait(60)
        holder.join()
        times.append(waiter.acquired_at - holder.released_at)
        holder = waiter
    holder.release.set()
    holder.join()
    return times


def rate(server, way):
    """The commands per second of one waiter, of 10 s."""
    holder = Run(way)
    assert holder.acquired.wait(60)
    # What the holder itself sends is measured first.
    before = count(server)
    time.sleep(10)
    alone = count(server) - before
    waiter = Run(way)
    time.sleep(1)
    before = count(server)
    time.sleep(10)
    found = (count(server) - before - alone) / 10
    for one in (holder, waiter):
        one.release.set()
        one.join()
    return max(0.0, found)


def count(server):
    stats = server.info("commandstats")
    return sum(one["calls"] for name, one in stats.items() if name != "cmdstat_info")


@pytest.mark.timeout(900)
def test_comparison(server, worker, beat):
    ways = Ways(server)
    print(f"\n{'':24}{'release to grant: p50':>24}{'p99':>12}{'commands/s of a waiter':>26}")
    for name, way in ways.all.items():
        times = sorted(handoffs(way, 1.0 if name == RED else 0.1))
        p50, p99 = statistics.median(times), times[int(len(times) * 0.99) - 1]
        print(f"{name:24}{seconds(p50):>24}{seconds(p99):>12}{rate(server, way):26.2f}", flush=True)
    ways.locks.close()
    print("\nuntil another one can acquire it, or is active, after kill -9:")
    print(f"{'a task':24}{seconds(killed_task(server, worker)):>12}")
    print(f"{'redis-py Lock, 30 s':24}{seconds(killed_lock(server)):>12}")
    red = {"scheduler": "redbeat.RedBeatScheduler", "interval": 1}
    kinds = {"beat": {}, "beat, session": {"session": "1"}, "RedBeat, 1 s": red}
    for name, settings in kinds.items():
        print(f"{name:24}{seconds(killed_beat(server, beat, **settings)):>12}", flush=True)
    print("\nsent by a beat that was stopped before it sent, and continues when another one is active:")
    print(f"{'beat':24}{stopped_beat(server, beat, 'program:StopsItself'):5}")
    print(f"{'RedBeat':24}{stopped_beat(server, beat, 'program:StopsItselfRed', interval=1):5}")


def killed_task(server, worker):
    process = worker()
    with Celery(broker=f"redis://127.0.0.1:{server.port}/0", set_as_current=False) as app:
        app.send_task("program.skips", ["a"])
    wait_for(lambda: server.control.llen("begun"), 20)
    os.kill(int(server.control.lindex("begun", -1).split(":")[1]), signal.SIGKILL)
    start = time.perf_counter()
    wait_for(lambda: info(server, "celery:program.skips") is None, 60)
    found = time.perf_counter() - start
    process.kill()
    return found


def killed_lock(server):
    holds = f"import redis, time; redis.Redis(port={server.port}).lock('dead', timeout=30).acquire(); time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", holds])
    wait_for(lambda: server.control.exists("dead"), 20)
    holder.kill()
    start = time.perf_counter()
    holder.wait()
    wait_for(lambda: not server.control.exists("dead"), 60)
    return time.perf_counter() - start


@contextlib.contextmanager
def beats(server, beat, **settings):
    """(the active one, the other one). RedBeat's lock does not name its holder: the active one is who sends."""
    server.control.delete("celery", "redbeat::lock")
    found = [beat(**settings), beat(**settings)]
    pids = {one.pid: one for one in found}
    wait_for(lambda: sent(server)[-1:] and sent(server)[-1] in pids, 60)
    first = pids.pop(sent(server)[-1])
    (other,) = pids.values()
    other.wait_log("beat: Standing by" if "red" not in settings.get("scheduler", "").lower() else "beat: Starting")
    time.sleep(3)  # so that each has begun to wait
    yield first, other
    for one in found:
        one.kill()
    wait_for(lambda: active(server) is None, 60)


def killed_beat(server, beat, **settings):
    with beats(server, beat, **settings) as (first, other):
        first.kill()
        start = time.perf_counter()
        wait_for(lambda: sent(server)[-1] == other.pid, 60)
        return time.perf_counter() - start


def stopped_beat(server, beat, scheduler, **settings):
    with beats(server, beat, scheduler=scheduler, **settings) as (first, other):
        server.control.set("stop", "now")
        wait_for(lambda: sent(server)[-1] == other.pid, 60)
        before = sent(server).count(first.pid)
        first.send(signal.SIGCONT)
        wait_for(lambda: "Standing by" in first.log() or first.has_ended(), 60)
        return sent(server).count(first.pid) - before
