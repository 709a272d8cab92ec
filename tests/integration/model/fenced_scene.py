"""FENCED in tests: tokens of k, and clients that wait for k."""

import os
import signal
from contextlib import contextmanager

import pytest

TOKEN = "lock:token:{k}"

COMMANDS = ("LOCK.ACQUIRE", "LOCK.FAIR", "LOCK.RWWRITE")
each_command = pytest.mark.parametrize("command", COMMANDS)


def take(client, owner="o", *options, command="LOCK.ACQUIRE", key="k"):
    """The token of a fenced acquisition; fails if the lock was not granted."""
    token = client.execute_command(command, key, owner, "FENCED", *options)
    assert isinstance(token, int), f"no token: {token!r}"
    return token


def begin_to_wait(actor, owner, *options, command="LOCK.ACQUIRE"):
    client = actor(owner)
    client.send(command, "k", owner, "BLOCK", 0, *options)
    return client.wait_blocked()


@contextmanager
def stopped(server):
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)
