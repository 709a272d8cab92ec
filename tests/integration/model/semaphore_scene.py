"""Permits, as steps of schedules, and the contents of a semaphore's keys."""

from harness.schedule import BLOCKS, as_map, has

LONG = 600_000
LEASES = "lock:lease:{k}"


def takes(name, limit, permits=1, now=None):
    """Afterwards this client has `now` permits, or those that it requested."""
    return (name, f"LOCK.SEMAPHORE k o{name} {limit} PERMITS {permits} PX {LONG}", permits if now is None else now)


def tries(name, limit, permits=1):
    """It is not granted the permits."""
    return (name, f"LOCK.SEMAPHORE k o{name} {limit} PERMITS {permits} PX {LONG}", None)


def waits(name, limit, permits=1, owner=None):
    return (name, f"LOCK.SEMAPHORE k {owner or 'o' + name} {limit} PERMITS {permits} PX {LONG} BLOCK 0", BLOCKS)


def releases(name, left=0, permits=1):
    return (name, f"LOCK.RELEASE k o{name} PERMITS {permits}", left)


def holds(**permits):
    """The permits of each owner in LOCK.INFO."""

    def same(found):
        return {one["owner"]: one["holds"] for one in map(as_map, found)} == {
            f"o{name}": count for name, count in permits.items()
        }

    return ("z", "LOCK.INFO k", has(mode="semaphore" if permits else "free", holders=same))


def permits_of(server, key="k"):
    """{owner: permits} in LOCK.INFO, which has only permits whose leases have not expired."""
    info = server.control.execute_command("LOCK.INFO", key)
    return {one["owner"]: one["holds"] for one in map(as_map, as_map(info)["holders"])} if info else {}
