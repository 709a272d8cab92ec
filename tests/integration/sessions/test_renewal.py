"""The server renews the hold of a session while its connection is open."""

import time

import pytest

from harness import scaled_ms, wait_for
from model.lock_scene import HOUR
from model.session_scene import LEASE, begin_to_wait, each_command, holders, leases_pass, long_grace  # noqa: F401
from model.session_scene import server, session, short_leases, wait_noticed  # noqa: F401


@each_command
def test_session_is_renewed_while_the_connection_is_open(server, actor, short_leases, command):
    a = actor()
    a.call(command, "k", "o", "SESSION")
    end, least = server.now_ms() + 4 * LEASE, LEASE
    while server.now_ms() < end:
        # On another connection: that of the holder sends nothing.
        least = min(least, server.control.pttl("k"))
        time.sleep(0.005)  # checks every 5 ms, as long as the condition of the loop is true
    assert least > LEASE / 3, "renewed too late"
    [(holds, bound)] = holders(server).values()
    assert (holds, bound) == (1, a.client_id)


def test_session_is_renewed_after_a_third_of_the_lease(server, actor):
    lease = scaled_ms(1500)
    server.control.config_set("lock.default-lease", lease)
    actor().call("LOCK.ACQUIRE", "k", "o", "SESSION")
    ends = [server.control.pexpiretime("k")]

    def is_renewed():
        ends.append(server.control.pexpiretime("k"))
        return ends[-1] > ends[-2]

    wait_for(is_renewed, what="the renewal")
    left = ends[-2] - (ends[-1] - lease)
    assert lease / 2 < left < lease * 3 / 4


def test_session_is_renewed_while_the_server_is_idle(server, actor, short_leases):
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    # The test sleeps and sends nothing, so only the timer of the server can wake it.
    time.sleep(3 * LEASE / 1000)
    assert a.call("LOCK.RELEASE", "k", "o") == 0


def test_session_is_renewed_while_a_client_waits_and_the_holder_blocks(server, actor, short_leases):
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    b = begin_to_wait(actor, "w")
    a.send("BLPOP", "none", 0)
    a.wait_blocked()
    leases_pass(server)
    assert b.is_blocked() and not b.has_reply()
    assert session(server) == a.client_id
    a.kill_socket()
    assert b.reply() == 1


@pytest.mark.parametrize("db", [0, 9])
def test_many_sessions_are_renewed(server, actor, short_leases, db):
    a, b = actor(db=db), actor(db=db)
    for n in range(300):
        (a if n % 2 else b).call("LOCK.ACQUIRE", f"k{n}", "o", "SESSION")
    leases_pass(server)
    assert a.call("DBSIZE") == 300
    b.kill_socket()
    client = server.client(db=db)
    wait_for(lambda: client.dbsize() == 150, 10, "half of them to be released")
    leases_pass(server, 2)
    assert client.dbsize() == 150
    assert session(server, "k1", db) == a.client_id


def test_lower_default_lease_applies_to_the_next_session_at_once(server, actor):
    """The hold that was bound last is due first."""
    a, b = actor(), actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    server.control.config_set("lock.default-lease", LEASE)
    b.call("LOCK.ACQUIRE", "l", "o", "SESSION")
    leases_pass(server)
    assert session(server) == a.client_id
    assert session(server, "l") == b.client_id
    server.control.config_set("lock.default-lease", 30_000)
    wait_for(lambda: min(map(server.control.pttl, ("k", "l"))) > 10_000, what="both to be renewed for longer")


def test_renewal_does_not_shorten_another_readers_lease(server, actor, short_leases):
    a, b = actor(), actor()
    b.call("LOCK.RWREAD", "k", "p", "PX", HOUR)
    a.call("LOCK.RWREAD", "k", "o", "SESSION")
    leases_pass(server, 2)
    assert a.call("PTTL", "k") > HOUR - 60_000
    assert holders(server) == {("o", "read"): (1, a.client_id), ("p", "read"): (1, None)}
    a.kill_socket()
    wait_for(lambda: ("o", "read") not in holders(server), 10, "the reader to be released")
    assert a.server.control.pttl("k") > HOUR - 60_000


def test_session_of_a_reader_does_not_renew_other_readers(server, actor, short_leases):
    """The lease of the other reader expires although the TTL of the key is extended."""
    a, b = actor(), actor()
    a.call("LOCK.RWREAD", "k", "o", "SESSION")
    b.call("LOCK.RWREAD", "k", "p", "PX", LEASE)
    leases_pass(server, 2)
    assert holders(server) == {("o", "read"): (1, a.client_id)}


def test_session_is_renewed_while_others_are_in_their_grace(server, actor, short_leases, long_grace):
    a, b = actor(), actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    a.kill_socket()
    wait_noticed(server)
    b.call("LOCK.ACQUIRE", "l", "o", "SESSION")
    leases_pass(server, 2)
    assert session(server, "l") == b.client_id


def test_released_session_is_not_renewed_any_more(server, actor, short_leases):
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    assert a.call("LOCK.RELEASE", "k", "o") == 1
    leases_pass(server, 2)
    assert session(server) == a.client_id
    assert a.call("LOCK.RELEASE", "k", "o") == 0
    leases_pass(server, 1)
    assert server.dump() == {}


@pytest.mark.parametrize("lease", [1, 2, 3])
def test_shortest_leases_are_renewed_at_most_once_a_millisecond(server, actor, lease):
    """A third of such a lease is below a millisecond; some expire before, and are not renewed any more."""

    def changes():
        return server.info("persistence")["rdb_changes_since_last_save"]

    server.control.config_set("lock.default-lease", lease)
    before, began = changes(), server.now_ms()
    actor().call("LOCK.ACQUIRE", "k", "o", "SESSION")
    server.let_pass(30)
    renewals = changes() - before
    assert renewals <= 10 + server.now_ms() - began
