"""The memory of unconfirmed grants: names up to a limit of bytes are kept, only as long as the hold exists.

`INFO memory` does not call the module, so it removes no record.
"""

import pytest

from harness import wait_for
from model.unconfirmed_scene import unconfirmed_grants
from model.waiting_scene import HOUR

LONGEST = 4096  # UNCONFIRMED_LONGEST
MOST = 256  # UNCONFIRMED_MOST
MEGABYTE = 1 << 20


def grant_after_a_wait(server, keys, owner, close=True):
    """Grants each key to `owner` after a wait, on a connection that reads no reply and then closes."""
    server.control.execute_command("LOCK.MACQUIRE", len(keys), *keys, "h", "PX", HOUR)
    waiter = server.actor("waiter")
    waiter.send("LOCK.MACQUIRE", len(keys), *keys, owner, "PX", HOUR, "BLOCK", 0)
    waiter.wait_blocked()
    server.control.execute_command("LOCK.MRELEASE", len(keys), *keys, "h")
    wait_for(waiter.has_reply, what="the grant")
    if close:
        waiter.close()
        wait_for(lambda: not waiter.is_connected(), what="the connection to close")


def used(server):
    server.control.execute_command("MEMORY", "PURGE")
    return server.info("memory")["used_memory"]


def returns_to(server, before, slack):
    wait_for(lambda: used(server) < before + slack, what=f"used_memory to return to {before}")


def test_names_of_megabytes_are_freed_with_their_holds(make_server):
    server = make_server()
    before = used(server)
    for number in range(20):
        key = f"{number:02}".ljust(MEGABYTE, "k")
        grant_after_a_wait(server, [key], "w")
        assert server.control.delete(key) == 1
    returns_to(server, before, 4 * MEGABYTE)


def by_delete(server, keys):
    server.control.delete(*keys)


def by_removing_the_owner(server, keys):
    for key in keys:
        server.control.hdel(key, "w")


def by_expiry(server, keys):
    for key in keys:
        server.control.pexpire(key, 1)
    wait_for(lambda: server.control.exists(*keys) == 0, what="the keys to expire")


def by_rename(server, keys):
    for key in keys:
        server.control.rename(key, "other")
    server.control.delete("other")


def by_flush(server, keys):
    server.control.flushdb()


def by_force(server, keys):
    for key in keys:
        server.control.execute_command("LOCK.FORCE", key)


def by_release(server, keys):
    server.control.execute_command("LOCK.MRELEASE", len(keys), *keys, "w")


ENDS = [by_delete, by_removing_the_owner, by_expiry, by_rename, by_flush, by_force, by_release]


@pytest.mark.parametrize("end", ENDS)
def test_names_are_freed_when_the_hold_ends(make_server, end):
    """A megabyte of names. LOCK.TOP keeps the first 512 bytes of each."""
    server = make_server(hz=100)
    before = used(server)
    keys = [f"{number:03}".ljust(LONGEST - 1, "k") for number in range(MOST)]
    grant_after_a_wait(server, keys, "w")
    end(server, keys)
    returns_to(server, before, MEGABYTE // 2)
    assert unconfirmed_grants(server) == (0, 0)


@pytest.mark.parametrize("length, grants", [(LONGEST, 1), (LONGEST + 1, 0)])
def test_grant_with_longer_names_is_not_recorded(server, length, grants):
    grant_after_a_wait(server, ["k" * (length - 1)], "w", close=False)
    assert unconfirmed_grants(server)[0] == grants


def test_record_stays_when_the_key_changes_but_the_hold_does_not(server):
    grant_after_a_wait(server, ["k"], "w", close=False)
    for command in ("PEXPIRE k 1000000", "PERSIST k", "HDEL k other", "HINCRBY k w 1"):
        server.control.execute_command(*command.split())
    server.client().ping()  # the drain has run
    assert unconfirmed_grants(server)[0] == 1
