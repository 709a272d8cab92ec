"""The changes of lock commands are in the AOF and in the RDB, as ordinary commands with absolute times.

The lock commands are those of the table in model/mutations.py.
"""

import pytest

from harness import wait_for
from harness.aof import aof_of, commands_in
from model.lock_scene import end_of
from model.mutations import MUTATIONS, in_lua


# Restarts: every mutation in one server, each in its own database


def perform_all(server):
    for db, mutation in enumerate(MUTATIONS.values()):
        mutation.perform(server, db)


def held(server):
    """What the server holds, by the name of the mutation that left it."""
    return {(list(MUTATIONS)[db], key): entry for (db, key), entry in server.dump().items()}


@pytest.fixture
def make_large_server(make_server):
    """make_server for servers with a database for each mutation."""
    return lambda **config: make_server(databases=len(MUTATIONS), **config)


@pytest.mark.parametrize("preamble", ["no", "yes"], ids=["plain base", "RDB base"])
def test_aof_restores_all_changes_after_a_crash(make_large_server, preamble):
    server = make_large_server(appendonly="yes", appendfsync="always", aof_use_rdb_preamble=preamble)
    perform_all(server)
    before = held(server)
    server.kill()
    server.start()
    assert held(server) == before
    server.control.bgrewriteaof()
    done = "Background AOF rewrite finished successfully"
    wait_for(lambda: done in server.log(), what="the AOF to be rewritten")
    assert held(server) == before
    server.kill()
    server.start()
    assert held(server) == before


def test_rdb_restores_all_changes(make_large_server):
    server = make_large_server()
    perform_all(server)
    before = held(server)
    server.control.execute_command("DEBUG", "RELOAD")
    assert held(server) == before
    server.restart(save=True)
    assert held(server) == before


def test_server_without_the_module_can_load_the_aof(make_large_server):
    server, without_module = make_large_server(appendonly="yes"), make_large_server(load_module=False)
    perform_all(server)
    # The base is that of an empty server.
    stream = aof_of(server)
    assert b"LOCK." not in stream.upper()
    feed = without_module.raw_connection()
    feed.sendall(stream + b"ECHO end\r\n")
    replies = list(iter(feed.makefile("rb").readline, b"end\r\n"))
    assert [reply for reply in replies if reply.startswith(b"-")] == []
    assert held(without_module) == held(server)


# The commands in the AOF

RENEWED = ["PEXPIREAT", "k", "END"]
GRANTED = [["HSET", "k", "w", "1"], RENEWED]
RENEWED_L = ["PEXPIREAT", "l", "END"]  # the same end
GRANTED_L = [["HSET", "l", "w", "1"], RENEWED_L]
WRITTEN = {
    "acquire": [["MULTI"], ["HSET", "k", "o", "1"], RENEWED, ["EXEC"]],
    "acquire again": [["MULTI"], ["HSET", "k", "o", "2"], RENEWED, ["EXEC"]],
    "acquire again, shorter": [["HSET", "k", "o", "2"]],
    "release": [["DEL", "k"]],
    "release one of two": [["HSET", "k", "o", "1"]],
    "release, hand off": [["MULTI"], ["DEL", "k"], *GRANTED, ["EXEC"]],
    "renew, shorter": [RENEWED],
    "force": [["DEL", "k"]],
    "force, hand off": [["MULTI"], ["DEL", "k"], *GRANTED, ["EXEC"]],
    "cancel": [],
    "multi-key": [["MULTI"], ["HSET", "k", "o", "1"], RENEWED, ["HSET", "l", "o", "1"], RENEWED_L, ["EXEC"]],
    "multi-key release": [["MULTI"], ["DEL", "k"], ["DEL", "l"], ["EXEC"]],
    "multi-key release, hand off": [["MULTI"], ["DEL", "k"], ["DEL", "l"], *GRANTED, *GRANTED_L, ["EXEC"]],
    "cancel, multi-key": [],
}


@pytest.mark.parametrize("interop", ["no", "yes"], ids=["", "redisson"])
def test_change_is_ordinary_commands_in_one_transaction(make_large_server, interop):
    # The message that is published for Redisson is not in the AOF.
    server = make_large_server(appendonly="yes", lock_redisson_interop=interop)
    written = {}
    for db, name in enumerate(WRITTEN):
        waiter = MUTATIONS[name].arrange(server, db)
        client, start = server.client(db=db), len(aof_of(server))
        client.execute_command(*MUTATIONS[name].command.split())
        MUTATIONS[name].check_waiter(waiter)
        end = str(end_of(client))
        commands = commands_in(aof_of(server)[start:])
        written[name] = [["END" if word == end else word for word in words] for words in commands]
    assert written == WRITTEN


def test_script_that_hands_off_twice_is_one_transaction(make_server):
    server = make_server(appendonly="yes")
    client, waiter = server.actor(), MUTATIONS["release, hand off"].arrange(server)
    start = len(aof_of(server))
    in_lua(client, "LOCK.RELEASE k o", "LOCK.FORCE k")
    assert waiter.reply() == 1
    commands = [words[0] for words in commands_in(aof_of(server)[start:])]
    assert commands == ["MULTI", "DEL", "HSET", "PEXPIREAT", "DEL", "EXEC"]


@pytest.mark.parametrize("listeners", ["replica", "AOF", "none"])
def test_changes_are_counted_for_save_points(make_large_server, listeners):
    server = make_large_server(appendonly="yes" if listeners == "AOF" else "no")
    if listeners == "replica":
        server.start_replica(databases=len(MUTATIONS))

    def changes():
        return server.info("persistence")["rdb_changes_since_last_save"]

    counted = {}
    for db, (name, mutation) in enumerate(MUTATIONS.items()):
        waiter, client = mutation.arrange(server, db), server.client(db=db)
        before = changes()
        client.execute_command(*mutation.command.split())
        mutation.check_waiter(waiter)
        counted[name] = changes() > before
    assert counted == {name: m.changes_key or m.changes_queue for name, m in MUTATIONS.items()}
