"""REPLICAS n ms: events between the grant and its acknowledgement."""

import os
import signal

import pytest

from harness import code_of, scaled_ms, wait_for, wait_for_sync
from harness.aof import aof_of, commands_in
from harness.failpoint import arm, wait_passed
from harness.proxy import Proxy
from harness.schedule import error
from model.replicas_scene import (
    LONG,
    add_replica,
    answer,
    asks,
    awaiting,
    begin,
    each_kind,
    hash_of,
    online,
    silent,
    wait_awaiting,
    with_replicas,
)

no_replicas = error("NOREPLICAS")


@pytest.fixture(scope="module")
def new_server():
    return with_replicas(2)


def wait_free(server):
    wait_for(lambda: not server.control.exists("k", "l"), what="the holds to be released")


def clients_unblock(server):
    return server.is_valkey or server.version >= (7, 4)


# ---- the client dies, or gives up ----


@each_kind
def test_hold_of_a_client_that_dies_is_released_and_handed_off(server, actor, kind):
    with silent(*server.replicas):
        a = begin(server, actor("a"), *asks(kind, "REPLICAS", 2, LONG))
        w = actor("w")
        w.send("LOCK.MACQUIRE", 2, "k", "l", "w", "BLOCK", 0)
        w.wait_blocked()
        a.kill_socket()
        assert w.reply() == 2
        assert server.control.hgetall("k") == {"w": "1"}


def test_hold_is_released_if_its_client_dies_before_acknowledgement(server, actor):
    server.control.execute_command("LOCK.FAIR", "k", "x")
    a = actor("a")
    a.send("LOCK.FAIR", "k", "o", "BLOCK", 0, "SESSION", "FENCED", "REPLICAS", 2, LONG)
    a.wait_blocked()
    with silent(*server.replicas):
        server.control.execute_command("LOCK.RELEASE", "k", "x")
        wait_awaiting(server, 1)
        a.kill_socket()
        wait_free(server)
        assert server.info("lock")["lock_sessions"] == 0


@each_kind
@pytest.mark.parametrize("more", [(), ("RELEASE",)], ids=["cancel", "release"])
def test_cancel_releases_and_replies_null(server, actor, kind, more):
    with silent(*server.replicas):
        a = begin(server, actor("a"), *asks(kind, "REPLICAS", 2, LONG))
        assert server.control.execute_command("LOCK.CANCEL", "k", "other", *more) == 0
        assert server.control.execute_command("LOCK.CANCEL", "k", "o", *more) == 1
        assert a.reply() is None
        wait_free(server)
        assert server.control.execute_command("LOCK.CANCEL", "k", "o", *more) == 0


@each_kind
def test_client_unblock_releases(server, actor, kind):
    with silent(*server.replicas):
        a = begin(server, actor("a"), *asks(kind, "REPLICAS", 2, LONG))
        if clients_unblock(server):
            assert server.control.execute_command("CLIENT", "UNBLOCK", a.client_id) == 1
            assert a.reply() is None
        else:
            assert server.control.execute_command("CLIENT", "UNBLOCK", a.client_id, "ERROR") in (0, 1)
            a.kill_socket()
        wait_free(server)


def test_client_unblock_with_an_error_releases(server, actor):
    if not clients_unblock(server):
        pytest.skip("CLIENT UNBLOCK replies 0 on this server")
    with silent(*server.replicas):
        a = begin(server, actor("a"), "LOCK.ACQUIRE", "k", "o", "REPLICAS", 2, LONG)
        assert server.control.execute_command("CLIENT", "UNBLOCK", a.client_id, "ERROR") == 1
        assert code_of(a.outcome()) == "UNBLOCKED"
        wait_free(server)


# ---- the hold ends ----


def forced(server):
    assert server.control.execute_command("LOCK.FORCE", "k") == 1


def deleted(server):
    assert server.control.delete("k") == 1


def flushed(server):
    server.control.flushall()


def released(server):
    assert server.control.execute_command("LOCK.RELEASE", "k", "o") >= 0


def overwritten(server):
    server.control.delete("k")
    server.control.set("k", "text")


ENDS = pytest.mark.parametrize("end", [forced, deleted, flushed, released, overwritten], ids=lambda f: f.__name__)


