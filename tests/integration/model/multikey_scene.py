"""Requests of several keys at once, as steps of schedules."""

from harness.schedule import BLOCKS, as_map, has


def takes(name, keys, reply, *options):
    names = keys.split() if isinstance(keys, str) else keys
    return (name, ("LOCK.MACQUIRE", str(len(names)), *names, f"o{name[0]}", *options), reply)


def waits(name, keys):
    return takes(name, keys, BLOCKS, "BLOCK", "0")


def gives(name, keys, reply):
    names = keys.split() if isinstance(keys, str) else keys
    return (name, ("LOCK.MRELEASE", str(len(names)), *names, f"o{name[0]}"), reply)


def one(name, key, reply, *options):
    return (name, ("LOCK.ACQUIRE", key, f"o{name[0]}", *options), reply)


def releases(name, key, left=0):
    return (name, f"LOCK.RELEASE {key} o{name[0]}", left)


def held(key, owner, count=1):
    """The reply to HGETALL of the key."""
    return ("z", f"HGETALL {key}", lambda got: as_map(got) == {owner: str(count)})


def free(*keys):
    return ("z", ("EXISTS", *keys), 0)


def queue(key, *owners):
    """The owners that wait for the key, in order."""

    def same(waiters):
        return [as_map(waiter)["owner"] for waiter in waiters] == list(owners)

    return ("z", f"LOCK.INFO {key}", has(waiting=len(owners), waiters=same))


def knows_of(waiters, locks):
    """The numbers in INFO."""

    def check(run):
        info = run.server.info("lock")
        assert (info["lock_waiters"], info["lock_contended_locks"]) == (waiters, locks)

    return (check,)
