"""How a grant stops being unconfirmed: with the hold, with the connection, and with events of the server; and how many
the server remembers."""

import pytest

from harness import scaled_ms, wait_for, wait_for_sync
from model.server_scene import is_loaded
from model.unconfirmed_scene import assert_unconfirmed, assert_none, each_kind, make_orphaned_grant, request, unconfirmed, unconfirmed_grants
from model.waiting_scene import HOUR, say

MOST = 256  # UNCONFIRMED_MOST

ENDS = ["DEL k", "UNLINK k", "HDEL k w", "PEXPIRE k 0", "RENAME k l", "FLUSHDB", "FLUSHALL", "LOCK.FORCE k", "SET k v"]


@pytest.mark.parametrize("end", ENDS)
def test_end_of_the_hold_ends_the_record(server, end):
    make_orphaned_grant(server)
    say(server, end)
    assert unconfirmed_grants(server) == (0, 0)


@pytest.mark.parametrize("end", ENDS[:-1])
def test_next_hold_of_the_owner_is_not_unconfirmed(server, end):
    """No INFO was requested in between."""
    make_orphaned_grant(server)
    say(server, end)
    say(server, "LOCK.ACQUIRE k w")
    assert_none(server)


def test_next_hold_after_a_wait_has_its_own_age(server):
    """Its age counts from its own grant."""
    first = make_orphaned_grant(server)
    wait_for(lambda: unconfirmed(server)["w"] > 100, what="time to pass")
    say(server, "DEL k")
    began = server.now_ms()
    second = make_orphaned_grant(server)
    assert_unconfirmed(server)
    assert unconfirmed(server)["w"] <= server.now_ms() - began
    first.reply()
    first.call("PING")
    assert_unconfirmed(server)
    assert second.reply() == 1


def test_end_of_the_lease_ends_the_record(server):
    make_orphaned_grant(server)
    say(server, f"PEXPIRE k {scaled_ms(1000)}")
    assert_unconfirmed(server)
    wait_for(lambda: unconfirmed_grants(server) == (0, 0), what="the lease to expire")


def test_end_of_the_lease_of_one_reader_ends_its_record(server):
    """The lock is still held by another reader."""
    server.control.execute_command(*request("writer", "h"))
    orphan = server.actor()
    orphan.send("LOCK.RWREAD", "k", "w", "PX", scaled_ms(200), "BLOCK", 0)
    orphan.wait_blocked()
    say(server, "LOCK.RELEASE k h")
    server.control.execute_command(*request("reader", "r"))
    wait_for(orphan.has_reply, what="the grant")
    wait_for(lambda: unconfirmed_grants(server) == (0, 0), what="the lease to expire")
    assert unconfirmed(server) == {"r": None}


def by_reset(server, orphan):
    orphan.kill_socket()


def by_fin(server, orphan):
    orphan.close()


def by_an_administrator(server, orphan):
    server.control.client_kill_filter(_id=orphan.client_id)


@pytest.mark.parametrize("close", [by_reset, by_fin, by_an_administrator])
def test_close_of_the_connection_ends_the_record(server, close):
    """The hold remains until its lease expires, but no connection is left that could confirm it."""
    orphan = make_orphaned_grant(server)
    close(server, orphan)
    wait_for(lambda: not orphan.is_connected(), what="the connection to close")
    assert unconfirmed(server) == {"w": None}
    assert_none(server)


def test_hold_of_a_session_is_unconfirmed_while_it_is_connected(make_server):
    """The module renews the lease; this is no command of the owner."""
    lease = scaled_ms(300)
    server = make_server(lock_default_lease=lease, lock_session_grace=0)
    say(server, "LOCK.ACQUIRE k h")
    orphan = server.actor()
    orphan.send("LOCK.ACQUIRE", "k", "w", "SESSION", "BLOCK", 0)
    orphan.wait_blocked()
    say(server, "LOCK.RELEASE k h")
    wait_for(lambda: unconfirmed(server).get("w", 0) > 2 * lease, 10, "it to outlive its lease")
    assert_unconfirmed(server)
    orphan.kill_socket()
    wait_for(lambda: server.control.exists("k") == 0, what="the hold to be released")
    assert_none(server)


