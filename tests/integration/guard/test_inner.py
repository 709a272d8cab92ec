"""Which commands LOCK.GUARD runs: those that scripts may run, without blocking; commands on locks too."""

import pytest
from redis.exceptions import ResponseError

from harness import wait_for_sync
from harness.schedule import as_map
from model.guard_scene import guard, hold
from model.lock_scene import HOUR
from model.mutations import in_multi

# Commands that are not allowed in scripts

REFUSED = (
    "MULTI", "EXEC", "DISCARD", "WATCH x", "UNWATCH", "SUBSCRIBE c", "PSUBSCRIBE c", "SSUBSCRIBE c", "UNSUBSCRIBE c",
    "MONITOR", "EVAL return{1} 0", "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0", "FCALL f 0", "CLIENT ID",
    "CLIENT REPLY OFF", "CLIENT PAUSE 1000 ALL", "CLIENT KILL TYPE normal SKIPME no", "CONFIG SET maxmemory 1", "AUTH x",
    "HELLO 3", "RESET", "QUIT", "SHUTDOWN NOSAVE", "DEBUG SLEEP 0", "SYNC", "PSYNC ? -1", "REPLCONF listening-port 1",
    "SAVE", "BGSAVE", "BGREWRITEAOF", "REPLICAOF NO ONE", "FAILOVER", "ACL WHOAMI", "SCRIPT FLUSH", "FUNCTION FLUSH",
    "MIGRATE 127.0.0.1 1 x 0 1000", "ASKING", "READONLY", "CLUSTER INFO", "SLOWLOG GET",
    "WAIT 0 0", "WAIT 1 0",
)  # fmt: skip


@pytest.mark.parametrize("inner", REFUSED)
def test_command_that_is_not_allowed_in_scripts_is_refused(server, some_resp, actor, inner):
    # A script is the reference: servers differ in what they allow a script to run (CLUSTER, SLOWLOG, …).
    hold(server)
    client, other = actor(), actor()
    script = "local r = redis.pcall(unpack(ARGV)) if type(r) == 'table' and r.err then return r end return 1"
    in_script = other.attempt("EVAL", script, 0, *inner.split())
    reply = client.attempt("LOCK.GUARD", "k", "o", *inner.split())
    if isinstance(in_script, ResponseError):
        assert isinstance(reply, ResponseError), f"{inner} was run: {reply!r}"
    else:
        pytest.skip("this server allows it in a script")
    assert client.call("PING") == "PONG"
    assert client.call("LOCK.GUARD", "k", "o", "SET", "x", "1") == "OK"
    assert client.call("GET", "x") == "1"
    assert client.call("CLIENT", "ID") == client.client_id


NESTED = ("LOCK.GUARD", "lock.guard", "Lock.GuarD")


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("key", ["k", "l"])
def test_does_not_run_inside_itself(client, server, name, key):
    hold(server, "LOCK.ACQUIRE k o", "LOCK.ACQUIRE l o")
    before = server.dump()
    with pytest.raises(ResponseError, match="^ERR "):
        guard(client, name, key, "o", "SET", "x", "1")
    with pytest.raises(ResponseError):
        guard(client, name)
    assert server.dump() == before
    assert guard(client, "SET", "x", "1")


# Commands that block do what they do in MULTI

BLOCKING = (
    "BLPOP none 0", "BRPOP none 0", "BLMOVE none x LEFT LEFT 0", "BLMPOP 0 1 none LEFT", "BZPOPMIN none 0",
    "BZMPOP 0 1 none MIN", "BRPOPLPUSH none x 0", "XREAD BLOCK 0 STREAMS none $", "LOCK.ACQUIRE other me BLOCK 0",
    "LOCK.FAIR other me BLOCK 0", "LOCK.RWREAD other me BLOCK 0", "LOCK.RWWRITE other me BLOCK 100000 FENCED",
    "LOCK.ACQUIRE k me BLOCK 0", "LOCK.FAIR free me BLOCK 0", "LOCK.ACQUIRE free me BLOCK 0",
)  # fmt: skip


@pytest.mark.parametrize("inner", BLOCKING)
def test_command_that_would_block_does_what_it_does_in_multi(server, some_resp, actor, inner):
    hold(server, "LOCK.ACQUIRE k o PX 600000", "LOCK.ACQUIRE other p PX 600000")
    [in_transaction] = in_multi(actor(), inner)
    server.control.delete("free")
    client = actor()
    reply = client.attempt("LOCK.GUARD", "k", "o", *inner.split())
    assert reply == in_transaction
    assert server.blocked_clients() == 0
    assert server.info("lock")["lock_waiters"] == 0
    assert client.call("PING") == "PONG"


def test_blocking_command_that_finds_an_element_pops_it(server, some_resp, actor):
    hold(server)
    server.control.rpush("l", "a")
    assert actor().call("LOCK.GUARD", "k", "o", "BLPOP", "l", 0) == ["l", "a"]
    assert server.control.exists("l") == 0


# Commands on locks inside the guard


def test_release_of_its_own_lock_hands_it_off(server, client, actor):
    replica = server.start_replica()
    hold(server)
    one, two = actor("a"), actor("b")
    for waiter, owner in ((one, "a"), (two, "b")):
        waiter.send("LOCK.ACQUIRE", "k", owner, "PX", HOUR, "BLOCK", 0)
        waiter.wait_blocked()
    assert guard(client, "LOCK.RELEASE", "k", "o") == 0
    assert one.reply() == 1
    assert guard(client, "LOCK.FORCE", "k", owner="a") == 1
    assert two.reply() == 1
    assert guard(client, "LOCK.ACQUIRE", "k", "b", owner="b") == 2
    assert guard(client, "LOCK.RENEW", "k", "b", "PX", HOUR, owner="b") == 2
    assert guard(client, "DEL", "k", owner="b") == 1
    with pytest.raises(ResponseError, match="^NOTHELD "):
        guard(client, "SET", "x", 1, owner="b")
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump()


def test_info_and_fenced_acquire_run_inside(client, server):
    hold(server)
    found = as_map(guard(client, "LOCK.INFO", "k"))
    assert found["mode"] == "exclusive"
    assert guard(client, "LOCK.ACQUIRE", "l", "o", "FENCED") > 10**15
