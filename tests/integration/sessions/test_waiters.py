"""A waiter with SESSION is bound to its own connection when the lock is granted to it."""

from model.session_scene import LEASE, LONG, begin_to_wait, each_command, grace_passes, leases_pass, session, wait_free
from model.session_scene import server, short_leases  # noqa: F401


def test_each_waiter_that_dies_is_followed_by_the_next(server, actor):
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    waiters = [begin_to_wait(actor, f"w{n}", "SESSION") for n in range(4)]
    a.kill_socket()
    for waiter in waiters:
        assert waiter.reply() == 1
        assert session(server) == waiter.client_id
        waiter.kill_socket()
    wait_free(server)


@each_command
def test_waiter_is_bound_to_its_own_connection(server, actor, short_leases, command):
    a = actor()
    a.call("LOCK.RWWRITE" if "RW" in command else command, "k", "o", "PX", LONG)
    b = begin_to_wait(actor, "w", "SESSION", command=command)
    assert a.call("LOCK.RELEASE", "k", "o") == 0
    assert b.reply() == 1
    assert session(server) == b.client_id
    leases_pass(server, 2)
    a.kill_socket()
    grace_passes(server)
    assert session(server) == b.client_id
    b.kill_socket()
    wait_free(server)


def test_waiter_granted_by_the_lease_timer_is_bound(server, actor, short_leases):
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "PX", LONG)
    b = begin_to_wait(actor, "w", "SESSION")
    a.call("LOCK.RENEW", "k", "o", "PX", LEASE // 3)
    assert b.reply() == 1
    leases_pass(server, 2)
    assert session(server) == b.client_id


def test_waiter_without_the_option_is_not_bound(server, actor):
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    b = begin_to_wait(actor, "w")
    a.call("LOCK.RELEASE", "k", "o")
    assert b.reply() == 1
    assert session(server) is None


def test_waiter_that_has_died_is_not_granted(server, actor):
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "PX", LONG)
    b = begin_to_wait(actor, "w", "SESSION")
    c = begin_to_wait(actor, "x", "SESSION")
    b.kill_socket()
    a.call("LOCK.RELEASE", "k", "o")
    assert c.reply() == 1
    assert session(server) == c.client_id