def test_client_that_died_before_the_reply_leaves_no_unconfirmed_grant(server, at_once):
    say(server, "LOCK.ACQUIRE k h")
    waiter = server.actor()
    waiter.send(*request("plain", "w", "BLOCK", 0))
    waiter.wait_blocked()
    at_once("LOCK.RELEASE k h", f"CLIENT KILL ID {waiter.client_id}")
    wait_for(lambda: server.control.exists("k") == 0, what="the hold to be released")
    assert_none(server)


def test_swapdb_moves_the_record(server):
    """The hold is in the other database, and commands confirm it there."""
    make_orphaned_grant(server)
    say(server, "SWAPDB 0 3")
    assert_unconfirmed(server, db=3)
    server.client(db=0).execute_command("LOCK.ACQUIRE", "k", "w")
    assert_unconfirmed(server, db=3)
    say(server, "SWAPDB 3 0")
    assert_unconfirmed(server)
    say(server, "SWAPDB 0 3")
    server.client(db=3).execute_command("LOCK.RENEW", "k", "w")
    assert_none(server)


def test_grant_after_a_swap_is_recorded_in_its_database(server):
    """It replaces the last record: the numbers of the databases begin anew before it is stored."""
    make_orphaned_grant(server)
    assert_unconfirmed(server)
    other, waiter = server.client(db=1), server.actor("w", db=1)
    other.execute_command("LOCK.ACQUIRE", "k", "x", "PX", HOUR)
    waiter.send("LOCK.ACQUIRE", "k", "w", "PX", HOUR, "BLOCK", 0)
    waiter.wait_blocked()
    with other.pipeline(transaction=True) as transaction:
        transaction.execute_command("SWAPDB", 0, 1)
        transaction.execute_command("DEL", "k")
        transaction.execute()
    wait_for(waiter.has_reply, what="the grant")
    server.settle()
    assert unconfirmed(server, db=1)["w"] is not None
    assert server.info("lock")["lock_unconfirmed_grants"] == 1


def test_flush_of_another_database_keeps_the_record(server):
    make_orphaned_grant(server, db=2)
    server.client(db=1).execute_command("FLUSHDB")
    assert_unconfirmed(server, db=2)
    server.client(db=2).execute_command("FLUSHDB")
    assert unconfirmed_grants(server) == (0, 0)


def test_load_forgets_unconfirmed_grants(server):
    make_orphaned_grant(server)
    say(server, "DEBUG RELOAD")
    assert unconfirmed(server) == {"w": None}
    assert_none(server)


def test_replica_has_no_unconfirmed_grants(make_server):
    server = make_server()
    replica = server.start_replica()
    make_orphaned_grant(server)
    wait_for_sync(server, replica)
    assert unconfirmed(replica) == {"w": None}
    assert unconfirmed_grants(replica) == (0, 0)
    assert_unconfirmed(server)


def test_demotion_forgets_unconfirmed_grants(make_server):
    server = make_server()
    make_orphaned_grant(server)
    for command in ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"):
        say(server, command)
    assert unconfirmed(server) == {"w": None}
    assert_none(server)


def start_acknowledging_replica(server):
    """Starts a replica and waits until it acknowledges: before it is in sync it does not count."""
    server.start_replica()
    probe = server.actor("probe")
    words = ("LOCK.ACQUIRE", "probe", "p", "ONCE", "REPLICAS", 1, scaled_ms(5000))
    wait_for(lambda: probe.attempt(*words) == 1, 20, "the replica to acknowledge")
    probe.call("LOCK.RELEASE", "probe", "p")


