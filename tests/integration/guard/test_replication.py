"""Replicas and the AOF receive the inner command of LOCK.GUARD, in its database."""

import pytest
from redis.exceptions import ResponseError

from harness import wait_for_sync
from harness.aof import aof_of, commands_in
from model.guard_scene import guard, hold
from model.lock_scene import HOUR


def test_inner_command_reaches_replicas_and_the_aof(make_server):
    server = make_server(appendonly="yes", aof_use_rdb_preamble="no")
    replica = server.start_replica()
    hold(server, "LOCK.ACQUIRE k o PX 600000")
    client = server.client()
    guard(client, "SET", "x", "1")
    guard(client, "SET", "y", "1", "PX", HOUR)
    guard(client, "SPOP", "none")
    guard(client, "GET", "x")
    guard(client, "MSET", "a", 1, "b", 2)
    guard(client, "XADD", "s", "*", "f", "v")
    with pytest.raises(ResponseError):
        guard(client, "SET", "x", "2", owner="p")
    with pytest.raises(ResponseError):
        guard(client, "LPUSH", "x", "2")
    wait_for_sync(server, replica)
    before = server.dump()
    assert replica.dump() == before
    written = commands_in(aof_of(server))
    names = [words[0].upper() for words in written]
    assert not [name for name in names if name.startswith("LOCK.")]
    assert names.count("SET") == 2 and ["SET", "x", "1"] in written and ["MSET", "a", "1", "b", "2"] in written
    assert {"GET", "LPUSH", "SPOP"}.isdisjoint(names)
    server.kill()
    server.start()
    assert server.dump() == before


def test_commands_that_would_block_reach_replicas_and_the_aof(make_server):
    """Redis 7.0 does not allow them in scripts; there the module runs them in another way."""
    server = make_server(appendonly="yes")
    replica = server.start_replica()
    hold(server)
    client = server.client()
    client.rpush("l", *"abcd")
    client.zadd("z", {"a": 1, "b": 2})
    assert guard(client, "BLPOP", "l", 0) == ["l", "a"]
    assert guard(client, "BLMOVE", "l", "m", "LEFT", "LEFT", 0) == "b"
    assert guard(client, "BZPOPMIN", "z", 0)[1] == "a"
    wait_for_sync(server, replica)
    before = server.dump()
    assert replica.dump() == before
    assert client.lrange("l", 0, -1) == ["c", "d"]
    server.kill()
    server.start()
    assert server.dump() == before


def test_random_effects_are_the_same_on_the_replica(server):
    replica = server.start_replica()
    hold(server)
    client = server.client()
    client.sadd("st", *range(100))
    popped = {guard(client, "SPOP", "st") for _ in range(50)}
    client.rpush("l", "a")
    guard(client, "EXPIRE", "l", 1000)
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump()
    assert popped.isdisjoint(client.smembers("st"))


def test_command_runs_and_is_replicated_in_the_selected_database(server, resp):
    hold(server, "LOCK.ACQUIRE k o PX 600000", db=5)
    client = server.client(resp, db=5)
    assert guard(client, "SET", "x", "5") in ("OK", True)
    with pytest.raises(ResponseError, match="^NOTHELD "):
        guard(server.client(resp), "SET", "x", "0")
    assert {key for key in server.dump()} == {(5, b"k"), (5, b"x")}
    replica = server.start_replica()
    guard(client, "SET", "x", "6")
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump()


def test_select_inside_does_not_change_the_connection(server, actor):
    """As in a call of any module; whether SELECT is allowed there at all depends on the server."""
    hold(server)
    client = actor()
    client.attempt("LOCK.GUARD", "k", "o", "SELECT", 3)
    assert client.call("LOCK.GUARD", "k", "o", "SET", "x", "1") == "OK"
    assert (0, b"x") in server.dump()