@ENDS
@pytest.mark.parametrize("kind", ["plain", "fair", "write", "read"])
def test_hold_that_has_ended_is_replied_NOREPLICAS(server, actor, kind, end):
    with silent(*server.replicas):
        a = begin(server, actor("a"), *asks(kind, "REPLICAS", 2, LONG))
        end(server)
        server.settle()
    assert no_replicas(a.outcome())
    assert server.control.type("k") in ("none", "string")


@ENDS
def test_owner_that_acquired_it_in_the_meantime_keeps_it(server, actor, end):
    if end is overwritten:
        pytest.skip("it cannot be acquired")
    with silent(*server.replicas):
        a = begin(server, actor("a"), "LOCK.ACQUIRE", "k", "o", "REPLICAS", 2, LONG)
        end(server)
        assert actor("x").call("LOCK.ACQUIRE", "k", "x") == 1
    assert no_replicas(a.outcome())
    server.settle()
    assert server.control.hgetall("k") == {"x": "1"}


@ENDS
def test_new_hold_of_the_same_owner_remains(server, actor, end):
    if end is overwritten:
        pytest.skip("it cannot be acquired")
    with silent(*server.replicas):
        a = begin(server, actor("a"), "LOCK.ACQUIRE", "k", "o", "REPLICAS", 2, LONG)
        end(server)
        assert actor("new").call("LOCK.ACQUIRE", "k", "o") == 1
    assert no_replicas(a.outcome())
    server.settle()
    assert server.control.hgetall("k") == {"o": "1"}


@each_kind
def test_lease_that_expires_first_is_no_grant(server, actor, kind):
    lease = scaled_ms(100)
    with silent(*server.replicas):
        a, before = actor("a"), server.now_ms()
        a.send(*asks(kind, "PX", lease, "REPLICAS", 2, LONG))
        assert no_replicas(a.outcome())
        assert server.now_ms() - before >= lease
        server.settle()
        assert actor("x").call("LOCK.MACQUIRE", 2, "k", "l", "x") == 2


def test_multikey_hold_that_has_lost_one_lock_releases_the_others(server, actor):
    with silent(*server.replicas):
        a = begin(server, actor("a"), "LOCK.MACQUIRE", 2, "k", "l", "o", "REPLICAS", 2, LONG)
        server.control.execute_command("LOCK.FORCE", "l")
    assert no_replicas(a.outcome())
    wait_free(server)


def test_hold_moves_with_SWAPDB(server, actor):
    with silent(*server.replicas):
        a = begin(server, actor("a"), "LOCK.ACQUIRE", "k", "o", "REPLICAS", 2, LONG)
        server.control.swapdb(0, 1)
    assert a.reply() == 1
    server.control.swapdb(0, 1)


# ---- other requests of the same owner ----


def test_repeat_with_ONCE_keeps_the_hold_and_waits_for_its_own_replicas(server, actor):
    with silent(*server.replicas):
        first = begin(server, actor("a"), "LOCK.ACQUIRE", "k", "o", "ONCE", "REPLICAS", 2, LONG)
        again = begin(server, actor("b"), "LOCK.ACQUIRE", "k", "o", "ONCE", "REPLICAS", 1, LONG)
        first.kill_socket()
        wait_awaiting(server, 1)
        server.settle()
        assert server.control.hgetall("k") == {"o": "1"}
    assert again.reply() == 1
    server.settle()
    assert server.control.hgetall("k") == {"o": "1"}


@pytest.mark.parametrize("sooner", ["first", "again"])
def test_two_requests_with_ONCE_not_acknowledged_release_once(server, actor, sooner):
    soon, late = scaled_ms(100), scaled_ms(250)
    times = (soon, late) if sooner == "first" else (late, soon)
    with silent(*server.replicas):
        a, b = actor("a"), actor("b")
        for client, ms in zip((a, b), times, strict=True):
            client.send("LOCK.SEMAPHORE", "k", "o", 3, "PERMITS", 2, "ONCE", "REPLICAS", 2, ms)
        assert no_replicas(a.outcome()) and no_replicas(b.outcome())
        wait_free(server)


def test_repeat_with_a_reply_keeps_the_hold(server, actor):
    with silent(*server.replicas):
        a = begin(server, actor("a"), "LOCK.ACQUIRE", "k", "o", "ONCE", "REPLICAS", 2, scaled_ms(1000))
        assert actor("b").call("LOCK.ACQUIRE", "k", "o", "ONCE") == 1
        assert no_replicas(a.outcome())
        server.settle()
        assert server.control.hgetall("k") == {"o": "1"}


