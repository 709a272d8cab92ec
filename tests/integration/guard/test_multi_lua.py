"""LOCK.GUARD in MULTI and in Lua."""

import pytest
from redis.exceptions import ResponseError

from harness import code_of, wait_for_sync
from model.guard_scene import hold
from model.mutations import each_way, in_multi


@each_way
def test_guarded_commands_run_in_multi_and_lua(server, resp, actor, say):
    replica = server.start_replica()
    reply = say(
        actor(), "LOCK.ACQUIRE k o PX 600000", "LOCK.GUARD k o SET x 1", "LOCK.GUARD k o INCR x",
        "LOCK.GUARD k o LOCK.RELEASE k o", "SET behind 1",
    )  # fmt: skip
    assert reply == [1, "OK", 2, 0, "OK"]
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump()
    assert server.control.mget("x", "behind") == ["2", "1"]


def test_nothing_runs_in_multi_and_lua_without_the_lock(server, resp, actor):
    [reply, rest] = in_multi(actor(), "LOCK.GUARD k o SET x 1", "ECHO rest")
    assert code_of(reply) == "NOTHELD" and rest == "rest"
    reply = actor().attempt("EVAL", "return redis.pcall('LOCK.GUARD', KEYS[1], 'o', 'SET', 'x', '1')", 1, "k")
    assert code_of(reply) == "NOTHELD"
    assert server.control.exists("x") == 0


@pytest.mark.parametrize("inner", ["MULTI", "EXEC", "DISCARD", "SUBSCRIBE c", "LOCK.GUARD k o SET x 1"])
def test_refusal_in_multi_does_not_abort_the_transaction(server, resp, actor, inner):
    hold(server)
    client = actor()
    [reply, rest] = in_multi(client, f"LOCK.GUARD k o {inner}", "SET x rest")
    assert isinstance(reply, ResponseError) and rest == "OK"
    assert client.call("PING") == "PONG"


def test_read_only_script_cannot_write_through_the_guard(server, actor):
    hold(server)
    script = "return redis.call('LOCK.GUARD', KEYS[1], 'o', 'SET', 'x', '1')"
    assert code_of(actor().attempt("EVAL_RO", script, 1, "k")) == "ERR"
    assert server.control.exists("x") == 0


def test_script_may_use_the_guard_again_after_a_refusal(server, resp, actor):
    hold(server)
    script = """
        local bad = redis.pcall('LOCK.GUARD', KEYS[1], 'o', 'LOCK.GUARD', KEYS[1], 'o', 'SET', 'x', '1')
        local good = redis.call('LOCK.GUARD', KEYS[1], 'o', 'SET', 'x', '2')
        return {bad.err and 1 or 0, good.ok}"""
    assert actor().call("EVAL", script, 1, "k") == [1, "OK"]
