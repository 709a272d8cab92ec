"""The locks that are measured, with which client, on which server, and what each promises that others do not."""

import os
import shutil
import sys
from dataclasses import dataclass

from .competitors import BUILT, HERE, missing_tool
from .otherservers import OTHERS

TURNS = frozenset({"turns"})
ALL = frozenset({"pair", "handoff", "hot", "killed", "held", "crowd"})
QUEUED = ALL | {"drain"}
SESSION = frozenset({"killed"})
# For these the death of the holder is noticed when its connection closes, not when a lease expires.
NOTICED_AT_ONCE = {"jedis-session", "postgres"}

CANNOT = {
    "drain": "no queue",
    "rw": "no read-write lock",
    "semaphore": "no semaphore",
    "latch": "no latch",
}

LEASE = "ends when its lease expires; no fsync, no consensus"


@dataclass(frozen=True)
class Locker:
    name: str
    label: str
    language: str
    library: str  # the program's first word
    server: str  # "module", "redis", "etcd", "postgres", "zookeeper"
    offers: frozenset
    beside: str  # the row of lock.so by the same language and client, to compare with; that row names itself
    promise: str

    @property
    def ours(self):
        return self.server == "module"

    @property
    def durable(self):
        """Whether a grant is on disk before the reply."""
        return self.server in ("etcd", "zookeeper")

    def command(self, what, *arguments):
        return [*PROGRAMS[self.language](), self.library, what, *arguments]


def ours(name, label, language, library, offers=ALL, beside=None, promise="release and grant are one step; " + LEASE):
    return Locker(name, label, language, library, "module", offers, beside or name, promise)


def on_redis(name, label, language, library, offers, beside, promise):
    return Locker(name, label, language, library, "redis", offers, beside, promise)


QUEUE_KEPT = "first come, first served, also after a restart; " + LEASE
SESSION_PROMISE = "the server renews it while the connection is open"
POLLS = "granted to the first waiter that tries again; "
SCRIPT = "SET NX PX + script"
DELETES = "SET NX PX + DEL"
NO_CHECK = "a late DEL deletes the lock of another owner; " + LEASE

LOCKERS = [
    ours("jedis", "LOCK.ACQUIRE, Jedis", "java", "jedis", ALL | TURNS | {"rw", "semaphore", "latch"}),
    ours("jedis-fair", "LOCK.FAIR, Jedis", "java", "jedis:fair", QUEUED, "jedis", QUEUE_KEPT),
    ours("jedis-session", "LOCK.ACQUIRE … SESSION, Jedis", "java", "jedis:session", SESSION, "jedis", SESSION_PROMISE),
    on_redis("redisson", "RLock, Redisson", "java", "redisson", ALL | {"rw", "semaphore", "latch"}, "jedis",
             "renewed by the client while it runs; " + LEASE),
    on_redis("redisson-fair", "fair lock, Redisson", "java", "redisson:fair", QUEUED, "jedis",
             "first come, first served; " + LEASE),
    on_redis("setnx-jedis", f"{SCRIPT}, Jedis", "java", "setnx", ALL, "jedis", POLLS + LEASE),
    on_redis("setdel-jedis", f"{DELETES}, Jedis", "java", "setdel", frozenset({"pair"}), "jedis", NO_CHECK),
    Locker("curator", "ZooKeeper, Curator", "java", "curator", "zookeeper", QUEUED | {"rw", "semaphore"}, "jedis",
           "on disk (fsync) before the reply, and on a majority (consensus) with more than one server; ordered"),
    ours("goredis", "LOCK.ACQUIRE, go-redis", "go", "goredis", ALL | TURNS | {"rw", "semaphore"}),
    ours("goredis-fair", "LOCK.FAIR, go-redis", "go", "goredis:fair", QUEUED, "goredis", QUEUE_KEPT),
    on_redis("redsync", "redsync, go-redis", "go", "redsync", ALL, "goredis",
             "RedLock if given several servers; " + POLLS + LEASE),
    on_redis("setnx-go", f"{SCRIPT}, go-redis", "go", "setnx", ALL, "goredis", POLLS + LEASE),
    on_redis("setdel-go", f"{DELETES}, go-redis", "go", "setdel", frozenset({"pair"}), "goredis", NO_CHECK),
    Locker("etcd", "etcd, concurrency.Mutex", "go", "etcd", "etcd", QUEUED, "goredis",
           "on disk (fsync) before the reply, and on a majority (consensus) with more than one server; ordered; "
           "its revision is a fencing token"),
    Locker("postgres", "PostgreSQL advisory, pgx", "go", "postgres", "postgres", QUEUED | {"rw"}, "goredis",
           "bound to the connection, in memory only: no fsync, not replicated; detects deadlocks"),
    ours("ioredis", "LOCK.ACQUIRE, ioredis", "node", "ioredis", ALL | TURNS),
    ours("ioredis-try", "LOCK.ACQUIRE without BLOCK, ioredis", "node", "ioredis:try", TURNS, "ioredis",
         "acquires or fails at once, on the connection that all share, like SET NX"),
    on_redis("redlock", "node-redlock, ioredis", "node", "redlock", ALL, "ioredis",
             "RedLock if given several servers; " + POLLS + LEASE),
    on_redis("setnx-node", f"{SCRIPT}, ioredis", "node", "setnx", ALL, "ioredis", POLLS + LEASE),
    on_redis("setdel-node", f"{DELETES}, ioredis", "node", "setdel", frozenset({"pair"}), "ioredis", NO_CHECK),
    ours("redis-py-ours", "LOCK.ACQUIRE, redis-py", "python", "ours", ALL | TURNS),
    on_redis("redis-py", "Lock, redis-py", "python", "redis-py", ALL, "redis-py-ours",
             POLLS + "by default without a lease: if the holder dies, it stays locked; no fsync, no consensus"),
    on_redis("setnx-py", f"{SCRIPT}, redis-py", "python", "setnx", ALL, "redis-py-ours", POLLS + LEASE),
    on_redis("setdel-py", f"{DELETES}, redis-py", "python", "setdel", frozenset({"pair"}), "redis-py-ours", NO_CHECK),
    Locker("consul", "Consul", "go", "", "consul", QUEUED, "goredis",
           "on disk (fsync) before the reply, and on a majority (consensus) with more than one server"),
]

PROGRAMS = {
    "java": lambda: ["java", "-cp", f"{BUILT}/java/classes{os.pathsep}{BUILT}/java/lib/*", "field.Locks"],
    "go": lambda: [f"{BUILT}/go/locks"],
    "node": lambda: ["node", f"{BUILT}/node/locks.js"],
    "python": lambda: [sys.executable, "-B", f"{HERE}/python/locks.py"],
}


def why_not(locker):
    """Why it cannot run here; None if it can. Called after the programs are built."""
    if tool := missing_tool(locker.language):
        return f"no {tool}"
    if locker.server == "consul":
        return "Debian has no package of Consul" if not shutil.which("consul") else "not measured yet"
    if locker.server in OTHERS and not OTHERS[locker.server].program():
        return f"no {locker.server}"
    return None


def offered(locker, measure):
    """None if it has what a measure needs; else the reason."""
    return None if measure in locker.offers else CANNOT.get(measure, "not measured")
