"""LOCK.GUARD runs a command for an owner that holds the lock, and for no other owner."""

import pytest
from redis.exceptions import ResponseError

from harness import scaled_ms, wait_for
from model.guard_scene import guard, hold, say
from model.lock_scene import HOUR
from model.mutations import in_multi

LEASE = scaled_ms(60)

HOLDS = {
    "plain": ("LOCK.ACQUIRE k o",),
    "fair": ("LOCK.FAIR k o",),
    "read": ("LOCK.RWREAD k o",),
    "one of two readers": ("LOCK.RWREAD k p", "LOCK.RWREAD k o"),
    "write": ("LOCK.RWWRITE k o",),
    "write and read": ("LOCK.RWWRITE k o", "LOCK.RWREAD k o"),
    "downgraded": ("LOCK.RWWRITE k o", "LOCK.RWREAD k o", "LOCK.RELEASE k o WRITE"),
    "one of two left": ("LOCK.ACQUIRE k o", "LOCK.ACQUIRE k o", "LOCK.RELEASE k o"),
    "fenced": ("LOCK.ACQUIRE k o FENCED",),
    "written directly": ("HSET k o 1",),
    "renewed": ("LOCK.ACQUIRE k o", "LOCK.RENEW k o PX 600000"),
}

NO_HOLDS = {
    "free": (),
    "another's": ("LOCK.ACQUIRE k p",),
    "another's fair": ("LOCK.FAIR k p",),
    "another's read": ("LOCK.RWREAD k p",),
    "another's write": ("LOCK.RWWRITE k p",),
    "released": ("LOCK.ACQUIRE k o", "LOCK.RELEASE k o"),
    "read released, another reads": ("LOCK.RWREAD k o", "LOCK.RWREAD k p", "LOCK.RELEASE k o"),
    "forced": ("LOCK.ACQUIRE k o", "LOCK.FORCE k"),
    "deleted": ("LOCK.ACQUIRE k o", "DEL k"),
    "renamed": ("LOCK.ACQUIRE k o", "RENAME k l"),
    "flushed": ("LOCK.ACQUIRE k o", "FLUSHALL"),
    "forced, then another's": ("LOCK.ACQUIRE k o", "LOCK.FORCE k", "LOCK.ACQUIRE k p"),
    "foreign hash": ("HSET k mode read x y",),
    "foreign hash with the owner in it": ("HSET k o 1 x y z 1",),
    "only its token is left": ("LOCK.ACQUIRE k o FENCED", "DEL k"),
}


@pytest.mark.parametrize("commands", HOLDS.values(), ids=HOLDS)
def test_runs_for_a_holder(some_client, commands):
    say(some_client, *commands)
    assert guard(some_client, "SET", "x", "1") in ("OK", True)
    assert guard(some_client, "INCR", "x") == 2
    assert some_client.get("x") == "2"


@pytest.mark.parametrize("commands", NO_HOLDS.values(), ids=NO_HOLDS)
def test_runs_nothing_for_an_owner_without_a_hold(some_client, server, commands):
    say(some_client, *commands)
    before = server.dump()
    for inner in (("SET", "x", "1"), ("GET", "x"), ("NO.SUCH",), ("LOCK.ACQUIRE", "k", "o"), ("FLUSHALL",)):
        with pytest.raises(ResponseError, match="^NOTHELD "):
            guard(some_client, *inner)
    assert server.dump() == before


def test_runs_nothing_when_the_lease_has_expired(server, client):
    # The key has not been deleted yet: the command itself must compare the lease with the clock.
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    client.execute_command("LOCK.ACQUIRE", "k", "o", "PX", HOUR)
    assert guard(client, "SET", "x", "1")
    client.execute_command("LOCK.RENEW", "k", "o", "PX", LEASE)
    end = client.execute_command("PEXPIRETIME", "k")
    wait_for(lambda: server.now_ms() > end, what="the lease to expire")
    with pytest.raises(ResponseError, match="^NOTHELD "):
        guard(client, "SET", "x", "2")
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 1)
    assert client.get("x") == "1"


