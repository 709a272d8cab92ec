"""Fair queues in tests: how to make them, check them in memory and in their keys, and end them.

A test file that leaves reserved positions behind imports `server` from here, instead of the harness's:
positions that are reserved for clients that died remain after a test's connections have closed, and would
affect the next test.
"""

import math
import re

import pytest

from harness import scaled, wait_for
from harness.schedule import as_map

KEY, HOLDER = "k", "oa"
DATABASES = (0, 3)
HOUR = 3_600_000
LONG_RESERVE = HOUR  # positions end when a test ends them, not when time passes
WRITABLE = {"maxmemory": 0, "min-replicas-to-write": 0, "stop-writes-on-bgsave-error": "no"}


@pytest.fixture
def server(server):
    """The harness's server, with positions that are reserved for long; all positions end with the test."""
    server.control.config_set("lock.fair-reserve", LONG_RESERVE)
    yield server
    end_all_positions(server)


def side_keys(key=KEY):
    """The names of the queue and of its deadlines, see docs/design.md, "The data in keys"."""
    tagged = key if re.search(r"\{[^}]+\}", key) else "{" + key + "}"
    return "lock:queue:" + tagged, "lock:timeout:" + tagged


QUEUE, ENDS = side_keys()


# Making one


def hold(server, owner=HOLDER, key=KEY, db=0):
    """`owner` acquires the lock; returns its actor."""
    actor = server.actor(owner, db=db)
    assert actor.call("LOCK.ACQUIRE", key, owner, "PX", HOUR) == 1
    return actor


def ask(server, owner, *options, key=KEY, db=0, command="LOCK.FAIR"):
    """A new connection on which `owner` sends a request and blocks; BLOCK 0 unless options are given."""
    actor = server.actor(owner, db=db)
    actor.send(command, key, owner, "PX", HOUR, *(options or ("BLOCK", 0)))
    return actor.wait_blocked()


def ask_all(server, *owners, **more):
    return [ask(server, owner, **more) for owner in owners]


def release(server, owner, key=KEY):
    assert server.control.execute_command("LOCK.RELEASE", key, owner) == 0


# Memory


def info(server, key=KEY, db=0):
    """LOCK.INFO as a dict, with its holders and waiters; if the lock is free and has no waiters, these are empty."""
    control = server.control if db == 0 else server.client(db=db)
    found = dict(as_map(control.execute_command("LOCK.INFO", key, "COUNT", 100_000)))
    found["waiters"] = [as_map(waiter) for waiter in found.get("waiters", [])]
    found["holders"] = [as_map(holder) for holder in found.get("holders", [])]
    return found


def waiters(server, key=KEY, db=0):
    return info(server, key, db)["waiters"]


def order(server, key=KEY):
    """The owners in the queue, head first."""
    return [waiter["owner"] for waiter in waiters(server, key)]


def detached(server, key=KEY):
    """The owners of which only the position is left, head first."""
    return [waiter["owner"] for waiter in waiters(server, key) if waiter["client"] is None]


def holder(server, key=KEY):
    """The owner that holds the lock, or None."""
    return next(iter(server.control.hgetall(key)), None)


# Ends of clients


def wait_detached(server, *owners, key=KEY):
    wait_for(lambda: set(owners) <= set(detached(server, key)), what=f"{owners} to be detached")


def lose(server, *actors, key=KEY):
    """Their connections are reset; returns when only their positions are left, and the keys have been written."""
    for actor in actors:
        actor.kill_socket()
    wait_detached(server, *(actor.name for actor in actors), key=key)
    wait_for(lambda: written_is_right(server, key), what="the positions to be written")


def granted_ms(server, key=KEY):
    """When the lock was granted to its holder, if all leases are HOUR: computed from the end of the lease."""
    return server.control.execute_command("PEXPIRETIME", key) - HOUR


# Keys


# In one step: a position may be removed at any moment. By a script, because a server that is out of memory refuses the
# commands in MULTI.
READ_BOTH = """#!lua flags=no-writes,allow-oom
return {redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')}
"""


def pairs(flat):
    """The reply to ZRANGE WITHSCORES inside a script, in the form of redis-py: [(member, score)]."""
    return [(member, float(score)) for member, score in zip(flat[::2], flat[1::2], strict=True)]