def test_renewal_in_the_meantime_keeps_the_hold(server, actor):
    with silent(*server.replicas):
        a = begin(server, actor("a"), "LOCK.ACQUIRE", "k", "o", "REPLICAS", 2, scaled_ms(1000))
        assert actor("b").call("LOCK.RENEW", "k", "o", "PX", LONG) == 1
        assert no_replicas(a.outcome())
        server.settle()
        assert server.control.hgetall("k") == {"o": "1"}


def test_session_is_bound_when_its_client_receives_the_reply(server, actor):
    with silent(*server.replicas):
        a = begin(server, actor("a"), "LOCK.ACQUIRE", "k", "o", "SESSION", "REPLICAS", 2, LONG)
        assert server.info("lock")["lock_sessions"] == 0
    assert a.reply() == 1
    assert server.info("lock")["lock_sessions"] == 1
    a.kill_socket()
    wait_free(server)


# ---- the server ----


def test_pause_delays_the_release_but_not_the_reply(server, actor):
    with silent(*server.replicas):
        a = begin(server, actor("a"), "LOCK.ACQUIRE", "k", "o", "REPLICAS", 2, scaled_ms(1000))
        server.control.client_pause(LONG, all=False)
        assert no_replicas(a.outcome())
        assert server.control.hgetall("k") == {"o": "1"}
        server.control.client_unpause()
        wait_free(server)


def test_replicas_acknowledge_by_themselves_in_a_pause(server, actor):
    with silent(*server.replicas):
        a = begin(server, actor("a"), "LOCK.ACQUIRE", "k", "o", "REPLICAS", 2, LONG)
        server.control.client_pause(LONG, all=False)
    assert a.reply() == 1
    server.control.client_unpause()


def test_reply_that_waits_is_sent_after_a_pause_of_all_clients(server, actor):
    with silent(*server.replicas):
        a = begin(server, actor("a"), "LOCK.ACQUIRE", "k", "o", "REPLICAS", 2, LONG)
        server.control.client_pause(scaled_ms(200), all=True)  # which no client can end
    assert a.reply() == 1
    assert server.control.hgetall("k") == {"o": "1"}


def test_noreplicas_reply_precedes_the_release_while_writes_are_refused(server, actor):
    first, second = server.replicas
    with silent(first, second):
        a = begin(server, actor("a"), "LOCK.ACQUIRE", "k", "o", "REPLICAS", 2, scaled_ms(1000))
        server.control.config_set("min-replicas-to-write", 3)
        assert no_replicas(a.outcome())
        server.settle()
        assert server.control.hgetall("k") == {"o": "1"}
        server.control.config_set("min-replicas-to-write", 0)
        wait_free(server)


def test_unload_is_refused_while_a_reply_waits(server, actor):
    with silent(*server.replicas):
        a = begin(server, actor("a"), "LOCK.ACQUIRE", "k", "o", "REPLICAS", 2, LONG)
        assert not server.unloads()
    assert a.reply() == 1


def test_hold_of_a_client_that_cannot_be_blocked_is_released(server, actor, checking_build):
    arm(server, "block", "fail")
    assert no_replicas(actor("a").attempt("LOCK.ACQUIRE", "k", "o", "REPLICAS", 2, LONG))
    wait_passed(server)
    wait_free(server)


# ---- replicas and roles ----


def test_demoted_master_unblocks_and_the_new_master_has_the_holds(make_server, actor):
    server = make_server()
    replica = add_replica(server)
    a = server.actor("a")
    with silent(replica):
        begin(server, a, "LOCK.ACQUIRE", "k", "o", "SESSION", "REPLICAS", 1, LONG)
    assert a.reply() == 1
    b = server.actor("b")
    with silent(replica):
        begin(server, b, "LOCK.ACQUIRE", "l", "o", "REPLICAS", 1, LONG)
        server.control.execute_command("REPLICAOF", "127.0.0.1", replica.port)
        assert code_of(b.outcome()) == "UNBLOCKED"
    replica.control.execute_command("REPLICAOF", "NO", "ONE")
    wait_for_sync(replica, server)
    assert replica.control.hgetall("k") == {"o": "1"}
    assert server.dump() == replica.dump() and awaiting(server) == 0


