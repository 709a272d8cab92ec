"""Locks by redis-py. README.md in bench/field says what each command does and prints."""

import json
import os
import sys
import threading
import time
import uuid

import redis

LOCK = "lock"
HANDS = 16
LEASE = {"ms": 30000}
# The pause between two tries where polling is the only way to wait: the same as in redis-py's Lock.
PAUSE_S = 0.1
COMPARE_AND_DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


def say(at, **more):
    print(json.dumps({"at": at, **more}), flush=True)


def fail(error):
    print(repr(error), file=sys.stderr, flush=True)
    say("failed", why=repr(error))
    os._exit(1)


# ---- The libraries: each makes the workers, which use locks at the same time ----


class Ours:
    """A reply takes as long as the wait, so the client must not time out; and each waiter needs a connection."""

    def __init__(self, port, workers, kind):
        self.client = redis.Redis(port=port, socket_timeout=None, max_connections=workers + 2)
        self.lease = ["SESSION"] if kind == "session" else ["PX", LEASE["ms"]]

    def worker(self):
        return OurWorker(self.client, self.lease)


class OurWorker:
    def __init__(self, client, lease):
        self.client, self.lease, self.owner = client, lease, None

    def acquire(self, name):
        self.owner = str(uuid.uuid4())
        self.client.execute_command("LOCK.ACQUIRE", name, self.owner, *self.lease, "BLOCK", 0)

    def release(self, name):
        self.client.execute_command("LOCK.RELEASE", name, self.owner)


class RedisPy:
    """redis.lock.Lock: has no lease, and tries every 0.1 s."""

    def __init__(self, port, workers, _kind):
        self.client = redis.Redis(port=port, max_connections=workers + 2)

    def worker(self):
        return RedisPyWorker(self.client)


class RedisPyWorker:
    def __init__(self, client):
        self.client, self.held = client, None

    def acquire(self, name):
        self.held = self.client.lock(name)
        self.held.acquire()

    def release(self, _name):
        self.held.release()


class Bare:
    """SET NX PX, and a script or DEL."""

    def __init__(self, port, workers, _kind, script=None):
        self.client = redis.Redis(port=port, max_connections=workers + 2)
        self.script = script and self.client.register_script(script)

    def worker(self):
        return BareWorker(self.client, self.script)


class BareWorker:
    def __init__(self, client, script):
        self.client, self.script, self.owner = client, script, None

    def acquire(self, name):
        self.owner = str(uuid.uuid4())
        while not self.client.set(name, self.owner, nx=True, px=LEASE["ms"]):
            time.sleep(PAUSE_S)

    def release(self, name):
        if self.script:
            self.script(keys=[name], args=[self.owner])
        else:
            self.client.delete(name)


LIBRARIES = {
    "ours": Ours,
    "redis-py": RedisPy,
    "setnx": lambda *words: Bare(*words, COMPARE_AND_DELETE),
    "setdel": Bare,
}

# ---- The commands ----


