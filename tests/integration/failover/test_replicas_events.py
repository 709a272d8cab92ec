"""REPLICAS n ms: every event between grant and acknowledgement, for every kind of request, granted at once or after a
wait.

The client receives one reply, which is true; no hold remains of which no client has been notified; the waiter behind it
is granted; and the replica has the same data.

The replica runs behind a proxy that swallows all traffic between master and replica until the event has happened.
"""

from dataclasses import dataclass

import pytest

from harness import code_of, scaled_ms, wait_for, wait_for_sync
from harness.connect import HOST
from harness.ports import free_port
from harness.proxy import Proxy
from model.replicas_scene import KEEPS_OUT, KINDS, LETS_IN, LONG, answer, asks, begin, hash_of, online, wait_awaiting

# Long enough for a busy machine to set the scene in.
SHORT = scaled_ms(500)

# What the client receives.
GRANT, NULL, REFUSED, UNBLOCKED, NOTHING = "the grant", "null", "NOREPLICAS", "UNBLOCKED", "nothing: it has died"

CASES = [f"{kind}, {when}" for kind in KINDS for when in ("at once", "after a wait")] + ["renewal"]


class Stage:
    """o has been granted the lock, or has renewed it, and waits for the replica; w waits behind it."""

    def __init__(self, server, event, case):
        self.server, self.event = server, event
        self.replica, self.proxy = server.behind
        self.kind, _, self.when = case.partition(", ")
        self.renews = self.kind == "renewal"
        self.kind = "plain" if self.renews else self.kind
        self.a, self.w = server.actor("a"), None

    def call(self, line):
        return self.server.control.execute_command(*line.split())

    @property
    def first(self):
        """The command with which another owner holds the lock before o, and with which w requests it."""
        return KEEPS_OUT.get(self.kind, "LOCK.ACQUIRE k x")

    def wait(self, actor, *words):
        actor.send(*words)
        actor.wait_blocked()
        return actor

    def set(self):
        """All steps before the proxy swallows; afterwards grant() begins the wait for the replica."""
        if self.renews:
            assert self.a.call(*asks(self.kind, "PX", LONG)) == 1
        elif self.when == "after a wait":
            self.call(self.first)
            self.wait(self.a, *asks(self.kind, *self.event.options, "BLOCK", 0))
        wait_for_sync(self.server, self.replica)

    def grant(self):
        if self.renews:
            begin(self.server, self.a, "LOCK.RENEW", "k", "o", *self.event.options)
        elif self.when == "at once":
            begin(self.server, self.a, *asks(self.kind, *self.event.options))
        else:
            self.call(LETS_IN.get(self.kind, "LOCK.RELEASE k x"))
            wait_awaiting(self.server, 1)
        if self.event.behind:
            self.w = self.wait(self.server.actor("w"), *self.first.replace(" x", " w").split(), "BLOCK", 0)

    # The end

    def receive(self):
        expected = self.event.renewal if self.renews else self.event.reply
        if expected is NOTHING:
            return
        reply = self.a.outcome(timeout=10)
        if expected is GRANT:
            assert reply == (1 if self.renews else answer(self.kind)), reply
        elif expected is NULL:
            assert reply is None, reply
        else:
            assert code_of(reply) == expected, reply
        if self.event.closes:
            self.a.wait_closed()
        else:
            assert self.a.call("PING") == "PONG", "it received two replies"

    def remains(self):
        if self.renews:
            return self.event.renewal_remains
        return self.event.reply is GRANT or self.event.remains

    def release(self):
        left = 2 if self.kind in ("multikey", "modes") else 0
        assert self.call(RELEASES.get(self.kind, "LOCK.RELEASE k o")) == left

    def end(self):
        if self.remains():
            self.server.settle()
            assert self.server.control.hgetall("k") == hash_of(self.kind)
            assert self.w is None or not self.w.has_reply()
            self.release()
        if self.w:
            assert self.w.reply() == (4 if self.kind == "permits" else 1)
            field = "w:write" if self.first.startswith("LOCK.RWWRITE") else "w"
            wait_for(lambda: set(self.server.control.hgetall("k")) - {"mode"} == {field}, what="only w to hold it")
            assert self.w.call(*LETS_IN.get(self.kind, "LOCK.RELEASE k x").replace(" x", " w").split()) == 0
        wait_for(self.is_empty, 10, "nothing to be left")

    def is_empty(self):
        left = [key for key in self.server.control.keys() if not key.startswith(("lock:token:", *self.event.leaves))]
        assert not left, left
        info = self.server.info("lock")
        for name in ("waiters", "awaiting_replicas", "contended_locks", "sessions"):
            assert info[f"lock_{name}"] == 0, name
        return True


