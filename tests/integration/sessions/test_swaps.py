"""SWAPDB moves holds to the other database, and their session bindings with them."""

import pytest

from harness import wait_for
from model.session_scene import LONG, each_command, holders, leases_pass, session, sessions
from model.session_scene import server, short_leases  # noqa: F401


@pytest.fixture
def swap(server):
    return lambda: server.control.execute_command("SWAPDB", 0, 7)


def is_free(server, db):
    return wait_for(lambda: not holders(server, db=db), what="the lock to be free")


@each_command
def test_hold_is_renewed_and_released_in_its_new_database(server, actor, short_leases, swap, command):
    a = actor()
    assert a.call(command, "k", "o", "SESSION") == 1
    swap()
    assert session(server, db=7) == a.client_id
    leases_pass(server, 2)
    assert session(server, db=7) == a.client_id
    a.kill_socket()
    is_free(server, 7)
    wait_for(lambda: sessions(server) == 0, what="the binding to be removed")


def test_hold_that_the_swap_brings_is_not_bound(server, actor, swap):
    """The same name and owner in both databases are two holds."""
    a = actor()
    server.client(db=7).execute_command("LOCK.ACQUIRE", "k", "o", "PX", LONG)
    assert a.call("LOCK.ACQUIRE", "k", "o", "SESSION") == 1
    swap()
    assert (session(server), session(server, db=7)) == (None, a.client_id)
    a.kill_socket()
    is_free(server, 7)
    assert holders(server) == {("o", "exclusive"): (1, None)}


def test_two_sessions_are_swapped(server, actor, swap):
    a, b = actor(), actor(db=7)
    for one in (a, b):
        assert one.call("LOCK.ACQUIRE", "k", "o", "SESSION") == 1
    swap()
    assert (session(server), session(server, db=7)) == (b.client_id, a.client_id)
    a.kill_socket()
    is_free(server, 7)
    assert session(server) == b.client_id


def test_session_in_its_grace_is_released_after_a_swap(server, actor, swap):
    """Its grace has already begun."""
    a = actor()
    assert a.call("LOCK.ACQUIRE", "k", "o", "SESSION") == 1
    server.control.execute_command("CLIENT", "KILL", "ID", a.client_id)
    swap()
    is_free(server, 7)


def test_session_stays_bound_after_two_swaps(server, actor, swap):
    a = actor()
    assert a.call("LOCK.ACQUIRE", "k", "o", "SESSION") == 1
    swap()
    swap()
    assert session(server) == a.client_id
    a.kill_socket()
    is_free(server, 0)