@pytest.mark.parametrize("mode", ["LOCK.RWREAD", "LOCK.RWWRITE"])
def test_runs_nothing_when_own_lease_has_expired_and_the_key_exists(server, client, mode):
    """A reader has its own lease, shorter than the TTL of the key; a write hold expires, its owner's read remains."""
    client.execute_command("LOCK.RWREAD", "k", "p", "PX", HOUR)
    client.execute_command("LOCK.RWREAD", "k", "o", "PX", HOUR)
    guard(client, "SET", "x", "1")
    client.execute_command("LOCK.RENEW", "k", "o", "PX", LEASE)
    end = server.now_ms() + LEASE
    wait_for(lambda: server.now_ms() > end, what="the lease to expire")
    with pytest.raises(ResponseError, match="^NOTHELD "):
        guard(client, "SET", "x", "2")
    assert guard(client, "GET", "x", owner="p") == "1"


def test_granted_waiter_may_use_the_guard_and_previous_owner_may_not(server, client, actor):
    client.execute_command("LOCK.ACQUIRE", "k", "o", "PX", LEASE)
    waiter = actor("w")
    waiter.send("LOCK.ACQUIRE", "k", "w", "BLOCK", 0)
    assert waiter.reply() == 1
    assert waiter.call("LOCK.GUARD", "k", "w", "SET", "x", "w") == "OK"
    with pytest.raises(ResponseError, match="^NOTHELD "):
        guard(client, "SET", "x", "o")
    assert client.get("x") == "w"


def test_runs_nothing_for_an_owner_that_waits(client, actor):
    client.execute_command("LOCK.ACQUIRE", "k", "p")
    waiter = actor()
    waiter.send("LOCK.FAIR", "k", "o", "BLOCK", 0)
    waiter.wait_blocked()
    with pytest.raises(ResponseError, match="^NOTHELD "):
        guard(client, "SET", "x", "1")


@pytest.mark.parametrize("other", ["SET k x", "RPUSH k x", "ZADD k 1 o"])
def test_key_that_is_no_lock_is_wrongtype(client, server, other):
    client.execute_command(*other.split())
    before = server.dump()
    with pytest.raises(ResponseError, match="^WRONGTYPE "):
        guard(client, "SET", "x", "1")
    assert server.dump() == before


FOREIGN = [["mode", "read", "o", "junk"], ["o", "junk"], ["o", 1, "p", 1], ["o", 0], ["o", 2**31]]


@pytest.mark.parametrize("fields", FOREIGN, ids=str)
def test_runs_nothing_where_the_hold_cannot_be_read(client, server, fields):
    client.execute_command("HSET", "k", *fields)
    before = server.dump()
    with pytest.raises(ResponseError, match="^NOTHELD "):
        guard(client, "SET", "x", "1")
    assert server.dump() == before


@pytest.mark.parametrize("junk", ["o", "o:write"])
def test_runs_where_one_of_its_two_holds_can_be_read(client, junk):
    client.execute_command("HSET", "k", "mode", "write", "o", 1, "o:write", 1)
    client.execute_command("HSET", "k", junk, "junk")
    assert guard(client, "SET", "x", "1")


def test_lease_and_hold_count_and_watched_key_are_unchanged(client, server, actor):
    hold(server)
    watcher = actor()
    watcher.call("WATCH", "k")
    before = server.dump()
    guard(client, "GET", "x")
    guard(client, "HGETALL", "k")
    assert server.dump() == before
    assert in_multi(watcher, "ECHO done") == ["done"]


SYNTAX = {
    "no arguments": "LOCK.GUARD",
    "no owner": "LOCK.GUARD k",
    "no command": "LOCK.GUARD k o",
    "reserved owner": "LOCK.GUARD k mode SET x 1",
    "reserved ending": "LOCK.GUARD k o:write SET x 1",
    "owner too long": f"LOCK.GUARD k {'o' * 513} SET x 1",
}


@pytest.mark.parametrize("command", SYNTAX.values(), ids=SYNTAX)
def test_bad_syntax_is_refused(client, server, command):
    hold(server, "LOCK.RWWRITE k o")
    before = server.dump()
    with pytest.raises(ResponseError, match="^ERR "):
        client.execute_command(*command.split())
    assert server.dump() == before


def test_binary_names_and_arguments_work(server):
    client = server.client(decode_responses=False)
    key, owner, value = b"\x00k\r\n\xff", b"o\x00\xfe", bytes(range(256))
    client.execute_command("LOCK.ACQUIRE", key, owner)
    assert client.execute_command("LOCK.GUARD", key, owner, "SET", b"x\x00", value) == b"OK"
    assert client.execute_command("LOCK.GUARD", key, owner, "GET", b"x\x00") == value
    assert client.get(b"x\x00") == value