@each_kind
def test_grant_that_waited_for_replicas_may_be_unconfirmed(make_server, kind):
    """The lock is granted without a wait, and the reply is sent later."""
    server = make_server()
    start_acknowledging_replica(server)
    orphan = server.actor()
    orphan.send(*request(kind, "w", "REPLICAS", 1, scaled_ms(5000)))
    wait_for(orphan.has_reply, 10, "the grant to be acknowledged")
    assert_unconfirmed(server)
    assert orphan.reply() == 1
    orphan.call("PING")
    assert_none(server)


def test_renewal_that_waits_for_replicas_is_no_grant(make_server):
    server = make_server()
    start_acknowledging_replica(server)
    say(server, "LOCK.ACQUIRE k w")
    client = server.actor()
    client.send("LOCK.RENEW", "k", "w", "REPLICAS", 1, scaled_ms(5000))
    wait_for(client.has_reply, 10, "the renewal to be acknowledged")
    assert_none(server)


# ---- how many are remembered ----


def granted_to(server, prefix, count, **options):
    """Grants `count` locks to a client that reads no reply; returns their keys."""
    keys = [f"{prefix}{number:03}" for number in range(count)]
    server.control.execute_command("LOCK.MACQUIRE", count, *keys, "h", "PX", HOUR)
    orphan = server.actor(prefix, **options)
    orphan.send("LOCK.MACQUIRE", count, *keys, prefix, "PX", HOUR, "BLOCK", 0)
    orphan.wait_blocked()
    server.control.execute_command("LOCK.MRELEASE", count, *keys, "h")
    wait_for(orphan.has_reply, what="the grant")
    return keys


def shown(server, keys):
    return sum(value is not None for key in keys for value in unconfirmed(server, key).values())


def test_latest_unconfirmed_grants_are_remembered(make_server):
    server = make_server()
    first = granted_to(server, "a", MOST - 50)
    second = granted_to(server, "b", 50)
    assert unconfirmed_grants(server)[0] == MOST
    third = granted_to(server, "c", 100)
    assert unconfirmed_grants(server)[0] == MOST
    assert [shown(server, keys) for keys in (first, second, third)] == [MOST - 150, 50, 100]
    for owner, keys in (("a", first), ("b", second), ("c", third)):
        server.control.execute_command("LOCK.MRELEASE", len(keys), *keys, owner)
    assert_none(server)
    granted_to(server, "d", MOST)
    assert unconfirmed_grants(server)[0] == MOST


def test_one_grant_of_more_locks_than_are_remembered(make_server):
    server = make_server()
    keys = granted_to(server, "a", 2 * MOST)
    assert shown(server, keys) == unconfirmed_grants(server)[0] == MOST


def test_names_with_the_same_hash_are_distinguished(server):
    """Only the ends of names and owners are hashed: all of these are in the same bucket."""
    keys = [f"{number}-the same end" for number in range(50)]
    for key in keys:
        server.control.execute_command("LOCK.ACQUIRE", key, "h", "PX", HOUR)
        orphan = server.actor()
        orphan.send("LOCK.ACQUIRE", key, "the same owner", "PX", HOUR, "BLOCK", 0)
        orphan.wait_blocked()
        server.control.execute_command("LOCK.RELEASE", key, "h")
        wait_for(orphan.has_reply, what="the grant")
    for left, key in reversed(list(enumerate(keys))):
        server.control.execute_command("LOCK.RENEW", key, "the same owner")
        assert unconfirmed(server, key) == {"the same owner": None}
        assert shown(server, keys) == unconfirmed_grants(server)[0] == left


def test_module_unloads_with_unconfirmed_grants(make_server):
    server = make_server(enable_module_command="yes")
    make_orphaned_grant(server)
    server.unload()
    server.control.module_load(str(server.launch.module))
    assert is_loaded(server.control)
    assert_none(server)
