"""Unconfirmed grants: a client that stops reading while it waits leaves a hold that no client knows of. LOCK.INFO and
INFO show it, with its age, until its connection or its owner sends another command."""

import pytest

from harness import wait_for
from harness.schedule import as_map
from model.unconfirmed_scene import assert_unconfirmed, assert_none, each_kind, holders_of, make_orphaned_grant, request
from model.unconfirmed_scene import unconfirmed, unconfirmed_grants
from model.waiting_scene import HOUR, say


@each_kind
def test_unconfirmed_grant_is_shown_with_its_age(make_server, kind):
    server = make_server()
    began = server.now_ms()
    make_orphaned_grant(server, kind)
    assert_unconfirmed(server)
    shown, (_, oldest) = unconfirmed(server)["w"], unconfirmed_grants(server)
    assert 0 <= shown <= server.now_ms() - began
    wait_for(lambda: unconfirmed(server)["w"] > shown + 50, what="the age to grow")
    assert unconfirmed_grants(server)[1] > oldest


def test_unconfirmed_is_the_last_field_of_a_holder(server, client):
    make_orphaned_grant(server)
    [holder] = holders_of(client)
    assert list(holder) == ["owner", "mode", "holds", "pttl", "session", "unconfirmed"]
    assert isinstance(holder["unconfirmed"], int)


@each_kind
def test_grant_without_a_wait_is_not_unconfirmed(server, kind):
    server.control.execute_command(*request(kind, "w"))
    assert unconfirmed(server) == {"w": None}
    assert_none(server)


def test_only_holders_that_have_waited_are_unconfirmed(server):
    """One reader has waited, the other has not."""
    make_orphaned_grant(server, "reader")
    server.control.execute_command(*request("reader", "r"))
    assert_unconfirmed(server)
    assert unconfirmed(server)["r"] is None


# ---- the connection sends a command ----

ANYTHING = ["PING", "GET k", "LOCK.INFO k", "LOCK.TOP", "LOCK.RELEASE l o", "MULTI", "RESET", "NOSUCHCOMMAND"]
# CLIENT LIST shows the last command of a connection; these have the same name as the request that waited.
REQUESTS = ["LOCK.ACQUIRE l o", "LOCK.ACQUIRE k o", "LOCK.ACQUIRE k w"]


@pytest.mark.parametrize("command", ANYTHING + REQUESTS)
def test_any_command_of_the_connection_confirms(server, command):
    client = make_orphaned_grant(server)
    assert_unconfirmed(server)
    assert client.reply() == 1
    client.attempt(*command.split())
    assert_none(server)


@each_kind
def test_request_of_the_connection_for_another_lock_confirms(server, kind):
    """Also while that request waits."""
    client = make_orphaned_grant(server, kind)
    say(server, "LOCK.ACQUIRE l o")
    client.reply()
    client.send("LOCK.ACQUIRE", "l", "w", "BLOCK", 0)
    client.wait_blocked()
    assert_none(server)


def test_command_sent_before_the_grant_confirms(server):
    """Commands behind a wait run when it ends: the server cannot know whether their client has read the reply."""
    say(server, "LOCK.ACQUIRE k h")
    client = server.actor()
    client.send(*request("plain", "w", "BLOCK", 0))
    client.send("PING")
    client.wait_blocked()
    say(server, "LOCK.RELEASE k h")
    assert (client.reply(), client.reply()) == (1, "PONG")
    assert_none(server)


def test_commands_of_another_connection_do_not_confirm(server, actor):
    make_orphaned_grant(server)
    for command in ANYTHING + REQUESTS[:2]:
        actor().attempt(*command.split())
    assert_unconfirmed(server)


# ---- a command for the owner ----

CONFIRMS = {
    "renew": "LOCK.RENEW k w",
    "release": "LOCK.RELEASE k w",
    "multi-key release": "LOCK.MRELEASE 1 k w",
    "cancel and release": "LOCK.CANCEL k w RELEASE",
    "guard": "LOCK.GUARD k w PING",
    "watch": "LOCK.WATCH k w",
    "again": "LOCK.ACQUIRE k w",
    "once": "LOCK.ACQUIRE k w ONCE",
    "multi-key request": "LOCK.MACQUIRE 2 j k w",
    "script": "EVAL return(redis.call('LOCK.RENEW','k','w')) 1 k",
}


@pytest.mark.parametrize("what", CONFIRMS)
def test_command_for_the_owner_confirms(server, actor, what):
    make_orphaned_grant(server)
    assert_unconfirmed(server)
    actor().call(*CONFIRMS[what].split())
    assert_none(server)


@pytest.mark.parametrize("kind", ["reader", "writer", "semaphore"])
@pytest.mark.parametrize("command", ["LOCK.RENEW k w", "LOCK.RELEASE k w", "LOCK.WATCH k w"])
def test_grant_of_every_kind_is_confirmed_by_its_owner(server, actor, kind, command):
    make_orphaned_grant(server, kind)
    actor().call(*command.split())
    assert_none(server)


def test_release_of_one_of_two_holds_confirms(server, actor):
    """The owner received a reply, and knows how many holds are left."""
    make_orphaned_grant(server, "semaphore")
    assert actor().call("LOCK.SEMAPHORE", "k", "w", 2) == 2
    assert actor().call("LOCK.RELEASE", "k", "w") == 1
    assert_none(server)


