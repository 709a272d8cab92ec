"""What the server says about a lock, for tests of a library: asked on a connection of the test's own."""

import socket
from contextlib import contextmanager

from harness import wait_for


def _map(flat):
    return dict(zip(flat[::2], flat[1::2], strict=True))


def info(server, key):
    """LOCK.INFO as a dict, or None."""
    flat = server.control.execute_command("LOCK.INFO", key)
    if flat is None:
        return None
    found = _map(flat)
    return {**found, **{name: [_map(one) for one in found[name]] for name in ("holders", "waiters")}}


def holds(server, key):
    """{owner: holds}"""
    found = info(server, key)
    return {holder["owner"]: holder["holds"] for holder in found["holders"]} if found else {}


def waiters(server, key):
    """The owners that wait, in their order."""
    found = info(server, key)
    return [waiter["owner"] for waiter in found["waiters"]] if found else []


def wait_waiters(server, key, *owners):
    wait_for(lambda: waiters(server, key) == list(owners), 20, f"{owners} to wait for {key}")


def wait_free(server, key):
    wait_for(lambda: info(server, key) is None, 20, f"{key} to be free")


def calls(server, command):
    """How often the server has been told this command."""
    stats = server.info("commandstats").get(f"cmdstat_{command.lower()}", {})
    return stats.get("calls", 0)


def wait_calls(server, command, count):
    """Until it has been told so often; the last one may be on its way when who has sent it gives up."""
    wait_for(lambda: calls(server, command) >= count, 20, f"{count} {command}")
    assert calls(server, command) == count


# A client that says nothing when it connects: so a server that is slow then has no part in what times out.
SILENT = {"protocol": 2, "driver_info": None}


@contextmanager
def held(server, key):
    """Somebody else holds the lock; what is given back releases it."""
    actor, is_held = server.actor("holder"), [True]
    assert actor.call("LOCK.ACQUIRE", key, "holder", "PX", 600000) == 1

    def release():
        if is_held:
            is_held.clear()
            actor.call("LOCK.RELEASE", key, "holder")

    try:
        yield release
    finally:
        release()
        actor.close()


# In s: idle for so long, then asked every so often, so many times.
KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}


def keepalive_of(sock):
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    return {name: sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in KEEPALIVE}
