"""Clients that wait for a lock and do not read the reply: the grant is an orphaned grant."""

import pytest

from harness import wait_for
from harness.schedule import as_map
from model.waiting_scene import HOUR

KINDS = {
    "plain": ("LOCK.ACQUIRE", "k", "{}"),
    "fair": ("LOCK.FAIR", "k", "{}"),
    "reader": ("LOCK.RWREAD", "k", "{}"),
    "writer": ("LOCK.RWWRITE", "k", "{}"),
    "semaphore": ("LOCK.SEMAPHORE", "k", "{}", 1),
    "multikey": ("LOCK.MACQUIRE", 1, "k", "{}"),
    "multikey reader": ("LOCK.MACQUIRE", 1, "k", "{}", "MODES", "READ"),
}
HOLDERS = {"reader": "writer", "multikey reader": "writer", "writer": "writer", "semaphore": "semaphore"}
each_kind = pytest.mark.parametrize("kind", KINDS)


def request(kind, owner, *more):
    return [str(word).format(owner) for word in KINDS[kind]] + ["PX", HOUR, *more]


def make_orphaned_grant(server, kind="plain", *more, **options):
    """A client to which `k` has been granted after a wait, to the owner `w`, and that has not read the reply."""
    waiter = server.actor("orphan", **options)
    holder = server.client(db=options.get("db", 0))
    holder.execute_command(*request(HOLDERS.get(kind, "plain"), "h"))
    waiter.send(*request(kind, "w", "BLOCK", 0, *more))
    waiter.wait_blocked()
    assert holder.execute_command("LOCK.RELEASE", "k", "h") == 0
    wait_for(waiter.has_reply, what="the grant")
    return waiter


def holders_of(client, key="k"):
    found = as_map(client.execute_command("LOCK.INFO", key))
    return [as_map(one) for one in found.get("holders", [])]


def unconfirmed(server, key="k", db=0):
    """The field of LOCK.INFO for each holder."""
    return {one["owner"]: one["unconfirmed"] for one in holders_of(server.client(db=db), key)}


def unconfirmed_grants(server):
    """The fields of INFO: the number of grants, and the age of the oldest."""
    info = server.info("lock")
    return info["lock_unconfirmed_grants"], info["lock_unconfirmed_oldest_ms"]


def assert_unconfirmed(server, owner="w", db=0):
    age = unconfirmed(server, db=db)[owner]
    assert age is not None
    grants, oldest = unconfirmed_grants(server)
    assert grants == 1
    assert oldest >= age


def assert_none(server):
    assert unconfirmed_grants(server) == (0, 0)
    assert set(unconfirmed(server).values()) <= {None}
