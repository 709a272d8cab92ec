"""How it ends that a grant is one that nobody has followed up: with the hold, with the connection, and with whatever
happens to the server; and how many are known."""

import pytest

from harness import scaled_ms, wait_for, wait_for_sync
from model.server_scene import is_loaded
from model.unconfirmed_scene import assert_a_ghost, assert_none, each_kind, make_ghost, request, unconfirmed, unconfirmed_grants
from model.waiting_scene import HOUR, say

MOST = 256  # UNCONFIRMED_MOST

ENDS = ["DEL k", "UNLINK k", "HDEL k w", "PEXPIRE k 0", "RENAME k l", "FLUSHDB", "FLUSHALL", "LOCK.FORCE k", "SET k v"]


@pytest.mark.parametrize("end", ENDS)
def test_hold_is_over(server, end):
    make_ghost(server)
    say(server, end)
    assert unconfirmed_grants(server) == (0, 0)


@pytest.mark.parametrize("end", ENDS[:-1])
def test_next_hold_of_the_owner_is_another(server, end):
    """Nobody has looked in between."""
    make_ghost(server)
    say(server, end)
    say(server, "LOCK.ACQUIRE k w")
    assert_none(server)


def test_next_hold_after_a_wait_is_another(server):
    """It is as old as its own grant."""
    first = make_ghost(server)
    wait_for(lambda: unconfirmed(server)["w"] > 100, what="time to pass")
    say(server, "DEL k")
    began = server.now_ms()
    second = make_ghost(server)
    assert_a_ghost(server)
    assert unconfirmed(server)["w"] <= server.now_ms() - began
    first.reply()
    first.call("PING")
    assert_a_ghost(server)
    assert second.reply() == 1


def test_lease_is_over(server):
    make_ghost(server)
    say(server, f"PEXPIRE k {scaled_ms(1000)}")
    assert_a_ghost(server)
    wait_for(lambda: unconfirmed_grants(server) == (0, 0), what="the lease to end")


def test_one_readers_lease_is_over(server):
    """The lock goes on being held."""
    server.control.execute_command(*request("writer", "h"))
    ghost = server.actor()
    ghost.send("LOCK.RWREAD", "k", "w", "PX", scaled_ms(200), "BLOCK", 0)
    ghost.wait_blocked()
    say(server, "LOCK.RELEASE k h")
    server.control.execute_command(*request("reader", "r"))
    wait_for(ghost.has_reply, what="the grant")
    wait_for(lambda: unconfirmed_grants(server) == (0, 0), what="the lease to end")
    assert unconfirmed(server) == {"r": None}


def by_reset(server, ghost):
    ghost.kill_socket()


def in_good_order(server, ghost):
    ghost.close()


def by_an_administrator(server, ghost):
    server.control.client_kill_filter(_id=ghost.client_id)


@pytest.mark.parametrize("close", [by_reset, in_good_order, by_an_administrator])
def test_connection_closes(server, close):
    """The hold is there until its lease ends, and nobody keeps it to himself."""
    ghost = make_ghost(server)
    close(server, ghost)
    wait_for(lambda: not ghost.is_connected(), what="the connection to close")
    assert unconfirmed(server) == {"w": None}
    assert_none(server)


def test_session_is_one_as_long_as_it_is_connected(make_server):
    """The module renews the lease: nobody has said anything for all that."""
    lease = scaled_ms(300)
    server = make_server(lock_default_lease=lease, lock_session_grace=0)
    say(server, "LOCK.ACQUIRE k h")
    ghost = server.actor()
    ghost.send("LOCK.ACQUIRE", "k", "w", "SESSION", "BLOCK", 0)
    ghost.wait_blocked()
    say(server, "LOCK.RELEASE k h")
    wait_for(lambda: unconfirmed(server).get("w", 0) > 2 * lease, 10, "it to outlive its lease")
    assert_a_ghost(server)
    ghost.kill_socket()
    wait_for(lambda: server.control.exists("k") == 0, what="the hold to be released")
    assert_none(server)


def test_who_died_before_it_was_told_leaves_none(server, at_once):
    say(server, "LOCK.ACQUIRE k h")
    waiter = server.actor()
    waiter.send(*request("plain", "w", "BLOCK", 0))
    waiter.wait_blocked()
    at_once("LOCK.RELEASE k h", f"CLIENT KILL ID {waiter.client_id}")
    wait_for(lambda: server.control.exists("k") == 0, what="the hold to be released")
    assert_none(server)


def test_swapped_databases(server):
    """The hold has gone to the other one, and what is said of it counts there."""
    make_ghost(server)
    say(server, "SWAPDB 0 3")
    assert_a_ghost(server, db=3)
    server.client(db=0).execute_command("LOCK.ACQUIRE", "k", "w")
    assert_a_ghost(server, db=3)
    say(server, "SWAPDB 3 0")
    assert_a_ghost(server)
    say(server, "SWAPDB 0 3")
    server.client(db=3).execute_command("LOCK.RENEW", "k", "w")
    assert_none(server)


