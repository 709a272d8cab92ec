"""The hold of a session ended in another way: the later state of the lock is not changed."""

import pytest

from harness import wait_for
from model.session_scene import GRACE, LEASE, LONG, grace_passes, holders, leases_pass, session, sessions, wait_free
from model.session_scene import wait_noticed
from model.session_scene import server, short_leases  # noqa: F401

LOSSES = {
    "release": "LOCK.RELEASE k o",
    "force": "LOCK.FORCE k",
    "DEL": "DEL k",
    "lease end": "PEXPIREAT k 1",
    "RENAME": "RENAME k l",
    "FLUSHALL": "FLUSHALL",
    "FLUSHDB": "FLUSHDB",
    "overwritten": "SET k x",
    "field lost": "HDEL k o",
}
each_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def test_binding_without_a_hold_is_forgotten(make_server):
    server = make_server(lock_default_lease=LEASE)
    a = server.actor()
    for loss in LOSSES.values():
        a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
        server.control.execute_command(*loss.split())
        wait_for(lambda: sessions(server) == 0, what=f"the binding to be forgotten after {loss}")
        server.control.flushall()


@each_loss
def test_lock_of_another_owner_after_a_loss_is_not_changed(server, actor, short_leases, loss):
    """The connection stays open for a while, and then closes."""
    a, b = actor(), actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    b.call(*loss.split())
    b.call("DEL", "k")
    b.call("LOCK.ACQUIRE", "k", "p", "PX", LONG)
    leases_pass(server, 2)
    a.kill_socket()
    grace_passes(server)
    assert holders(server) == {("p", "exclusive"): (1, None)}
    assert b.call("PTTL", "k") > LONG - 60_000


@each_loss
def test_lock_of_another_owner_after_a_loss_in_the_grace_is_not_changed(server, actor, loss):
    server.control.config_set("lock.session-grace", 15 * GRACE)
    a, b = actor(), actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    a.kill_socket()
    wait_noticed(server)
    b.call(*loss.split())
    b.call("DEL", "k")
    b.call("LOCK.ACQUIRE", "k", "p", "PX", LONG)
    server.let_pass(17 * GRACE)
    assert holders(server) == {("p", "exclusive"): (1, None)}


@pytest.mark.parametrize("loss", ["LOCK.RELEASE k o", "LOCK.FORCE k", "DEL k", "PEXPIREAT k 1", "FLUSHALL"])
def test_new_hold_of_the_same_owner_is_not_bound(server, actor, loss):
    """It is acquired with a lease, on another connection, after the first hold has ended."""
    a, b = actor(), actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    b.call(*loss.split())
    assert b.call("LOCK.ACQUIRE", "k", "o", "PX", LONG) == 1
    a.kill_socket()
    wait_for(lambda: not a.is_connected(), what="the connection to end")
    grace_passes(server)
    assert holders(server) == {("o", "exclusive"): (1, None)}


def test_only_bound_holds_of_an_owner_are_released(server, actor):
    a, b = actor(), actor(db=3)
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    a.call("LOCK.ACQUIRE", "l", "o", "SESSION")
    b.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    a.call("LOCK.RENEW", "l", "o", "PX", LONG)
    a.kill_socket()
    wait_free(server)
    grace_passes(server)
    assert server.control.hgetall("l") == {"o": "1"}
    assert session(server, db=3) == b.client_id


def test_key_and_owner_names_with_equal_concatenation_are_distinguished(server, actor):
    a, b = actor(), actor()
    a.call("LOCK.ACQUIRE", "kk", "o", "SESSION")
    b.call("LOCK.ACQUIRE", "k", "ko", "SESSION")
    a.kill_socket()
    wait_free(server, "kk")
    assert session(server) == b.client_id
