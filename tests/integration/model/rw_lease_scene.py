"""Leases of readers and writers: their values in the keys, and fixtures that wait for their ends.

The server's own expiry is switched off: only the module notices that a lease has expired.
"""

import pytest

from harness import scaled_ms, wait_for
from harness.schedule import as_map

LONG, LONGER = 600_000, 1_200_000
SHORT, LESS_SHORT = scaled_ms(150), scaled_ms(300)
LEASES = "lock:lease:{k}"


@pytest.fixture
def say(server):
    return lambda text: server.control.execute_command(*text.split())


def leases(server):
    """{field: end of its lease}, from the keys themselves. The lease of an only hold is the TTL of the lock's key."""
    fields = set(server.control.hkeys("k")) - {"mode"}
    if len(fields) == 1 and not server.control.exists(LEASES):
        return {fields.pop(): end_of(server)}
    return {field: int(end) for field, end in server.control.zrange(LEASES, 0, -1, withscores=True)}


def holders(server, key="k"):
    """The holders in LOCK.INFO: {"owner mode": holds}."""
    found = as_map(server.control.execute_command("LOCK.INFO", key))
    return {f"{one['owner']} {one['mode']}": one["holds"] for one in map(as_map, found.get("holders", []))}


def end_of(server, key="k"):
    return server.control.execute_command("PEXPIRETIME", key)


def until(server, end_ms):
    """Waits until this time has passed by the server's clock."""
    assert end_ms > 0
    wait_for(lambda: server.now_ms() > end_ms, 30, "a lease to end")


def all_agree(server):
    """Both keys expire with the last lease. An only hold needs no set of leases."""
    found = leases(server)
    last = max(found.values())
    assert end_of(server) == last
    assert end_of(server, LEASES) == last or len(found) == 1
    return True


class takes:
    """Asserts that this field's lease becomes `ms`, counted from a moment within the block."""

    def __init__(self, server, field, ms):
        self.server, self.field, self.ms = server, field, ms

    def __enter__(self):
        self.start = self.server.now_ms()

    def __exit__(self, *failure):
        if failure == (None, None, None):
            end = leases(self.server)[self.field]
            assert self.start + self.ms <= end <= self.server.now_ms() + self.ms


@pytest.fixture
def wait(actor):
    """wait("b", "RWWRITE"): b blocks; it will have a LONG lease."""

    def begin(owner, kind, *words):
        waiter = actor(owner)
        waiter.send(f"LOCK.{kind}", "k", owner, "PX", LONG, "BLOCK", 0, *words)
        return waiter.wait_blocked()

    return begin
