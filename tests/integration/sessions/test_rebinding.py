"""A hold is bound to another connection, within the grace or before it, or is unbound."""

import pytest

from harness import wait_for
from model.session_scene import GRACE, LEASE, LONG, dies_by_client_kill, dies_by_reset, each_command, grace_passes
from model.session_scene import holders, leases_pass, session, wait_free, wait_noticed
from model.session_scene import long_grace, server, short_leases  # noqa: F401


@pytest.mark.parametrize("dies", [dies_by_reset, dies_by_client_kill])
@pytest.mark.parametrize("how", ["LOCK.RENEW k o SESSION", "LOCK.ACQUIRE k o SESSION"])
@each_command
def test_hold_can_be_bound_again_within_the_grace(server, actor, long_grace, command, how, dies):
    how = how.replace("LOCK.ACQUIRE", command)
    a, b = actor(), actor()
    a.call(command, "k", "o", "SESSION")
    dies(a)
    wait_noticed(server)
    server.control.config_set("lock.session-grace", GRACE)
    assert b.call(*how.split()) == (1 if "RENEW" in how else 2)
    assert session(server) == b.client_id
    grace_passes(server)
    assert session(server) == b.client_id
    b.kill_socket()
    wait_free(server)


def test_binding_within_the_grace_cancels_the_release(server, actor):
    """The hold is not released at the end of the grace, because it is bound again."""
    server.control.config_set("lock.session-grace", 10 * GRACE)
    a, b = actor(), actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    a.kill_socket()
    wait_noticed(server)
    assert b.call("LOCK.RENEW", "k", "o", "SESSION") == 1
    server.let_pass(15 * GRACE)
    assert session(server) == b.client_id


def test_hold_can_be_bound_to_a_new_connection_while_the_old_is_open(server, actor):
    a, b = actor(), actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    assert b.call("LOCK.RENEW", "k", "o", "SESSION") == 1
    a.kill_socket()
    wait_for(lambda: not a.is_connected(), what="the old connection to close")
    grace_passes(server)
    assert session(server) == b.client_id
    b.kill_socket()
    wait_free(server)


def test_renew_binds_a_hold_that_had_a_lease(server, actor, short_leases):
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "PX", LONG)
    assert a.call("LOCK.RENEW", "k", "o", "SESSION") == 1
    assert session(server) == a.client_id
    assert a.call("PTTL", "k") <= LEASE
    leases_pass(server, 2)
    assert session(server) == a.client_id
    a.kill_socket()
    wait_free(server)


def test_renew_replies_the_hold_count_and_adds_no_hold(server, actor):
    a = actor()
    for _ in range(3):
        a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    for _ in range(3):
        assert a.call("LOCK.RENEW", "k", "o", "SESSION") == 3
    a.kill_socket()
    wait_free(server)


@pytest.mark.parametrize("option", [("PX", LEASE), ("EX", 600)])
def test_renew_with_a_lease_unbinds_the_hold(server, actor, short_leases, option):
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    assert a.call("LOCK.RENEW", "k", "o", *option) == 1
    assert session(server) is None
    if option[0] == "EX":
        a.kill_socket()
        leases_pass(server, 2)
        assert holders(server) == {("o", "exclusive"): (1, None)}
        assert server.control.pttl("k") > 500_000
    else:
        wait_free(server)
        assert a.call("PING") == "PONG"


def test_renew_with_a_lease_unbinds_the_hold_in_the_grace(server, actor, long_grace):
    a, b = actor(), actor()
    server.control.config_set("lock.session-grace", 15 * GRACE)
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    a.kill_socket()
    wait_noticed(server)
    assert b.call("LOCK.RENEW", "k", "o", "PX", LONG) == 1
    server.let_pass(17 * GRACE)
    assert holders(server) == {("o", "exclusive"): (1, None)}
