"""RESET, databases, MULTI, Lua, LOCK.GUARD: the session is that of the connection that sent the command."""

import pytest
from redis.exceptions import ResponseError

from model.mutations import in_multi
from model.session_scene import LONG, leases_pass, server, session, short_leases, wait_free  # noqa: F401


def test_reset_keeps_the_binding(server, actor, short_leases):
    a = actor(db=4)
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    assert a.call("RESET") == "RESET"
    leases_pass(server, 2)
    assert session(server, db=4) == a.client_id
    a.kill_socket()
    wait_free(server, db=4)


def test_select_and_a_name_keep_the_binding(server, actor, short_leases):
    a = actor(db=4)
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    a.call("SELECT", 2)
    a.call("CLIENT", "SETNAME", "other")
    leases_pass(server, 2)
    assert session(server, db=4) == a.client_id
    a.kill_socket()
    wait_free(server, db=4)


def test_session_in_multi_is_that_of_the_connection(server, actor, resp, short_leases):
    a = actor()
    assert in_multi(a, "LOCK.ACQUIRE k o SESSION", "LOCK.ACQUIRE k o SESSION BLOCK 0") == [1, 2]
    leases_pass(server, 2)
    assert session(server) == a.client_id
    a.kill_socket()
    wait_free(server)


INDIRECT = {
    "Lua": ("EVAL", "return redis.call('LOCK.ACQUIRE', KEYS[1], 'o', 'SESSION')", 1, "k"),
    "Lua, renew": ("EVAL", "return redis.call('LOCK.RENEW', KEYS[1], 'o', 'SESSION')", 1, "held"),
    "guard": ("LOCK.GUARD", "held", "o", "LOCK.ACQUIRE", "k", "o", "SESSION"),
    "guard, renew": ("LOCK.GUARD", "held", "o", "LOCK.RENEW", "held", "o", "SESSION"),
}


@pytest.mark.parametrize("words", INDIRECT.values(), ids=INDIRECT)
def test_session_in_lua_and_guard_is_that_of_the_caller_or_an_error(server, actor, resp, short_leases, words):
    """It is not the session of an internal client of the server, which would never end."""
    a = actor()
    a.call("LOCK.ACQUIRE", "held", "o", "PX", LONG)
    before = server.dump()
    reply = a.attempt(*words)
    if isinstance(reply, ResponseError):
        assert server.dump() == before
        assert session(server, "held") is None
        return
    key = "held" if any("RENEW" in str(word) for word in words) else "k"
    assert reply == 1
    assert session(server, key) == a.client_id
    leases_pass(server, 2)
    assert session(server, key) == a.client_id
    a.kill_socket()
    wait_free(server, key)
