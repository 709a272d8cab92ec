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
    """One of the locks. The first slots of a node are the first that redis-cli takes from it."""

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
    # Of each slot locks of all kinds.
    return [Named(f"{{{found[i % SLOTS]}}}{i}", found[i % SLOTS], KINDS[i // SLOTS % len(KINDS)]) for i in range(LOCKS)]


class Register:
    """Who has which lock, as their clients know it, and the last token of each."""

    def __init__(self):
        self._guard, self._holders, self._tokens = threading.Lock(), {}, Counter()
        self.tokens_given = 0

    def granted(self, lock, owner, reads, token):
        with self._guard:
            others = self._holders.setdefault(lock.name, {})
            assert not others or (reads and all(others.values())), f"{owner} got {lock}, which {others} had"
            others[owner] = reads
            if token:
                assert token > self._tokens[lock.name], f"{owner} got {token} of {lock} after {self._tokens[lock.name]}"
                self._tokens[lock.name] = token
                self.tokens_given += 1

    def released(self, lock, owner):
        """To be said before the release is, which may let the next one in at once."""
        with self._guard:
            del self._holders[lock.name][owner]

    def held(self):
        with self._guard:
            return sum(map(bool, self._holders.values()))


class Worker(threading.Thread):
    """Has locks of its own, which it releases and takes again, and takes those that it shares in turn with the others."""

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
        self.look(own)
        self.release(own)
        self.take(own)
        shared = self.random.choice(self.shared)
        if self.take(shared):
            self.look(shared)
            self.release(shared)

    def say(self, lock, command, *words):
        return self.client.call(lock.tag, f"LOCK.{command}", lock.name, *words)

    def take(self, lock):
        reads = "read" in lock.kind and (lock not in self.shared or self.random.random() < 0.7)
        command = "RWREAD" if reads else "RWWRITE" if "read" in lock.kind or lock.kind == "write" else "ACQUIRE"
        command = "FAIR" if "fair" in lock.kind else command
        lease = ("SESSION",) if "session" in lock.kind else ("PX", LONG)
        fenced = ("FENCED",) if "fenced" in lock.kind or lock.kind == "write" else ()
        answer = self.say(lock, command, self.name, *lease, *fenced, "BLOCK", 2000)
        assert answer is not None or lock in self.shared, f"{lock} is {self.name}'s own"
        if answer is not None:
            self.register.granted(lock, self.name, reads, answer if fenced else None)
        return answer is not None

    def look(self, lock):
        """One of the commands of who has it."""
        how = self.random.randrange(6)
        if how == 0:
            assert self.say(lock, "RENEW", self.name) == 1
        elif how == 1:
            assert self.say(lock, "GUARD", self.name, "EXISTS", lock.name) == 1
        elif how == 2:
            assert self.say(lock, "INFO") is not None

    def release(self, lock):
        self.register.released(lock, self.name)
        assert self.say(lock, "RELEASE", self.name) == 0


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
        wait_for(lambda: self.well() and self.register.held() >= LOCKS - SHARED, 60, "all locks to be taken")
        return self

    def __exit__(self, *_):
        for worker in self.all:
            worker.stopped.set()
        for worker in self.all:
            worker.join()

    def well(self):
        for worker in self.all:
            if worker.problem:
                raise RuntimeError(f"{worker.name} ended") from worker.problem
        return True

    def rounds(self):
        return [worker.rounds for worker in self.all]

    def heard(self):
        return sum((worker.client.heard for worker in self.all), Counter())

    def go_on(self):
        """Each has done something since."""
        before = self.rounds()
        wait_for(lambda: self.well() and all(a > b for a, b in zip(self.rounds(), before, strict=True)), 30, "more rounds")