def written(server, key=KEY, db=0):
    """The contents of the keys: [(owner, ticket, end)], the lowest ticket first; end may be math.inf."""
    control = server.control if db == 0 else server.client(db=db)
    queue, ends = side_keys(key)
    tickets, deadlines = (pairs(flat) for flat in control.eval(READ_BOTH, 2, queue, ends))
    by_owner = dict(deadlines)
    owners = sorted(owner for owner, _ in tickets)
    assert owners == sorted(by_owner), f"{queue} has {owners}, {ends} has {sorted(by_owner)}"
    return [(owner, ticket, by_owner[owner]) for owner, ticket in tickets]


def written_is_right(server, key=KEY, restarted=False, db=0, known=None):
    """Whether the keys agree with memory, tickets grow and both keys expire late enough.

    After a restart the keys still have the deadlines of the owners that have not returned, not their reserves. Raises
    AssertionError if something is wrong, for use with wait_for: the drain writes a moment later. `known` are the
    waiters, if the caller has just read them.
    """
    fair = [waiter for waiter in known or waiters(server, key, db) if waiter["fair"]]
    now, positions = server.now_ms(), written(server, key, db)
    in_keys, in_memory = [owner for owner, _, _ in positions], [waiter["owner"] for waiter in fair]
    assert in_keys == in_memory, f"in the keys are {in_keys}, in memory {in_memory}"
    tickets = [ticket for _, ticket, _ in positions]
    assert len(set(tickets)) == len(tickets), f"equal tickets: {positions}"
    for waiter, (_, _, end) in zip(fair, positions, strict=True):
        left = math.inf if waiter["left"] is None else waiter["left"]
        not_returned = restarted and waiter["client"] is None
        right = not_returned or left == end == math.inf or abs(now + left - end) < scaled(1000)
        assert right, f"the position of {waiter['owner']} ends at {end}, in memory in {left} ms, now it is {now}"
    assert_expire_late_enough(server, key, db, [end for _, _, end in positions])
    return True


def assert_expire_late_enough(server, key, db, ends):
    """Both keys have a TTL, which is later than each known end; without positions the keys do not exist."""
    control = server.control if db == 0 else server.client(db=db)
    expiries = [control.execute_command("PEXPIRETIME", name) for name in side_keys(key)]
    if not ends:
        assert expiries == [-2, -2], f"there are keys that expire at {expiries}"
        return
    latest = max([end for end in ends if end != math.inf], default=server.now_ms())
    assert min(expiries) > latest, f"the keys expire at {expiries}, a position ends at {latest}"


def assert_written(server, key=KEY):
    assert written_is_right(server, key)


# Cleaning up


def nothing_left(server):
    """Whether the module has nothing in memory and no lock has a side key. For use with wait_for."""
    module = server.info("lock")
    in_memory = module["lock_waiters"], module["lock_contended_locks"]
    assert in_memory == (0, 0), f"waiters and contended locks in memory: {in_memory}"
    keys = [key for key in server.dump() if key[1].startswith(b"lock:")]
    assert keys == [], f"keys: {keys}"
    return True


def wait_nothing_left(server):
    wait_for(lambda: nothing_left(server), what="the last position to leave no trace")


def end_all_positions(server):
    """Closes all clients and cancels the positions that are reserved for them."""
    control = server.control
    control.execute_command("CLIENT", "UNPAUSE")
    for name, value in WRITABLE.items():
        control.config_set(name, value)
    server.disconnect_clients()
    control.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    if server.info("replication")["role"] != "master":
        return  # a replica has no positions in memory
    wait_for(lambda: server.info("lock")["lock_waiters"] == 0, what="all waits to end with their clients")
    for db in DATABASES:
        _cancel_all(server.client(db=db))
    wait_for(lambda: server.info("lock")["lock_contended_locks"] == 0, what="all positions to be cancelled")


def _cancel_all(client):
    names = {KEY, "l"} | {re.sub(r"^lock:\w+:", "", name) for name in client.scan_iter("lock:*")}
    for key in names | {name.strip("{}") for name in names}:
        if client.type(key) not in ("hash", "none"):
            client.delete(key)
        found = as_map(client.execute_command("LOCK.INFO", key, "COUNT", 100_000))
        for waiter in map(as_map, found.get("waiters", [])):
            client.execute_command("LOCK.CANCEL", key, waiter["owner"])
