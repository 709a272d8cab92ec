"""The state of locks on the server, for tests; queried on a connection of the test's own."""

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
    """The owners of the waiters, in their order."""
    found = info(server, key)
    return [waiter["owner"] for waiter in found["waiters"]] if found else []


def wait_waiters(server, key, *owners):
    wait_for(lambda: waiters(server, key) == list(owners), 20, f"{owners} to wait for {key}")


def wait_free(server, key):
    wait_for(lambda: info(server, key) is None, 20, f"{key} to be free")


def calls(server, command):
    """How often the server has executed this command."""
    stats = server.info("commandstats").get(f"cmdstat_{command.lower()}", {})
    return stats.get("calls", 0)
