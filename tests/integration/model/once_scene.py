"""ONCE: every acquiring command with it, and the holds that it makes."""

import pytest

from harness import wait_for

LONG = 600_000

# The command of each kind with which `o` requests k, and its hold in the hash.
KINDS = {
    "plain": ("LOCK.ACQUIRE k o", {"o": "1"}),
    "fair": ("LOCK.FAIR k o", {"o": "1"}),
    "read": ("LOCK.RWREAD k o", {"mode": "read", "o": "1"}),
    "write": ("LOCK.RWWRITE k o", {"mode": "write", "o:write": "1"}),
    "permits": ("LOCK.SEMAPHORE k o 4 PERMITS 2", {"mode": "semaphore", "o": "2"}),
    "multikey": ("LOCK.MACQUIRE 2 k l o", {"o": "1"}),
    "modes": ("LOCK.MACQUIRE 2 k l o MODES READ WRITE", {"mode": "read", "o": "1"}),
}
# The reply to the first acquisition, if it is not 1.
ANSWERS = {"permits": 2, "multikey": 2, "modes": 2}
# The command that releases all holds.
RELEASES = {
    "permits": "LOCK.RELEASE k o PERMITS 2",
    "multikey": "LOCK.MRELEASE 2 k l o",
    "modes": "LOCK.MRELEASE 2 k l o MODES READ WRITE",
}
# The command with which another owner keeps o from acquiring it.
KEEPS_OUT = {
    "permits": "LOCK.SEMAPHORE k x 4 PERMITS 4",
    **dict.fromkeys(("read", "write", "modes"), "LOCK.RWWRITE k x"),
}
LETS_IN = {"permits": "LOCK.RELEASE k x PERMITS 4"}


OF_TWO = ("multikey", "modes")
"""The kinds that acquire l as well."""


def each_kind(*but):
    return pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in but])


def asks(kind, *options):
    """The command of this kind, with ONCE, as words."""
    return [*KINDS[kind][0].split(), "ONCE", *(options if "SESSION" in options else ("PX", LONG, *options))]


def answer(kind):
    return ANSWERS.get(kind, 1)


def releases(kind):
    return RELEASES.get(kind, "LOCK.RELEASE k o").split()


def keeps_out(kind):
    return [*KEEPS_OUT.get(kind, "LOCK.ACQUIRE k x").split(), "PX", LONG]


def lets_in(kind):
    return LETS_IN.get(kind, "LOCK.RELEASE k x")


def waits(actor, *words):
    actor.send(*words, "BLOCK", 0)
    return actor.wait_blocked()


def assert_held_once(server, kind):
    """It is held by o; after one release it is free."""
    assert server.control.hgetall("k") == KINDS[kind][1]
    free_by_one_release(server, kind)


def free_by_one_release(server, kind):
    assert server.control.execute_command(*releases(kind)) == (2 if kind in OF_TWO else 0)
    wait_for(lambda: not server.control.exists("k", "l"), what="the lock to be free")


def wait_drained(server):
    """Waits until the module has finished its work on lost connections: no client waits, no reply is on its way."""
    wait_for(lambda: server.info("lock")["lock_waiters"] == 0, what="all waits to end")
    server.settle()
