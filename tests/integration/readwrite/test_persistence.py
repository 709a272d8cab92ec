"""Read-write locks on replicas, in the AOF and in the RDB: the same in every state, and as plain commands."""

import re
from functools import cache

import pytest

from harness import scaled_ms, wait_for, wait_for_sync
from harness.aof import aof_of, commands_in

SHORT, HOUR = scaled_ms(150), 3_600_000
LEASES = "lock:lease:{k}"
LEASE_OVER = "(the first lease ends)"
# A client waits: its name, which is its owner, and its command.
WAIT = re.compile(r"(\w+) waits for (\w+)$")

STATES = {
    "reader": ["RWREAD a PX 600000"],
    "readers": ["RWREAD a PX 600000", "RWREAD b PX 500000", "RWREAD a PX 700000", "RWREAD c"],
    "writer": ["RWWRITE a PX 600000", "RWWRITE a PX 1000"],
    "writer that reads": ["RWWRITE a PX 600000", "RWREAD a PX 700000"],
    "downgraded": ["RWWRITE a PX 800000", "RWREAD a PX 700000", "RELEASE a WRITE"],
    "upgraded": ["RWREAD a PX 600000", "RWWRITE a PX 700000"],
    "upgraded and back": ["RWREAD a PX 600000", "RWWRITE a PX 700000", "RELEASE a WRITE"],
    "upgraded after a wait": ["RWREAD a", "RWREAD b", "a waits for RWWRITE", "RELEASE b"],
    "renewed, longer": ["RWREAD a PX 600000", "RWREAD b PX 700000", "RENEW a PX 900000"],
    "last lease renewed, shorter": ["RWREAD a PX 600000", "RWREAD b PX 700000", "RENEW b PX 500000"],
    "reads and writes renewed": ["RWWRITE a PX 600000", "RWREAD a PX 700000", "RENEW a PX 500000"],
    "last lease released": ["RWREAD a PX 600000", "RWREAD b PX 700000", "RELEASE b"],
    "one of two released": ["RWREAD a PX 600000", "RWREAD a PX 700000", "RELEASE a"],
    "free again": ["RWREAD a", "RWWRITE a", "RELEASE a WRITE", "RELEASE a"],
    "forced": ["RWREAD a", "RWREAD b", "FORCE"],
    "forced and handed off": ["RWREAD a", "b waits for RWWRITE", "FORCE"],
    "handed off to readers": ["RWWRITE a", "b waits for RWREAD", "c waits for RWREAD", "RELEASE a"],
    "handed off to plain": ["RWREAD a", "b waits for ACQUIRE", "RELEASE a"],
    "handed off from plain": ["ACQUIRE a", "b waits for RWREAD", "RELEASE a"],
    "a reader is over": [f"RWREAD a PX {SHORT}", "RWREAD b PX 600000", LEASE_OVER, "RWREAD c PX 500000"],
    "a reader is over, null": [f"RWREAD a PX {SHORT}", "RWREAD b PX 600000", LEASE_OVER, "RWWRITE c"],
    "the writer is over": [f"RWWRITE a PX {SHORT}", "RWREAD a PX 600000", LEASE_OVER, "RENEW a PX 500000"],
    "the writer is over, readers waited": [
        "RWWRITE a PX 600000",
        "b waits for RWREAD",
        "c waits for RWREAD",
        f"RENEW a PX {SHORT}",
        "RWREAD a PX 600000",
    ],
    "all are over, a writer waited": [
        "RWREAD a PX 600000",
        "RWREAD b PX 600000",
        "w waits for RWWRITE",
        f"RENEW a PX {SHORT}",
        f"RENEW b PX {SHORT}",
    ],
    "TTL set by hand": ["RWREAD a PX 600000", "! PEXPIRE k 500000", "RWREAD b PX 400000"],
    "TTL taken by hand": ["RWREAD a PX 600000", "! PERSIST k", "RWREAD b PX 400000", "RELEASE b"],
    "leases deleted by hand": ["RWREAD a PX 600000", "RWREAD b", f"! DEL {LEASES}", "RWREAD a"],
    "leases overwritten by hand": ["RWREAD a PX 600000", "RWREAD b", f"! SET {LEASES} x", "RELEASE b"],
    "deleted and taken again": ["RWREAD a PX 600000", "! DEL k", "RWREAD b PX 400000"],
    "deleted while readers wait": ["RWWRITE a", "b waits for RWREAD", "c waits for RWREAD", "! DEL k"],
    "longest lease": [f"RWREAD a PX {2**62}", "RWREAD b PX 400000"],
}
each_state = pytest.mark.parametrize("steps", STATES.values(), ids=STATES)


