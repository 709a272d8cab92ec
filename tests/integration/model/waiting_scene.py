"""Commands in a line of words, and clients that wait for a lock."""

import pytest

HOUR = 3_600_000


def say(server, command):
    return server.control.execute_command(*command.split())


@pytest.fixture
def wait_as(actor):
    """wait_as("w", "k"): a client that waits as `w` for `k`, for ever."""

    def wait(owner="w", key="k", **options):
        waiter = actor(owner, **options)
        waiter.send("LOCK.ACQUIRE", key, owner, "PX", HOUR, "BLOCK", 0)
        return waiter.wait_blocked()

    return wait
