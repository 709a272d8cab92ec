"""A client that removes the last owner of a read-write lock directly leaves a hash with only `mode`: it is free."""

import pytest
from redis.exceptions import ResponseError

from harness import wait_for_sync
from harness.schedule import as_map

LONG = 600_000
REQUESTS = {
    "ACQUIRE": "LOCK.ACQUIRE k b",
    "FENCED": "LOCK.ACQUIRE k b FENCED",
    "FAIR": "LOCK.FAIR k b",
    "RWREAD": "LOCK.RWREAD k b",
    "RWWRITE": "LOCK.RWWRITE k b",
    "MACQUIRE": "LOCK.MACQUIRE 2 l k b",
}
each_take = pytest.mark.parametrize("take", REQUESTS.values(), ids=REQUESTS)
each_mode = pytest.mark.parametrize("mode", ["read", "write"])
FIELDS = {"read": "a", "write": "a:write"}
READS, WRITES = {"mode": "read", "b": "1"}, {"mode": "write", "b:write": "1"}


@pytest.fixture
def say(server):
    return lambda text: server.control.execute_command(*text.split())


def leave_only_mode(say, mode):
    """Leaves the lock of a without a."""
    assert say(f"LOCK.RW{mode.upper()} k a PX {LONG}") == 1
    assert say(f"HDEL k {FIELDS[mode]}") == 1
    assert say("HGETALL k") == {"mode": mode}


def is_held_and_released_completely(say, take):
    """b holds the lock; when b has released it, nothing is left."""
    names = ["k", "l"] if "MACQUIRE" in take else ["k"]
    expected = READS if "RWREAD" in take else WRITES if "RWWRITE" in take else {"b": "1"}
    assert say("EXISTS lock:lease:{k}") == 0  # the lease of an only hold is the TTL of the key
    for name in names:
        assert say(f"HGETALL {name}") == expected
        (held,) = as_map(say(f"LOCK.INFO {name}"))["holders"]
        assert as_map(held)["owner"] == "b" and as_map(held)["holds"] == 1
        assert say(f"LOCK.RELEASE {name} b") == 0
    say("DEL lock:token:{k}")
    assert say("DBSIZE") == 0
    return True


@each_mode
@each_take
def test_lock_with_only_a_mode_is_granted(server, say, take, mode):
    replica = server.start_replica()
    leave_only_mode(say, mode)
    assert say(take) not in (None, 0)
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump()
    assert is_held_and_released_completely(say, take)


@each_mode
@each_take
def test_removal_of_the_last_owner_grants_the_waiter(server, say, actor, take, mode):
    replica = server.start_replica()
    say(f"LOCK.RW{mode.upper()} k a PX {LONG}")
    writer = actor()
    # A reader would not wait for a reader.
    take = "LOCK.RWWRITE k b" if mode == "read" and "RWREAD" in take else take
    writer.send(*take.split(), "BLOCK", 0)
    writer.wait_blocked()
    say(f"HDEL k {FIELDS[mode]}")
    assert writer.reply() not in (None, 0)
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump()
    assert is_held_and_released_completely(say, take)


@each_mode
def test_lock_with_only_a_mode_has_no_holder(server, say, mode):
    replica = server.start_replica()
    leave_only_mode(say, mode)
    wait_for_sync(server, replica)
    assert say("LOCK.INFO k") is None
    assert replica.control.execute_command("LOCK.INFO", "k") is None
    assert replica.dump() == server.dump() != {}  # LOCK.INFO changes nothing
    for refused in ("LOCK.RELEASE k a", "LOCK.RENEW k a", "LOCK.GUARD k a PING", "LOCK.RELEASE k b"):
        with pytest.raises(ResponseError, match="^NOTHELD "):
            say(refused)
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump()


@each_mode
def test_force_of_a_lock_with_only_a_mode_replies_0(server, say, mode):
    replica = server.start_replica()
    leave_only_mode(say, mode)
    assert say("LOCK.FORCE k") == 0
    assert say("DBSIZE") == 0
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump() == {}


def test_lock_with_only_an_unknown_mode_is_not_free(say):
    say("HSET k mode other")
    assert say("LOCK.ACQUIRE k b") is None
    assert as_map(say("LOCK.INFO k"))["mode"] == "exclusive"
    assert say("LOCK.FORCE k") == 1


def test_multikey_waiter_is_granted_a_lock_with_only_a_mode(server, say, actor):
    """The head of the queue is checked when the lock has become free, whatever kind of waiter it is."""
    say(f"LOCK.RWWRITE k a PX {LONG}")
    say(f"LOCK.ACQUIRE l a PX {LONG}")
    multikey = actor()
    multikey.send("LOCK.MACQUIRE", 2, "l", "k", "b", "BLOCK", 0)
    multikey.wait_blocked()
    say("HDEL k a:write")
    assert say("LOCK.RELEASE l a") == 0
    assert multikey.reply() == 2
    assert is_held_and_released_completely(say, "LOCK.MACQUIRE")
