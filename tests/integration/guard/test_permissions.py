"""LOCK.GUARD runs a command with the permissions of its caller."""

import pytest
from redis.exceptions import ResponseError

from model.guard_scene import guard, hold


@pytest.fixture
def as_user(server, resp):
    """as_user("+get", "~x"): a client of a user with these rules only."""

    def become(*rules):
        server.control.execute_command("ACL", "SETUSER", "u", "reset", "on", "nopass", *rules)
        return server.client(resp, username="u", password="any")

    return become


DENIED = "^NOPERM .*[Pp]ermission"


def refuses(client, *inner, key="k", text=DENIED):
    with pytest.raises(ResponseError, match=text):
        guard(client, *inner, key=key)
    return True


def test_user_without_permission_for_the_inner_command_is_refused(server, as_user):
    hold(server)
    client = as_user("+lock.guard", "+get", "~*")
    assert guard(client, "GET", "x") is None
    assert refuses(client, "SET", "x", "1")
    assert refuses(client, "set", "x", "1")
    assert refuses(client, "FLUSHALL")
    assert refuses(client, "LOCK.FORCE", "k")
    assert server.control.exists("x") == 0
    assert server.control.hgetall("k") == {"o": "1"}


def test_user_of_one_blocking_command_is_refused_the_others(server, as_user):
    """Redis 7.0 does not allow them in scripts; there the module runs them in another way, also as the caller."""
    hold(server)
    server.control.rpush("l", "a", "b")
    server.control.rpush("other", "a")
    client = as_user("+lock.guard", "+brpop", "~k", "~l")
    assert refuses(client, "BLPOP", "l", 0)
    assert refuses(client, "BLMOVE", "l", "l", "LEFT", "RIGHT", 0)
    assert refuses(client, "BRPOP", "other", 0)
    assert server.control.lrange("l", 0, -1) == ["a", "b"] and server.control.exists("other")
    assert guard(client, "BRPOP", "l", 0) == ["l", "b"]


def test_user_without_permission_for_the_guard_is_refused(server, as_user):
    hold(server)
    client = as_user("+@all", "-lock.guard", "~*")
    with pytest.raises(ResponseError, match="^NOPERM "):
        guard(client, "SET", "x", "1")
    assert client.set("x", "1")


def test_user_without_permission_for_keys_of_the_command_is_refused(server, as_user):
    hold(server)
    client = as_user("+lock.guard", "+set", "+mset", "+get", "+zunionstore", "+eval", "~k", "~mine:*")
    assert guard(client, "SET", "mine:x", "1")
    assert refuses(client, "SET", "x", "1")
    assert refuses(client, "GET", "x")
    assert refuses(client, "MSET", "mine:x", "2", "x", "2")
    assert refuses(client, "ZUNIONSTORE", "mine:z", 2, "mine:x", "x")
    assert server.control.mget("mine:x", "x") == ["1", None]


def test_user_without_permission_for_the_key_of_the_lock_is_refused(server, as_user):
    hold(server, "LOCK.ACQUIRE k o", "LOCK.ACQUIRE mine:k o")
    client = as_user("+lock.guard", "+set", "~mine:*")
    assert refuses(client, "SET", "mine:x", "1")
    assert server.control.exists("mine:x") == 0
    assert guard(client, "SET", "mine:x", "1", key="mine:k")


def test_read_permission_for_the_lock_suffices(server, as_user):
    hold(server)
    client = as_user("+lock.guard", "+set", "+get", "+del", "+lock.acquire", "%R~k", "%W~x")
    assert guard(client, "SET", "x", "1")
    assert refuses(client, "GET", "x")
    assert refuses(client, "DEL", "k")
    assert refuses(client, "LOCK.ACQUIRE", "k", "o")
    assert server.control.get("x") == "1"


def test_user_without_permission_for_the_channel_is_refused(server, as_user):
    hold(server)
    client = as_user("+lock.guard", "+publish", "~*", "resetchannels", "&mine")
    assert guard(client, "PUBLISH", "mine", "1") == 0
    assert refuses(client, "PUBLISH", "other", "1")


def test_user_of_one_subcommand_is_refused_the_others(server, as_user):
    hold(server)
    client = as_user("+lock.guard", "+object|encoding", "~*")
    server.control.set("x", "y")
    assert guard(client, "OBJECT", "ENCODING", "x") == "embstr"
    assert refuses(client, "OBJECT", "FREQ", "x")


def test_user_that_loses_a_permission_loses_it_under_the_guard(server, as_user):
    hold(server)
    client = as_user("+lock.guard", "+set", "~*")
    assert guard(client, "SET", "x", "1")
    server.control.execute_command("ACL", "SETUSER", "u", "-set")
    assert refuses(client, "SET", "x", "2")


def test_permissions_of_the_caller_are_checked_in_lua_too(server, as_user):
    hold(server)
    client = as_user("+lock.guard", "+eval", "~*")
    with pytest.raises(ResponseError, match=DENIED):
        client.eval("return redis.call('LOCK.GUARD', 'k', 'o', 'SET', 'x', '1')", 1, "k")
    assert server.control.exists("x") == 0


def test_error_text_is_that_of_later_servers(server, as_user):
    hold(server)
    client = as_user("+lock.guard", "+publish", "+object|encoding", "~k", "resetchannels", "&mine")
    assert refuses(client, "set", "k", "1", text="^NOPERM User u has no permissions to run the 'set' command$")
    assert refuses(client, "object", "freq", "k", text="^NOPERM User u has no permissions to run the 'object")
    assert refuses(client, "PUBLISH", "other", "1", text="^NOPERM No permissions to access a channel$")
