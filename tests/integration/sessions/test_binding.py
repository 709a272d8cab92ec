"""SESSION: a hold lasts as long as the connection to which it is bound. Here is what binds it, and to which one."""

import pytest
from redis.exceptions import ResponseError

from harness import code_of, wait_for
from model.lock_scene import HOUR
from model.session_scene import COMMANDS, LONG, each_command, grace_passes, holders, server, session  # noqa: F401
from model.session_scene import sessions, wait_free  # noqa: F401


@each_command
def test_session_binds_the_hold_to_its_connection(server, actor, resp, command):
    a = actor()
    assert a.call(command, "k", "o", "SESSION") == 1
    assert session(server) == a.client_id
    assert 25_000 < a.call("PTTL", "k") <= 30_000
    assert a.call("DBSIZE") == 1


@each_command
def test_option_may_be_anywhere_and_in_any_case(server, actor, command):
    a = actor()
    assert a.call(command, "k1", "o", "session", "BLOCK", 0) == 1
    assert a.call(command, "k2", "o", "BLOCK", 0, "SeSSion") == 1
    assert session(server, "k1") == session(server, "k2") == a.client_id


@pytest.mark.parametrize("command", ["LOCK.ACQUIRE", "LOCK.FAIR", "LOCK.RWWRITE"])
def test_session_works_together_with_fenced(server, actor, command):
    a = actor()
    token = a.call(command, "k", "o", "FENCED", "SESSION")
    assert token > 10**15
    assert a.call(command, "k", "o", "SESSION", "FENCED") == token
    a.kill_socket()
    wait_free(server)
    assert actor().call(command, "k", "p", "FENCED") > token


def test_hold_without_session_is_not_bound(server, actor):
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "PX", HOUR)
    assert session(server) is None
    a.kill_socket()
    wait_for(lambda: not a.is_connected(), what="the connection to end")
    grace_passes(server)
    assert holders(server) == {("o", "exclusive"): (1, None)}


SYNTAX = (
    "LOCK.ACQUIRE k o SESSION PX 1000", "LOCK.ACQUIRE k o PX 1000 SESSION", "LOCK.FAIR k o EX 10 BLOCK 0 SESSION",
    "LOCK.FAIR k o SESSION BLOCK 0 EX 10", "LOCK.RWREAD k o SESSION PX 1", "LOCK.RWWRITE k o EX 1 SESSION",
    "LOCK.ACQUIRE k o SESSION SESSION", "LOCK.RWREAD k o session BLOCK 0 SESSION", "LOCK.RENEW h o SESSION PX 1000",
    "LOCK.RENEW h o EX 10 SESSION", "LOCK.RENEW h o SESSION SESSION", "LOCK.RELEASE h o SESSION",
    "LOCK.ACQUIRE k o SESSION 1", "LOCK.CANCEL h o SESSION", "LOCK.RENEW h o SESSION BLOCK 0",
)  # fmt: skip


@pytest.mark.parametrize("command", SYNTAX)
def test_bad_syntax_is_refused(client, server, command):
    client.execute_command("LOCK.ACQUIRE", "h", "o", "PX", LONG)
    before = server.dump()
    with pytest.raises(ResponseError, match="^ERR "):
        client.execute_command(*command.split())
    assert server.dump() == before
    assert session(server, "h") is None


@each_command
def test_reentry_without_session_keeps_the_binding(server, actor, command):
    """Also on another connection, and with a lease."""
    a, b = actor(), actor()
    a.call(command, "k", "o", "SESSION")
    assert a.call(command, "k", "o") == 2
    assert b.call(command, "k", "o", "PX", LONG) == 3
    assert session(server) == a.client_id
    a.kill_socket()
    wait_free(server)


@each_command
def test_reentry_with_session_binds_all_holds(server, actor, command):
    a, b = actor(), actor()
    a.call(command, "k", "o", "PX", LONG)
    assert b.call(command, "k", "o", "SESSION") == 2
    assert session(server) == b.client_id
    b.kill_socket()
    wait_free(server)


def test_acquisition_that_fails_binds_nothing(server, actor):
    a, b = actor(), actor()
    a.call("LOCK.ACQUIRE", "k", "o", "PX", LONG)
    assert b.call("LOCK.ACQUIRE", "k", "p", "SESSION") is None
    assert b.call("LOCK.ACQUIRE", "k", "p", "SESSION", "BLOCK", 1) is None
    for owner in ("p", "nobody"):
        assert code_of(b.attempt("LOCK.RENEW", "k", owner, "SESSION")) == "NOTHELD"
    assert session(server) is None
    assert a.call("LOCK.RELEASE", "k", "o") == 0
    a.call("LOCK.ACQUIRE", "k", "p", "PX", LONG)
    b.kill_socket()
    grace_passes(server)
    assert holders(server) == {("p", "exclusive"): (1, None)}


def test_last_release_ends_the_binding(make_server):
    server = make_server()
    a = server.actor()
    for command in COMMANDS:
        a.call(command, "k", "o", "SESSION")
        a.call(command, "k", "o", "SESSION")
        for left in (1, 0):
            assert sessions(server) == 1
            assert a.call("LOCK.RELEASE", "k", "o") == left
        assert sessions(server) == 0


def test_request_that_is_not_granted_binds_nothing(make_server):
    server = make_server()
    a, b = server.actor(), server.actor()
    b.call("LOCK.ACQUIRE", "k", "p", "PX", LONG)
    for words in ("LOCK.RENEW k o SESSION", "LOCK.RENEW free o SESSION", "LOCK.ACQUIRE k o SESSION"):
        a.attempt(*words.split())
    assert sessions(server) == 0


def test_release_of_one_mode_keeps_the_other_bound(server, actor):
    a = actor()
    a.call("LOCK.RWWRITE", "k", "o", "SESSION")
    a.call("LOCK.RWREAD", "k", "o", "SESSION")
    assert a.call("LOCK.RELEASE", "k", "o", "WRITE") == 0
    assert session(server) == a.client_id
    a.kill_socket()
    wait_free(server)