# ---- the events ----


@dataclass(frozen=True)
class Event:
    do: object
    """Runs while nothing reaches the replica, or comes back from it. The part after a `yield` runs when the replica can
    be reached again and the client has its reply."""
    reply: str
    renewal: str = GRANT
    """What the client of a renewal receives."""
    remains: bool = False
    """Whether there is a hold although o's client was not notified of it: another client was."""
    renewal_remains: bool = True
    options: tuple = ("PX", LONG, "REPLICAS", 1, LONG)
    behind: bool = True
    """Whether another client waits behind it."""
    leaves: tuple = ()
    """Keys that only expire, and are not deleted."""
    closes: bool = False
    """Whether the server closes the connection after the reply."""


def sends(line, **others):
    """Sends the same line for each kind, except the kinds in `others`."""

    def do(stage):
        stage.call(others.get(stage.kind, line).format(id=stage.a.client_id))

    return do


def dies(stage):
    stage.a.kill_socket()


def time_ends(*lines):
    """The time for replicas ends after the first line; the other lines follow after the reply."""
    before, after = lines[:1], lines[1:]

    def do(stage):
        for line in before:
            stage.call(line)
        wait_for(stage.a.has_reply, 10, "its time to end")
        yield
        for line in after:
            stage.call(line)

    return do


def between(first, second):
    def do(stage):
        stage.call(first)
        yield
        stage.call(second)

    return do


def requests_once(stage):
    """Another client of the owner sends the request with ONCE, and receives the reply at once."""
    assert stage.server.actor().call(*asks(stage.kind, "PX", LONG, "ONCE")) == answer(stage.kind)


def requests_once_and_the_first_dies(stage):
    requests_once(stage)
    dies(stage)


def unloads(stage):
    assert not stage.server.unloads()


def is_promoted(stage):
    stage.replica.control.execute_command("REPLICAOF", "NO", "ONE")
    yield from time_ends()(stage)
    stage.replica.control.execute_command("REPLICAOF", HOST, stage.proxy.port)


def is_killed(stage):
    stage.replica.kill()
    yield from time_ends()(stage)
    stage.replica.start()
    stage.replica.control.execute_command("REPLICAOF", HOST, stage.proxy.port)


def reconnects(stage):
    """Its link breaks; with the next link it receives all."""
    stage.call("CLIENT KILL TYPE replica")


def becomes_a_replica(stage):
    stage.call(f"REPLICAOF {HOST} {free_port()}")
    yield
    stage.call("REPLICAOF NO ONE")
    assert stage.server.control.hgetall("k") == hash_of(stage.kind), "only the new master may change the keys"


RELEASES = dict(
    multikey="LOCK.MRELEASE 2 k l o",
    modes="LOCK.MRELEASE 2 k l o MODES READ WRITE",
    permits="LOCK.RELEASE k o PERMITS 2",
)
IN_TIME = ("PX", LONG, "REPLICAS", 1, SHORT)
LEASE_FIRST = ("PX", SHORT, "REPLICAS", 1, LONG)
GONE = dict(reply=REFUSED, renewal=REFUSED, renewal_remains=False)
LEFT = dict(leaves=("lock:lease:",))  # after a direct deletion of a lock's key

