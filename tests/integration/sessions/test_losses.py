"""A session's hold has gone otherwise: what others made of the lock is left alone."""

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
def test_what_others_made_of_it_is_left_alone(server, actor, short_leases, loss):
    """The connection lives on for a while, and then ends."""
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
def test_what_others_made_of_it_in_the_grace_is_left_alone(server, actor, loss):
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
def test_same_owners_new_hold_is_another_one(server, actor, loss):
    """Taken with a lease, on another connection, after the first hold has gone."""
    a, b = actor(), actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    b.call(*loss.split())
    assert b.call("LOCK.ACQUIRE", "k", "o", "PX", LONG) == 1
    a.kill_socket()
    wait_for(lambda: not a.is_connected(), what="the connection to end")
    grace_passes(server)
    assert holders(server) == {("o", "exclusive"): (1, None)}


def test_owner_of_one_name_on_many_locks_and_databases(server, actor):
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


def test_names_that_join_alike_are_two(server, actor):
    a, b = actor(), actor()
    a.call("LOCK.ACQUIRE", "kk", "o", "SESSION")
    b.call("LOCK.ACQUIRE", "k", "ko", "SESSION")
    a.kill_socket()
    wait_free(server, "kk")
    assert session(server) == b.client_id
