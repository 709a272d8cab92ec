"""A re-entry keeps its token only if this process has given it, and has not loaded or swapped data since.

A snapshot, a promotion or a swap can restore the record of an older token, from before others received larger ones.
"""

import shutil

import pytest

from harness import wait_for_sync
from model.fenced_scene import TOKEN, begin_to_wait, each_command, stopped, take

LONG = ("EX", 600)


def alice(client, command="LOCK.ACQUIRE"):
    return take(client, "alice", *LONG, command=command)


def bob_instead(client, command="LOCK.ACQUIRE"):
    """The lock is granted to Bob, who then releases it."""
    client.execute_command("LOCK.FORCE", "k")
    token = take(client, "bob", *LONG, command=command)
    client.execute_command("LOCK.RELEASE", "k", "bob")
    return token


def is_alices(client, token):
    """The record is the old one, so that the next request is a re-entry by the owner of the last token."""
    assert client.hgetall(TOKEN) == {"token": str(token), "owner": "alice"}
    assert client.exists("k")
    return True


def grows_once(client, old, new, command="LOCK.ACQUIRE"):
    """Alice re-enters, and receives a larger token than any before; from then on she keeps it."""
    assert is_alices(client, old)
    token = alice(client, command)
    assert token > new
    assert client.hgetall(TOKEN) == {"token": str(token), "owner": "alice"}
    assert alice(client, command) == token
    return True


@each_command
def test_token_grows_after_a_restart_from_a_snapshot(make_server, command):
    server = make_server()
    old = alice(server.control, command)
    server.control.save()
    new = bob_instead(server.control, command)
    server.kill()
    server.start()
    assert grows_once(server.control, old, new, command)


def test_token_grows_after_a_restart_from_an_aof_without_its_end(make_server):
    server = make_server(appendonly="yes", appendfsync="always")
    old = alice(server.control)
    shutil.copytree(server.folder / "appendonlydir", server.folder / "lost")
    new = bob_instead(server.control)
    server.kill()
    shutil.rmtree(server.folder / "appendonlydir")
    (server.folder / "lost").rename(server.folder / "appendonlydir")
    server.start()
    assert grows_once(server.control, old, new)


@each_command
def test_token_grows_on_a_promoted_replica_that_missed_writes(make_server, command):
    master = make_server()
    replica = master.start_replica()
    old = alice(master.control, command)
    wait_for_sync(master, replica)
    with stopped(replica):
        master.control.client_kill_filter(_type="replica")
        new = bob_instead(master.control, command)
        master.kill()
    replica.control.execute_command("REPLICAOF", "NO", "ONE")
    assert grows_once(replica.control, old, new, command)


def test_token_grows_on_a_master_that_was_a_replica(make_server):
    """It gave both tokens itself; its data now is that of its master, which had missed the second one."""
    master = make_server()
    replica = master.start_replica()
    old = alice(master.control)
    wait_for_sync(master, replica)
    replica.control.execute_command("REPLICAOF", "NO", "ONE")
    new = bob_instead(master.control)
    master.control.execute_command("REPLICAOF", "127.0.0.1", replica.port)
    wait_for_sync(replica, master)
    master.control.execute_command("REPLICAOF", "NO", "ONE")
    assert grows_once(master.control, old, new)


def test_token_grows_after_a_reload_of_an_old_snapshot(make_server):
    server = make_server()
    old = alice(server.control)
    server.control.save()
    new = bob_instead(server.control)
    server.control.execute_command("DEBUG", "RELOAD", "NOSAVE")
    assert grows_once(server.control, old, new)


@each_command
@pytest.mark.parametrize("there", [1, 15])
@pytest.mark.parametrize("subscribed", ["by the token", "by a waiter before it"])
def test_token_grows_after_databases_are_swapped_there_and_back(make_server, there, command, subscribed):
    server = make_server()
    if subscribed != "by the token":
        server.control.execute_command("LOCK.ACQUIRE", "other", "holder")
        server.control.execute_command("LOCK.ACQUIRE", "other", "waiter", "BLOCK", 1)
    client = server.control
    old = alice(client, command)
    client.swapdb(0, there)
    new = bob_instead(client, command)
    client.swapdb(there, 0)
    assert grows_once(client, old, new, command)


def test_tokens_grow_in_both_swapped_databases(make_server):
    server = make_server()
    one, three = server.client(db=1), server.client(db=3)
    old = alice(three)
    server.control.swapdb(1, 3)
    assert grows_once(one, old, old)
    server.control.swapdb(1, 3)
    assert alice(three) > old


def test_tokens_grow_in_the_databases_of_each_of_several_swaps(make_server):
    """Each time with another database, of which the module has nothing in memory."""
    server = make_server()
    clients = [server.client(db=db) for db in range(8)]
    last = max(alice(client) for client in clients)
    for first, second in ((0, 1), (1, 2), (3, 2), (0, 4), (5, 4), (7, 6)):
        server.control.swapdb(first, second)
        tokens = [alice(clients[db]) for db in (first, second)]
        assert min(tokens) > last
        last = max(tokens)


def test_database_that_was_not_swapped_keeps_its_tokens(make_server):
    server = make_server()
    tokens = {db: alice(server.client(db=db)) for db in (0, 1, 2, 3, 4)}
    server.control.swapdb(1, 3)
    for db in (0, 2, 4):
        assert alice(server.client(db=db)) == tokens[db]
    server.control.swapdb(0, 9)
    for db in (2, 4):
        assert alice(server.client(db=db)) == tokens[db]


def test_token_grows_after_a_swap_and_a_reload_of_all_databases(make_server):
    server = make_server()
    server.control.execute_command("LOCK.ACQUIRE", "other", "o", "FENCED")
    server.control.swapdb(0, 1)
    old = alice(server.control)
    server.control.save()
    new = bob_instead(server.control)
    server.control.execute_command("DEBUG", "RELOAD", "NOSAVE")
    assert grows_once(server.control, old, new)


def test_token_grows_after_a_swap_while_a_fenced_client_waits(make_server):
    server = make_server()
    client = server.control
    old = alice(client)
    waiter = begin_to_wait(server.actor, "bob", "FENCED")
    client.swapdb(0, 1)
    new = waiter.reply()
    assert new > old
    client.execute_command("LOCK.RELEASE", "k", "bob")
    client.swapdb(0, 1)
    assert grows_once(client, old, new)


def test_reentry_keeps_its_token_while_the_clock_steps_back(clock, make_server):
    server = make_server()
    token = alice(server.control)
    for hours in (-1, -2, 0):
        clock.step_for(server, hours * 3600)
        assert alice(server.control) == token


@pytest.mark.parametrize("event", ["DEBUG RELOAD NOSAVE", "SWAPDB 0 1"])
def test_token_grows_after_a_load_or_swap_with_the_clock_set_back(clock, make_server, event):
    server = make_server()
    client = server.control
    old = alice(client)
    client.save()
    client.swapdb(0, 1) if "SWAPDB" in event else None
    new = bob_instead(client)
    clock.step_for(server, -3600)
    client.execute_command(*event.split())
    assert grows_once(client, old, new)


def test_record_written_after_a_flush_is_not_kept_as_a_token(make_server):
    server = make_server()
    old = alice(server.control)
    new = bob_instead(server.control)
    server.control.flushall()
    server.control.hset(TOKEN, mapping={"token": new + 10**9, "owner": "alice"})
    server.control.hset("k", "alice", 1)
    assert new > old and alice(server.control) > new + 10**9  # a token that has not been given yet