@pytest.mark.parametrize(
    "command",
    ["LOCK.RENEW k o", "LOCK.RELEASE k o", "LOCK.CANCEL k w", "LOCK.GUARD k o PING", "LOCK.WATCH k o", "PTTL k"]
    + ["LOCK.RENEW l w", "LOCK.ACQUIRE l w", "LOCK.WATCH l w", "LOCK.ACQUIRE k o", "HGETALL k"],
)
def test_commands_for_other_owners_and_locks_do_not_confirm(server, actor, command):
    make_orphaned_grant(server)
    actor().attempt(*command.split())
    assert_unconfirmed(server)


def test_commands_in_another_database_do_not_confirm(server, actor):
    make_orphaned_grant(server)
    other = actor()
    other.call("SELECT", 1)
    for command in ("LOCK.ACQUIRE k w", "LOCK.RENEW k w", "LOCK.RELEASE k w", "FLUSHDB"):
        other.call(*command.split())
    assert_unconfirmed(server)


# ---- several grants ----


def granted_together(server, *more):
    """Two clients of one owner, to both of which one release grants the same lock."""
    say(server, f"LOCK.ACQUIRE k h PX {HOUR}")
    both = server.actor("a"), server.actor("b")
    for client in both:
        client.send(*request("plain", "w", "BLOCK", 0, *more))
        client.wait_blocked()
    say(server, "LOCK.RELEASE k h")
    for client in both:
        wait_for(client.has_reply, what="the grant")
    return both


@pytest.mark.parametrize("more", [(), ("ONCE",)], ids=["again", "once"])
@pytest.mark.parametrize("sender", [0, 1])
def test_one_of_two_clients_that_were_granted_confirms(server, more, sender):
    client = granted_together(server, *more)[sender]
    assert unconfirmed_grants(server)[0] == 2
    client.reply()
    client.call("PING")
    assert_none(server)


@pytest.mark.parametrize("closes", [0, 1])
def test_close_of_one_of_two_clients_that_were_granted_does_not_confirm(server, closes):
    clients = granted_together(server)
    clients[closes].kill_socket()
    wait_for(lambda: not clients[closes].is_connected(), what="the connection to close")
    assert_unconfirmed(server)


def test_each_lock_of_a_multikey_grant_is_counted(server):
    keys = [f"k{number}" for number in range(5)]
    for key in keys:
        say(server, f"LOCK.ACQUIRE {key} h")
    client = server.actor()
    client.send("LOCK.MACQUIRE", 5, *keys, "w", "BLOCK", 0)
    client.wait_blocked()
    server.control.execute_command("LOCK.MRELEASE", 5, *keys, "h")
    wait_for(client.has_reply, what="the grant")
    assert unconfirmed_grants(server)[0] == 5
    say(server, "LOCK.RENEW k3 w")
    assert unconfirmed_grants(server)[0] == 4
    assert [unconfirmed(server, key)["w"] is None for key in keys] == [False, False, False, True, False]
    client.reply()
    client.call("PING")
    assert unconfirmed(server, "k0") == {"w": None}
    assert_none(server)


def test_oldest_is_the_age_of_the_oldest_that_is_left(server):
    first, orphans = server.now_ms(), []
    for key in "ab":
        say(server, f"LOCK.ACQUIRE {key} h")
        client = server.actor(key)
        client.send("LOCK.ACQUIRE", key, key, "PX", HOUR, "BLOCK", 0)
        client.wait_blocked()
        say(server, f"LOCK.RELEASE {key} h")
        wait_for(client.has_reply, what="the grant")
        orphans.append(client)
        wait_for(lambda key=key: unconfirmed(server, key)[key] > 20, what="time to pass")
    between, (grants, oldest) = unconfirmed(server, "b")["b"], unconfirmed_grants(server)
    assert grants == 2
    assert between < oldest <= server.now_ms() - first
    say(server, "LOCK.RENEW a a")
    grants, oldest = unconfirmed_grants(server)
    assert grants == 1
    assert oldest <= unconfirmed(server, "b")["b"]


# ---- where they are shown ----


def test_unconfirmed_grant_is_shown_in_a_transaction_and_a_script(server, actor):
    make_orphaned_grant(server)
    client = actor()
    for command in ("MULTI", "LOCK.INFO k", "INFO lock"):
        client.call(*command.split())
    info, section = client.call("EXEC")
    assert as_map(as_map(info)["holders"][0])["unconfirmed"] is not None
    assert "lock_unconfirmed_grants:1" in str(section)
    info = client.call("EVAL", "return redis.call('LOCK.INFO', 'k')", 1, "k")
    assert as_map(as_map(info)["holders"][0])["unconfirmed"] is not None
    section = client.call("EVAL", "#!lua flags=no-writes\nreturn redis.call('INFO', 'lock')", 0)
    assert "lock_unconfirmed_grants:1" in str(section)


def test_unconfirmed_grant_is_found_after_a_transaction_on_another_slot(make_server):
    """In a cluster, inside a transaction, the server looks up every key in the slot of the transaction."""
    server = make_server(cluster_enabled="yes")
    server.control.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    wait_for(lambda: "cluster_state:ok" in server.actor().call("CLUSTER", "INFO"), 20, "the cluster")
    make_orphaned_grant(server)
    client = server.actor()
    for command in ("MULTI", "GET another", "INFO lock", "EXEC"):
        client.call(*command.split())
    assert_unconfirmed(server)
    say(server, "DEL k")
    assert unconfirmed_grants(server) == (0, 0)


def test_permission_for_lock_info_suffices_to_see_it(server):
    make_orphaned_grant(server)
    server.control.execute_command("ACL", "SETUSER", "eve", "on", "nopass", "~k", "-@all", "+lock.info", "+client|id")
    client = server.client(username="eve", password="any")
    [holder] = holders_of(client)
    assert holder["unconfirmed"] is not None
