"""Commands as lines of words, and clients that wait for a lock."""

import pytest

HOUR = 3_600_000


def say(server, command):
    return server.control.execute_command(*command.split())


@pytest.fixture
def wait_as(actor):
    """wait_as("w", "k"): a client that waits as the owner `w` for `k`, without a timeout."""

    def wait(owner="w", key="k", **options):
        waiter = actor(owner, **options)
        waiter.send("LOCK.ACQUIRE", key, owner, "PX", HOUR, "BLOCK", 0)
        return waiter.wait_blocked()

    return wait


def assert_handed_off(server, actor):
    """Waits until the drain has handed off another lock: then it has processed all that was due before."""
    assert server.control.execute_command("LOCK.ACQUIRE", "last", "o") == 1
    waiter = actor()
    waiter.send("LOCK.ACQUIRE", "last", "p", "BLOCK", 0)
    waiter.wait_blocked()
    server.control.delete("last")
    assert waiter.reply() == 1