EVENTS = {
    "nothing": Event(sends("PING"), GRANT),
    "client dies": Event(dies, NOTHING, NOTHING),
    "client is killed": Event(sends("CLIENT KILL ID {id}"), NOTHING, NOTHING),
    "time ends": Event(time_ends(), REFUSED, REFUSED, options=IN_TIME),
    "lease ends": Event(time_ends(), REFUSED, REFUSED, renewal_remains=False, options=LEASE_FIRST),
    "FORCE": Event(sends("LOCK.FORCE k"), **GONE),
    "DEL": Event(sends("DEL k"), **GONE, **LEFT),
    "UNLINK": Event(sends("UNLINK k"), **GONE, **LEFT),
    "EXPIRE": Event(sends("PEXPIRE k 0"), **GONE, **LEFT),
    "FLUSHALL": Event(sends("FLUSHALL"), **GONE),
    "FLUSHDB": Event(sends("FLUSHDB ASYNC"), **GONE),
    "released by another": Event(sends("LOCK.RELEASE k o", **RELEASES), **GONE),
    "CANCEL": Event(sends("LOCK.CANCEL k o"), NULL),
    "CANCEL RELEASE": Event(
        sends("LOCK.CANCEL k o RELEASE", permits="LOCK.CANCEL k o RELEASE PERMITS 2"),
        NULL, REFUSED, renewal_remains=False,
    ),  # fmt: skip
    "CLIENT UNBLOCK": Event(sends("CLIENT UNBLOCK {id}"), NULL, NULL),
    "CLIENT UNBLOCK ERROR": Event(sends("CLIENT UNBLOCK {id} ERROR"), UNBLOCKED, UNBLOCKED),
    "SWAPDB": Event(between("SWAPDB 0 1", "SWAPDB 0 1"), GRANT, behind=False),
    "CLIENT PAUSE WRITE": Event(between(f"CLIENT PAUSE {LONG} WRITE", "CLIENT UNPAUSE"), GRANT),
    "CLIENT PAUSE WRITE and time ends": Event(
        time_ends(f"CLIENT PAUSE {LONG} WRITE", "CLIENT UNPAUSE"), REFUSED, REFUSED, options=IN_TIME
    ),
    "CLIENT PAUSE ALL": Event(sends(f"CLIENT PAUSE {scaled_ms(50)} ALL"), GRANT),
    "ONCE": Event(requests_once, GRANT),
    "ONCE and the first dies": Event(requests_once_and_the_first_dies, NOTHING, NOTHING, remains=True),
    "MODULE UNLOAD": Event(unloads, GRANT),
    "min-replicas-to-write": Event(
        between("CONFIG SET min-replicas-to-write 3", "CONFIG SET min-replicas-to-write 0"), GRANT
    ),
    "min-replicas-to-write and time ends": Event(
        time_ends("CONFIG SET min-replicas-to-write 3", "CONFIG SET min-replicas-to-write 0"),
        REFUSED, REFUSED, options=IN_TIME,
    ),  # fmt: skip
    "maxmemory": Event(between("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"), GRANT),
    "maxmemory and time ends": Event(
        time_ends("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"), REFUSED, REFUSED, options=IN_TIME
    ),
    "replica is promoted": Event(is_promoted, REFUSED, REFUSED, options=IN_TIME),
    "replica is killed": Event(is_killed, REFUSED, REFUSED, options=IN_TIME),
    "replica reconnects": Event(reconnects, GRANT),
    "master becomes a replica": Event(
        becomes_a_replica, UNBLOCKED, UNBLOCKED, remains=True, behind=False, closes=True
    ),
}


@pytest.fixture(scope="module")
def new_server():
    proxies = []

    def make_pair(make):
        server, replica = make(repl_timeout=3600), make(repl_timeout=3600)
        proxies.append(Proxy(server.port))
        server.behind = replica, proxies[-1]
        replica.control.execute_command("REPLICAOF", HOST, proxies[-1].port)
        return server

    yield make_pair
    for proxy in proxies:
        proxy.__exit__()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", EVENTS)
def test_event_between_grant_and_acknowledgement(server, name, case):
    event = EVENTS[name]
    if "UNBLOCK" in name and not (server.is_valkey or server.version >= (7, 4)):
        pytest.skip("CLIENT UNBLOCK replies 0 on this server")
    if case == "renewal" and name.startswith("ONCE"):
        pytest.skip("a renewal has no ONCE")
    wait_for(lambda: online(server) == 1, 20, "the master to know its replica")
    stage = Stage(server, event, case)
    stage.set()
    with stage.proxy.swallowing():
        stage.grant()
        steps = event.do(stage) or iter(())
        next(steps, None)
    stage.receive()
    next(steps, None)
    stage.end()
    wait_for(lambda: online(server) == 1, 20, "the replica to be connected again")
    wait_for_sync(server, stage.replica)
    assert stage.replica.dump() == server.dump()