def test_FAILOVER_sends_a_reply_to_every_client(make_server):
    server = make_server()
    replica = add_replica(server)
    clients = [server.actor(f"c{i}") for i in range(20)]
    os.kill(replica.pid, signal.SIGSTOP)
    try:
        for at, client in enumerate(clients):
            client.send("LOCK.ACQUIRE", f"k{at}", "o", "REPLICAS", 1, LONG)
        wait_awaiting(server, len(clients))
        server.control.execute_command("FAILOVER")
    finally:
        os.kill(replica.pid, signal.SIGCONT)
    for client in clients:
        outcome = client.outcome(timeout=20)
        assert outcome == 1 or code_of(outcome) == "UNBLOCKED"
    wait_for(lambda: replica.control.role()[0] == "master", what="the failover")
    wait_for_sync(replica, server)
    assert awaiting(server) == 0


def test_replica_that_has_been_restarted_acknowledges(make_server, actor):
    server = make_server(repl_diskless_sync_delay=0)
    replica = add_replica(server)
    a = server.actor("a")
    replica.kill()
    wait_for(lambda: online(server) == 0, what="the replica to be gone")
    assert no_replicas(a.attempt("LOCK.ACQUIRE", "k", "o", "REPLICAS", 1, LONG))
    replica.start()
    wait_for(lambda: online(server) == 1, what="the master to know its replica")
    assert a.call("LOCK.ACQUIRE", "k", "o", "REPLICAS", 1, LONG) == 1
    os.kill(replica.pid, signal.SIGSTOP)
    begin(server, a, "LOCK.ACQUIRE", "l", "o", "REPLICAS", 1, LONG)
    replica.kill()
    wait_for(lambda: online(server) == 0, what="the replica to be gone")
    server.settle()
    assert not a.has_reply()
    replica.start()
    assert a.reply(timeout=20) == 1
    assert replica.control.hgetall("l") == {"o": "1"}


def test_new_replica_can_acknowledge(make_server):
    server = make_server(repl_diskless_sync_delay=0)
    replica = add_replica(server)
    a = server.actor("a")
    with silent(replica):
        begin(server, a, "LOCK.ACQUIRE", "k", "o", "REPLICAS", 1, LONG)
        other = add_replica(server)
        assert a.reply(timeout=20) == 1
        assert other.control.hgetall("k") == {"o": "1"}


@pytest.fixture
def cut_pair(make_server):
    """A master, its replica, and the proxy between them."""
    server = make_server(repl_diskless_sync_delay=0)
    with Proxy(server.port) as proxy:
        replica = make_server()
        replica.control.execute_command("REPLICAOF", "127.0.0.1", proxy.port)
        wait_for(lambda: online(server) == 1, 20, "the master to know its replica")
        yield server, replica, proxy


def test_grant_is_acknowledged_after_its_link_was_cut_at_any_byte(cut_pair):
    """In the grant, in the request to acknowledge, in the acknowledgement: the replica reconnects within a second, and
    has the grant."""
    server, replica, proxy = cut_pair
    a = server.actor("a")
    for at, cut in enumerate([{"reply": 1}, {"reply": 40}, {"reply": 110}, {"request": 1}, {"request": 30}]):
        proxy.cut(**cut)
        assert a.call("LOCK.ACQUIRE", f"k{at}", "o", "PX", LONG, "REPLICAS", 1, LONG, timeout=20) == 1
        assert replica.control.hgetall(f"k{at}") == {"o": "1"}
        wait_for(lambda: proxy.has_cut() and online(server) == 1, 20, "the replica to be connected again")


def test_request_to_acknowledge_is_not_in_the_aof(make_server):
    server = make_server(appendonly="yes")
    add_replica(server)
    assert server.actor("a").call("LOCK.ACQUIRE", "k", "o", "REPLICAS", 1, LONG) == 1
    written = commands_in(aof_of(server))
    assert not [words for words in written if words[0].upper() == "REPLCONF"]
    before = server.dump()
    server.kill()
    server.start()
    assert server.dump() == before


@each_kind
def test_promoted_replica_has_all_acknowledged_grants(make_server, kind):
    server = make_server()
    replica = add_replica(server)
    assert server.actor("a").call(*asks(kind, "PX", LONG, "REPLICAS", 1, LONG)) == answer(kind)
    server.kill()
    replica.control.execute_command("REPLICAOF", "NO", "ONE")
    assert replica.control.hgetall("k") == hash_of(kind)
    assert replica.actor("x").attempt("LOCK.MACQUIRE", 2, "k", "l", "x") is None
