"""Workers that use a thousand locks of all kinds while their slots move."""

import random
import threading
from collections import Counter
from dataclasses import dataclass
from itertools import count

from redis.crc import key_slot

from harness import wait_for
from harness.cluster import ClusterClient
from model.cluster_scene import LONG

SLOTS, LOCKS, SHARED, WORKERS = 8, 1000, 80, 6
KINDS = ("plain", "fenced", "fair", "fair fenced", "read", "write", "session", "session read")


@dataclass(frozen=True)
class Named:
    """One of the locks. redis-cli takes the first slots of a node first."""

    name: str
    tag: str
    kind: str


def make_locks():
    tags = {}
    for number in count():
        tags.setdefault(key_slot(str(number).encode()), str(number))
        if all(slot in tags for slot in range(SLOTS)):
            break
    found = [tags[slot] for slot in range(SLOTS)]
    # Each slot has locks of all kinds.
    return [Named(f"{{{found[i % SLOTS]}}}{i}", found[i % SLOTS], KINDS[i // SLOTS % len(KINDS)]) for i in range(LOCKS)]


class Register:
    """Who holds which lock, according to the clients, and the last token of each lock."""

    def __init__(self):
        self._guard, self._holders, self._tokens = threading.Lock(), {}, Counter()
        self.tokens_given = 0

    def granted(self, lock, owner, reads, token):
        with self._guard:
            others = self._holders.setdefault(lock.name, {})
            assert not others or (reads and all(others.values())), f"{owner} acquired {lock}, which {others} held"
            others[owner] = reads
            if token:
                assert token > self._tokens[lock.name], f"{owner} got {token} of {lock} after {self._tokens[lock.name]}"
                self._tokens[lock.name] = token
                self.tokens_given += 1

    def released(self, lock, owner):
        """Call this before the release, which may grant the lock to the next client at once."""
        with self._guard:
            del self._holders[lock.name][owner]

    def held(self):
        with self._guard:
            return sum(map(bool, self._holders.values()))


class Worker(threading.Thread):
    """Holds locks of its own, which it releases and acquires again, and acquires locks that it shares with the other
    workers."""

    def __init__(self, number, port, own, shared, register):
        super().__init__(name=f"o{number}")
        self.client, self.own, self.shared, self.register = ClusterClient(port), own, shared, register
        self.random, self.stopped, self.problem, self.rounds = random.Random(number), threading.Event(), None, 0

    def run(self):
        try:
            for lock in self.own:
                self.take(lock)
            while not self.stopped.is_set():
                self.work()
                self.rounds += 1
            for lock in self.own:
                self.release(lock)
        except BaseException as problem:
            self.problem = problem
        finally:
            self.client.close()

    def work(self):
        own = self.random.choice(self.own)
        self.use(own)
        self.release(own)
        self.take(own)
        shared = self.random.choice(self.shared)
        if self.take(shared):
            self.use(shared)
            self.release(shared)

    def send(self, lock, command, *words):
        return self.client.call(lock.tag, f"LOCK.{command}", lock.name, *words)

    def take(self, lock):
        reads = "read" in lock.kind and (lock not in self.shared or self.random.random() < 0.7)
        command = "RWREAD" if reads else "RWWRITE" if "read" in lock.kind or lock.kind == "write" else "ACQUIRE"
        command = "FAIR" if "fair" in lock.kind else command
        lease = ("SESSION",) if "session" in lock.kind else ("PX", LONG)
        fenced = ("FENCED",) if "fenced" in lock.kind or lock.kind == "write" else ()
        reply = self.send(lock, command, self.name, *lease, *fenced, "BLOCK", 2000)
        assert reply is not None or lock in self.shared, f"{lock} is {self.name}'s own"
        if reply is not None:
            self.register.granted(lock, self.name, reads, reply if fenced else None)
        return reply is not None

    def use(self, lock):
        """Sends one of the commands of a holder, or none."""
        how = self.random.randrange(6)
        if how == 0:
            assert self.send(lock, "RENEW", self.name) == 1
        elif how == 1:
            assert self.send(lock, "GUARD", self.name, "EXISTS", lock.name) == 1
        elif how == 2:
            assert self.send(lock, "INFO") is not None

    def release(self, lock):
        self.register.released(lock, self.name)
        assert self.send(lock, "RELEASE", self.name) == 0


class Workers:
    def __init__(self, node):
        locks, self.register = make_locks(), Register()
        shared, own = locks[:SHARED], locks[SHARED:]
        self.all = [
            Worker(number, node.server.port, own[number::WORKERS], shared, self.register) for number in range(WORKERS)
        ]

    def __enter__(self):
        for worker in self.all:
            worker.start()
        wait_for(lambda: self.all_run() and self.register.held() >= LOCKS - SHARED, 60, "all locks to be taken")
        return self

    def __exit__(self, *_):
        for worker in self.all:
            worker.stopped.set()
        for worker in self.all:
            worker.join()

    def all_run(self):
        for worker in self.all:
            if worker.problem:
                raise RuntimeError(f"{worker.name} ended") from worker.problem
        return True

    def rounds(self):
        return [worker.rounds for worker in self.all]

    def redirections(self):
        return sum((worker.client.redirections for worker in self.all), Counter())

    def wait_progress(self):
        """Waits until each worker has finished another round."""
        before = self.rounds()

        def have_progressed():
            return self.all_run() and all(a > b for a, b in zip(self.rounds(), before, strict=True))

        wait_for(have_progressed, 30, "more rounds")
