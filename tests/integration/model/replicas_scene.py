"""REPLICAS: a master with replicas that a test can stop."""

import os
import signal
from contextlib import contextmanager

import pytest

from harness import wait_for
from harness.replication import listed

LONG = 600_000

# The command of each kind with which `o` requests k, and the contents of the hash then.
KINDS = {
    "plain": ("LOCK.ACQUIRE k o", {"o": "1"}),
    "fair": ("LOCK.FAIR k o", {"o": "1"}),
    "read": ("LOCK.RWREAD k o", {"mode": "read", "o": "1"}),
    "write": ("LOCK.RWWRITE k o", {"mode": "write", "o:write": "1"}),
    "permits": ("LOCK.SEMAPHORE k o 4 PERMITS 2", {"mode": "semaphore", "o": "2"}),
    "multikey": ("LOCK.MACQUIRE 2 k l o", {"o": "1"}),
    "modes": ("LOCK.MACQUIRE 2 k l o MODES READ WRITE", {"mode": "read", "o": "1"}),
}
ANSWERS = {"permits": 2, "multikey": 2, "modes": 2}
# The commands with which another owner keeps o from acquiring it, and releases it again.
KEEPS_OUT = {
    "permits": "LOCK.SEMAPHORE k x 4 PERMITS 4",
    **dict.fromkeys(("read", "write", "modes"), "LOCK.RWWRITE k x"),
}
LETS_IN = {"permits": "LOCK.RELEASE k x PERMITS 4"}

each_kind = pytest.mark.parametrize("kind", KINDS)


def asks(kind, *options):
    return [*KINDS[kind][0].split(), *options]


def answer(kind):
    return ANSWERS.get(kind, 1)


def hash_of(kind):
    return KINDS[kind][1]


def online(server):
    """How many replicas are online for the master."""
    return sum(replica["state"] == "online" for replica in listed(server))


def acknowledged_by(server, replica):
    """The offset that the replica has acknowledged, as the master reports it."""
    return next(entry["offset"] for entry in listed(server) if entry["port"] == replica.port)


def add_replica(server):
    """Adds a replica that may be stopped for any time; it is online for the master when this returns."""
    before = online(server)
    replica = server.start_replica(repl_timeout=3600)
    wait_for(lambda: online(server) == before + 1, what="the master to know its replica")
    # The master sends it nothing before its first acknowledgement, which may come a moment later. WAIT requests one.
    write = server.control.pipeline(transaction=False).set("first", 1).delete("first")
    write.execute_command("WAIT", before + 1, 1).execute()
    wait_for(lambda: acknowledged_by(server, replica) > 0, what="an acknowledgement of the new replica")
    return replica


def with_replicas(count):
    """For a file's fixture `new_server`: a master with this number of replicas."""

    def make_pair(make):
        server = make(repl_timeout=3600)
        for _ in range(count):
            add_replica(server)
        return server

    return make_pair


@contextmanager
def silent(*replicas):
    """Stops the replicas, so that they acknowledge nothing; at the end they continue."""
    for replica in replicas:
        os.kill(replica.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for replica in replicas:
            os.kill(replica.pid, signal.SIGCONT)


def awaiting(server):
    return server.info("lock")["lock_awaiting_replicas"]


def wait_awaiting(server, count):
    wait_for(lambda: awaiting(server) == count, what=f"{count} replies to wait for replicas")


def begin(server, actor, *words):
    """The actor sends a request, which is granted and waits for replicas."""
    before = awaiting(server)
    actor.send(*words)
    actor.wait_blocked()
    wait_awaiting(server, before + 1)
    return actor


def ack_requests(replica):
    """How often the replica has been requested to acknowledge."""
    return replica.control.info("commandstats").get("cmdstat_replconf", {}).get("calls", 0)
