"""LOCK.GUARD passes on refusals of the server: OOM, READONLY, NOREPLICAS; a pause delays it."""

import pytest
from redis.exceptions import ResponseError

from harness import code_of, wait_for
from model.guard_scene import guard, hold
from model.keys_scene import alone, in_script, in_transaction


def test_oom_is_passed_on(client, server):
    hold(server)
    client.set("x", "1")
    client.config_set("maxmemory", 1)
    with pytest.raises(ResponseError, match="^OOM "):
        guard(client, "SET", "x", "2")
    assert guard(client, "GET", "x") == "1"
    assert guard(client, "DEL", "x") == 1
    assert guard(client, "LOCK.RELEASE", "k", "o") == 0


@pytest.mark.parametrize("inner", ["BLMOVE l x LEFT LEFT 0", "BRPOPLPUSH l x 0"])
def test_oom_of_a_command_that_would_block_is_passed_on(client, server, inner):
    """Redis 7.0 does not allow it in scripts; there the module runs it in another way."""
    hold(server)
    client.rpush("l", "a", "b")
    client.config_set("maxmemory", 1)
    with pytest.raises(ResponseError, match="^OOM "):
        guard(client, *inner.split())
    assert client.lrange("l", 0, -1) == ["a", "b"] and not client.exists("x")
    assert guard(client, "BLPOP", "l", 0) == ["l", "a"]


OF_MEMORY = ("SET x 2", "MSET x 2 y 2", "INCR n", "LPUSH l a", "GET x", "DEL x", "EXPIRE x 100", "LOCK.ACQUIRE y o", "LOCK.RELEASE k o")


@pytest.mark.parametrize("way", [alone, in_transaction, in_script])
@pytest.mark.parametrize("inner", OF_MEMORY)
def test_without_memory_it_runs_what_runs_without_the_guard(server, actor, way, inner):
    hold(server)
    client, oracle = actor(), actor()
    client.call("SET", "x", "1")
    before = server.dump()
    server.control.config_set("maxmemory", 1)
    reply = way(client, "k", "LOCK.GUARD", "k", "o", *inner.split())
    after = server.dump()
    oracle.call("SELECT", 1)  # the same command, in another database
    refused = way(oracle, "k", *inner.split())
    is_oom = isinstance(refused, ResponseError) and code_of(refused) == "OOM"
    assert (isinstance(reply, ResponseError) and code_of(reply) == "OOM") == is_oom, reply
    assert not is_oom or after == before


def test_replica_replies_readonly(server, resp):
    hold(server)
    replica = server.start_replica()
    client = replica.client(resp)
    for inner in (("SET", "x", "1"), ("GET", "x")):
        with pytest.raises(ResponseError, match="^READONLY "):
            guard(client, *inner)
    assert replica.dump() == server.dump()


def test_noreplicas_is_passed_on(client, server):
    hold(server)
    client.config_set("min-replicas-to-write", 100)
    with pytest.raises(ResponseError, match="^NOREPLICAS "):
        guard(client, "SET", "x", "1")
    client.config_set("min-replicas-to-write", 0)
    assert client.exists("x") == 0


def test_pause_of_writes_delays_it(server, actor):
    hold(server)
    client = actor()
    server.control.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
    client.send("LOCK.GUARD", "k", "o", "SET", "x", "1")
    wait_for(lambda: server.info("clients")["blocked_clients"] == 1, what="the client to be paused")
    assert server.control.exists("x") == 0
    server.control.execute_command("CLIENT", "UNPAUSE")
    assert client.reply() == "OK"