def test_other_databases_flush(server):
    make_ghost(server, db=2)
    server.client(db=1).execute_command("FLUSHDB")
    assert_a_ghost(server, db=2)
    server.client(db=2).execute_command("FLUSHDB")
    assert unconfirmed_grants(server) == (0, 0)


def test_load_forgets_them(server):
    make_ghost(server)
    say(server, "DEBUG RELOAD")
    assert unconfirmed(server) == {"w": None}
    assert_none(server)


def test_replica_knows_of_none(make_server):
    server = make_server()
    replica = server.start_replica()
    make_ghost(server)
    wait_for_sync(server, replica)
    assert unconfirmed(replica) == {"w": None}
    assert unconfirmed_grants(replica) == (0, 0)
    assert_a_ghost(server)


def test_demoted_for_a_moment_it_knows_of_none(make_server):
    server = make_server()
    make_ghost(server)
    for command in ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"):
        say(server, command)
    assert unconfirmed(server) == {"w": None}
    assert_none(server)


def start_acknowledging_replica(server):
    """One that is not in step yet counts as none."""
    server.start_replica()
    probe = server.actor("probe")
    wanted = ("LOCK.ACQUIRE", "probe", "p", "ONCE", "REPLICAS", 1, scaled_ms(5000))
    wait_for(lambda: probe.attempt(*wanted) == 1, 20, "the replica to acknowledge")
    probe.call("LOCK.RELEASE", "probe", "p")


@each_kind
def test_who_waits_for_replicas_may_give_up_too(make_server, kind):
    """Granted at once, told later."""
    server = make_server()
    start_acknowledging_replica(server)
    ghost = server.actor()
    ghost.send(*request(kind, "w", "REPLICAS", 1, scaled_ms(5000)))
    wait_for(ghost.has_reply, 10, "the grant to be acknowledged")
    assert_a_ghost(server)
    assert ghost.reply() == 1
    ghost.call("PING")
    assert_none(server)


def test_renewal_that_waits_for_replicas_is_no_grant(make_server):
    server = make_server()
    start_acknowledging_replica(server)
    say(server, "LOCK.ACQUIRE k w")
    client = server.actor()
    client.send("LOCK.RENEW", "k", "w", "REPLICAS", 1, scaled_ms(5000))
    wait_for(client.has_reply, 10, "the renewal to be acknowledged")
    assert_none(server)


# ---- how many are known ----


def granted_to(server, prefix, count, **options):
    """A client that was told of so many locks, and reads nothing."""
    keys = [f"{prefix}{number:03}" for number in range(count)]
    server.control.execute_command("LOCK.MACQUIRE", count, *keys, "h", "PX", HOUR)
    ghost = server.actor(prefix, **options)
    ghost.send("LOCK.MACQUIRE", count, *keys, prefix, "PX", HOUR, "BLOCK", 0)
    ghost.wait_blocked()
    server.control.execute_command("LOCK.MRELEASE", count, *keys, "h")
    wait_for(ghost.has_reply, what="the grant")
    return keys


def seen(server, keys):
    return sum(value is not None for key in keys for value in unconfirmed(server, key).values())


def test_the_latest_are_known(make_server):
    server = make_server()
    first = granted_to(server, "a", MOST - 50)
    second = granted_to(server, "b", 50)
    assert unconfirmed_grants(server)[0] == MOST
    third = granted_to(server, "c", 100)
    assert unconfirmed_grants(server)[0] == MOST
    assert [seen(server, keys) for keys in (first, second, third)] == [MOST - 150, 50, 100]
    for owner, keys in (("a", first), ("b", second), ("c", third)):
        server.control.execute_command("LOCK.MRELEASE", len(keys), *keys, owner)
    assert_none(server)
    granted_to(server, "d", MOST)
    assert unconfirmed_grants(server)[0] == MOST


def test_more_than_are_known_by_one_grant(make_server):
    server = make_server()
    keys = granted_to(server, "a", 2 * MOST)
    assert seen(server, keys) == unconfirmed_grants(server)[0] == MOST


def test_names_that_look_alike(server):
    """Of names and owners the ends are hashed: all fall into one bucket."""
    keys = [f"{number}-the same end" for number in range(50)]
    for key in keys:
        server.control.execute_command("LOCK.ACQUIRE", key, "h", "PX", HOUR)
        ghost = server.actor()
        ghost.send("LOCK.ACQUIRE", key, "the same owner", "PX", HOUR, "BLOCK", 0)
        ghost.wait_blocked()
        server.control.execute_command("LOCK.RELEASE", key, "h")
        wait_for(ghost.has_reply, what="the grant")
    for left, key in reversed(list(enumerate(keys))):
        server.control.execute_command("LOCK.RENEW", key, "the same owner")
        assert unconfirmed(server, key) == {"the same owner": None}
        assert seen(server, keys) == unconfirmed_grants(server)[0] == left


def test_unloads_with_some(make_server):
    server = make_server(enable_module_command="yes")
    make_ghost(server)
    server.unload()
    server.control.module_load(str(server.launch.module))
    assert is_loaded(server.control)
    assert_none(server)