def play(server, steps, db=0):
    """Plays the steps on k; all who waited have been answered at the end."""
    client, waiters = server.client(db=db), []
    for step in steps:
        if step == LEASE_OVER:
            end = int(client.zrange(LEASES, 0, 0, withscores=True)[0][1])
            wait_for(lambda end=end: server.now_ms() > end, what="the lease to end")
        elif found := WAIT.match(step):
            waiter = server.actor(found[1], db=db)
            waiter.send(f"LOCK.{found[2]}", "k", found[1], "PX", 900_000, "BLOCK", 0)
            waiters.append(waiter.wait_blocked())
        elif step.startswith("! "):
            client.execute_command(*step[2:].split())
        else:
            word, *rest = step.split()
            client.execute_command(f"LOCK.{word}", "k", *rest)
    for waiter in waiters:
        assert waiter.reply(timeout=10) == 1


@cache
def replica_of(server):
    return server.start_replica()


@each_state
def test_replica_holds_the_same(server, steps):
    replica = replica_of(server)
    play(server, steps)
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump()


@each_state
def test_both_keys_end_together(server, steps):
    play(server, steps)
    ends = {key: entry[2] for (_, key), entry in server.dump().items() if entry[0] != "string"}
    if LEASES.encode() in ends:
        assert ends[b"k"] == ends[LEASES.encode()]


def play_all(server):
    for db, steps in enumerate(STATES.values()):
        play(server, steps, db)
    return server.dump()


def test_aof_brings_all_back_and_has_no_command_of_ours(make_server):
    server = make_server(databases=len(STATES), appendonly="yes", aof_use_rdb_preamble="no", lock_default_lease=HOUR)
    before = play_all(server)
    said = commands_in(aof_of(server))
    assert said and not [words for words in said if words[0].upper().startswith("LOCK.")]
    server.kill()
    server.start()
    assert server.dump() == before
    server.control.bgrewriteaof()
    wait_for(lambda: "Background AOF rewrite finished successfully" in server.log(), 20, "the rewrite")
    server.kill()
    server.start()
    assert server.dump() == before


def test_rdb_brings_all_back(make_server):
    server = make_server(databases=len(STATES), lock_default_lease=HOUR)
    before = play_all(server)
    server.control.execute_command("DEBUG", "RELOAD")
    assert server.dump() == before
    server.restart(save=True)
    assert server.dump() == before


def test_lock_goes_on_after_a_restart(make_server):
    server = make_server()
    play(server, STATES["readers"])
    server.restart(save=True)
    client = server.client()
    assert client.execute_command("LOCK.RWREAD", "k", "b") == 2
    assert client.execute_command("LOCK.RWWRITE", "k", "b") is None
    assert client.execute_command("LOCK.RELEASE", "k", "a") == 1


def test_waiting_clients_live_through_a_reload(server, actor):
    server.control.execute_command("LOCK.RWREAD", "k", "a", "PX", 600_000)
    writer = actor("w")
    writer.send("LOCK.RWWRITE", "k", "w", "BLOCK", 0)
    writer.wait_blocked()
    server.control.execute_command("DEBUG", "RELOAD")
    assert server.control.execute_command("LOCK.RELEASE", "k", "a") == 0
    assert writer.reply() == 1


# What exactly is written


def written(make_server, prepare, step):
    """What the AOF says of one step: a list of transactions."""
    server = make_server(appendonly="yes", aof_use_rdb_preamble="no")
    play(server, prepare)
    before = len(commands_in(aof_of(server)))
    waiters = []
    for name, command in step[:-1]:
        waiter = server.actor(name)
        waiter.send(f"LOCK.{command}", "k", name, "BLOCK", 0)
        waiters.append(waiter.wait_blocked())
    server.control.execute_command(*step[-1].split())
    for waiter in waiters:
        assert waiter.reply() == 1
    return [[word for word in words if not word.isdigit()] for words in commands_in(aof_of(server))[before:]]


def test_release_and_all_its_grants_are_one_transaction(make_server):
    step = [("b", "RWREAD"), ("c", "RWREAD"), "LOCK.RELEASE k a"]
    said = written(make_server, ["RWWRITE a"], step)
    assert said[0] == ["MULTI"] and said[-1] == ["EXEC"]
    assert sum(words == ["MULTI"] for words in said) == 1
    begins = {tuple(words[:3]) for words in said}
    assert begins >= {("HSET", "k", "b"), ("HSET", "k", "c"), ("ZADD", LEASES, "b")}


def test_end_of_a_dead_reader_and_what_finds_it_are_one_transaction(make_server):
    prepare = [f"RWREAD a PX {SHORT}", "RWREAD b PX 600000", LEASE_OVER]
    said = written(make_server, prepare, ["LOCK.RWREAD k c PX 1000"])
    assert said[0] == ["MULTI"] and said[-1] == ["EXEC"]
    assert ["HDEL", "k", "a"] in said and ["ZREM", LEASES, "a"] in said and ["HSET", "k", "c"] in said


def test_what_finds_nothing_to_do_writes_nothing(make_server):
    for command in ("LOCK.RWWRITE k b", "LOCK.RWREAD k b", "LOCK.INFO k", "LOCK.CANCEL k a"):
        assert written(make_server, ["RWWRITE a"], [command]) == []