def start(function, *arguments):
    def run():
        try:
            function(*arguments)
        except Exception as error:
            fail(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def in_loops(steps, ms):
    """Repeats all steps for that long, each by a thread of its own; a step returns the measured ns. Returns (the measured
    times of each, how many steps of each ended in time). A step that ends after the end of the measurement counts as a
    wait, but not in the throughput."""
    end = time.monotonic_ns() + ms * 1_000_000
    results, in_time = [[] for _ in steps], [0] * len(steps)

    def repeat(i):
        while time.monotonic_ns() < end:
            results[i].append(steps[i]())
            in_time[i] += time.monotonic_ns() < end

    for thread in [start(repeat, i) for i in range(len(steps))]:
        thread.join()
    return results, in_time


def micros(numbers):
    return [round(ns / 1000, 1) for ns in numbers]


def measured(steps, warm_ms, ms):
    in_loops(steps, warm_ms)
    say("ready")
    sys.stdin.readline()
    results, pairs = in_loops(steps, ms)
    times = [ns for result in results for ns in result]
    say("done", pairs=pairs, us=micros(times), gave_up=0)
    sys.stdin.readline()


def pairs(library, clients):
    """A step for each client: it acquires and releases a lock of its own."""

    def step(worker, name):
        def run():
            began = time.monotonic_ns()
            worker.acquire(name)
            worker.release(name)
            return time.monotonic_ns() - began

        return run

    return [step(library.worker(), f"{LOCK}-{i}") for i in range(clients)]


def pair(library, clients, warm_ms, ms):
    measured(pairs(library, clients), warm_ms, ms)


def turns(library, clients, warm_ms, ms, count, port):
    """Pairs, alternating with the same by SET NX and DEL on the server at that port."""
    sides = pairs(library, clients), pairs(Bare(port, clients, ""), clients)
    for side in sides:
        in_loops(side, warm_ms)
    say("ready")
    sys.stdin.readline()
    us = [], []
    for i in range(2 * count):
        which = (i + 1) // 2 % 2  # 0 1 1 0
        results, _ = in_loops(sides[which], ms)
        us[which].append(micros([ns for result in results for ns in result]))
    say("done", us=us[0], other_us=us[1])
    sys.stdin.readline()


def hot(library, workers, locks, warm_ms, ms):
    def step(worker, random):
        def run():
            nonlocal random
            random = random * 48271 % 2147483647  # the same sequence in all languages
            name = f"{LOCK}-{random % locks}"
            began = time.monotonic_ns()
            worker.acquire(name)
            waited = time.monotonic_ns() - began
            worker.release(name)
            return waited

        return run

    measured([step(library.worker(), i + 1) for i in range(workers)], warm_ms, ms)


class Handoffs:
    """Shared by all workers. While the gate is shut the holder keeps the lock."""

    def __init__(self, warm, warm_ms, rounds, hold_ms):
        self.warm, self.warm_ns, self.warm_until, self.is_warm = warm, warm_ms * 1_000_000, 0, False
        self.rounds, self.hold_s = rounds, hold_ms / 1000
        self.times, self.generation, self.released_at, self.counting = [], 0, 0, False
        self.changed = threading.Condition()
        self.ready, self.gate, self.over = threading.Event(), threading.Event(), threading.Event()

    def granted(self, now):
        """Records the grant, and lets the worker that has released continue."""
        with self.changed:
            self.generation += 1
            self.changed.notify_all()
            if self.counting:
                self.times.append(now - self.released_at)
            if self.generation == 1:
                self.warm_until = now + self.warm_ns
            shut = not self.is_warm and self.generation >= self.warm and now >= self.warm_until
            self.is_warm = self.is_warm or shut
            last = len(self.times) == self.rounds
        if shut:
            self.ready.set()
            self.gate.wait()
        if last:
            self.over.set()
            threading.Event().wait()

    def releasing(self):
        """Returns the number of this hold. Called immediately before the release."""
        with self.changed:
            self.released_at = time.monotonic_ns()
            return self.generation

    def await_next(self, mine):
        """Waits until another worker was granted the lock, so that the worker that has released it can only join the
        queue."""
        with self.changed:
            self.changed.wait_for(lambda: self.generation != mine)

    def work(self, worker):
        while True:
            worker.acquire(LOCK)
            self.granted(time.monotonic_ns())
            time.sleep(self.hold_s)
            mine = self.releasing()
            worker.release(LOCK)
            self.await_next(mine)


def handoff(library, waiters, warm, warm_ms, rounds, limit_ms, hold_ms):
    """The warm-up is `warm` hand-offs and `warm_ms` at least."""
    shared = Handoffs(warm, warm_ms, rounds, hold_ms)
    for _ in range(waiters + 1):
        start(shared.work, library.worker())
    shared.ready.wait()
    say("ready")
    sys.stdin.readline()
    shared.counting = True
    shared.gate.set()
    shared.over.wait(limit_ms / 1000)
    with shared.changed:
        say("done", us=micros(shared.times), gave_up=0)
        sys.stdin.readline()


def hold(library, count, first):
    workers = [library.worker() for _ in range(min(HANDS, count))]
    say("connected")
    sys.stdin.readline()

    def take(hand, worker):
        for i in range(first + hand, first + count, HANDS):
            worker.acquire(f"{LOCK}-{i}")

    for thread in [start(take, *of) for of in enumerate(workers)]:
        thread.join()
    say("held")
    sys.stdin.readline()


def await_one(library):
    worker = library.worker()
    say("connected")
    sys.stdin.readline()
    say("asking")
    worker.acquire(f"{LOCK}-0")
    say("granted", ns=time.monotonic_ns())
    sys.stdin.readline()


def crowd(library, count):
    holder = library.worker()
    say("connected")
    sys.stdin.readline()
    holder.acquire(LOCK)
    for _ in range(count):
        start(library.worker().acquire, LOCK)
    say("waiting")
    sys.stdin.readline()


COMMANDS = {
    "pair": pair,
    "turns": turns,
    "hot": hot,
    "handoff": handoff,
    "hold": hold,
    "await": await_one,
    "crowd": crowd,
}


def main():
    who, command, port, *numbers = sys.argv[1:]
    name, _, kind = who.partition(":")
    numbers = [int(number) for number in numbers]
    # A longer lease, for locks that must not expire during the measurement.
    if command == "crowd" or (command == "hold" and numbers[0] > 1):
        LEASE["ms"] = 600000
    workers = HANDS if command in ("hold", "await") else numbers[0] + 1
    try:
        COMMANDS[command](LIBRARIES[name](int(port), workers, kind), *numbers)
    except Exception as error:
        fail(error)
    os._exit(0)  # some threads still wait


main()
