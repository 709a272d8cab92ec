"""Read-write locks and semaphores on replicas, in the AOF and the RDB: the same in all states, as ordinary commands."""

import re
from functools import cache

import pytest

from harness import scaled_ms, wait_for, wait_for_sync
from harness.aof import aof_of, commands_in
from model.semaphore_scene import LEASES, permits_of

SHORT, HOUR = scaled_ms(150), 3_600_000
AOF = dict(appendonly="yes", aof_use_rdb_preamble="no")
LEASE_EXPIRES = "(the first lease expires)"
# A client waits: its name, which is its owner, and its command.
WAIT = re.compile(r"(\w+) waits for (.+)$")
CROWD = [f"SEMAPHORE o{number} 99 PX {600_000 + number}" for number in range(20)]

READ_WRITE = {
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
    "a reader has expired": [f"RWREAD a PX {SHORT}", "RWREAD b PX 600000", LEASE_EXPIRES, "RWREAD c PX 500000"],
    "a reader has expired, null": [f"RWREAD a PX {SHORT}", "RWREAD b PX 600000", LEASE_EXPIRES, "RWWRITE c"],
    "the writer has expired": [f"RWWRITE a PX {SHORT}", "RWREAD a PX 600000", LEASE_EXPIRES, "RENEW a PX 500000"],
    "the writer expires, readers wait": [
        "RWWRITE a PX 600000",
        "b waits for RWREAD",
        "c waits for RWREAD",
        f"RENEW a PX {SHORT}",
        "RWREAD a PX 600000",
    ],
    "all expire, a writer waits": [
        "RWREAD a PX 600000",
        "RWREAD b PX 600000",
        "w waits for RWWRITE",
        f"RENEW a PX {SHORT}",
        f"RENEW b PX {SHORT}",
    ],
    "TTL set directly": ["RWREAD a PX 600000", "! PEXPIRE k 500000", "RWREAD b PX 400000"],
    "TTL removed directly": ["RWREAD a PX 600000", "! PERSIST k", "RWREAD b PX 400000", "RELEASE b"],
    "leases deleted directly": ["RWREAD a PX 600000", "RWREAD b", f"! DEL {LEASES}", "RWREAD a"],
    "leases overwritten directly": ["RWREAD a PX 600000", "RWREAD b", f"! SET {LEASES} x", "RELEASE b"],
    "deleted and acquired again": ["RWREAD a PX 600000", "! DEL k", "RWREAD b PX 400000"],
    "deleted while readers wait": ["RWWRITE a", "b waits for RWREAD", "c waits for RWREAD", "! DEL k"],
    "longest lease": [f"RWREAD a PX {2**62}", "RWREAD b PX 400000"],
}
SEMAPHORE = {
    "one owner": ["SEMAPHORE a 5 PX 600000"],
    "owners": ["SEMAPHORE a 5 PERMITS 2 PX 600000", "SEMAPHORE b 5 PX 500000", "SEMAPHORE a 5 PX 700000"],
    "crowd": CROWD,
    "crowd of which two are left": [*CROWD, *(f"RELEASE o{number}" for number in range(18))],
    "some released": ["SEMAPHORE a 5 PERMITS 3 PX 600000", "RELEASE a PERMITS 2"],
    "last lease released": ["SEMAPHORE a 5 PX 600000", "SEMAPHORE b 5 PX 700000", "RELEASE b"],
    "first lease released": ["SEMAPHORE a 5 PX 600000", "SEMAPHORE b 5 PX 700000", "RELEASE a"],
    "free again": ["SEMAPHORE a 5 PERMITS 2", "RELEASE a", "RELEASE a"],
    "renewed, longer": ["SEMAPHORE a 5 PX 600000", "SEMAPHORE b 5 PX 700000", "RENEW a PX 900000"],
    "last lease renewed, shorter": ["SEMAPHORE a 5 PX 600000", "SEMAPHORE b 5 PX 700000", "RENEW b PX 500000"],
    "forced": ["SEMAPHORE a 5", "SEMAPHORE b 5", "FORCE"],
    "several granted by one release": [
        "SEMAPHORE a 5 PERMITS 5",
        "b waits for SEMAPHORE 5 PERMITS 2",
        "c waits for SEMAPHORE 5",
        "RELEASE a PERMITS 4",
    ],
    "handed off to a plain lock": ["SEMAPHORE a 5", "b waits for ACQUIRE", "RELEASE a"],
    "handed off from a plain lock": ["ACQUIRE a", "b waits for SEMAPHORE 5", "RELEASE a"],
    "a lease has expired, its permit is needed": [
        f"SEMAPHORE a 2 PX {SHORT}",
        "SEMAPHORE b 2 PX 600000",
        LEASE_EXPIRES,
        "SEMAPHORE c 2",
    ],
    "a lease has expired, its owner acquires again": [
        f"SEMAPHORE a 9 PERMITS 3 PX {SHORT}",
        "SEMAPHORE b 9 PX 600000",
        LEASE_EXPIRES,
        "SEMAPHORE a 9",
    ],
    "a lease expires, a client waits": [
        "SEMAPHORE a 2 PX 600000",
        "SEMAPHORE b 2 PX 600000",
        "c waits for SEMAPHORE 2",
        f"RENEW a PX {SHORT}",
    ],
    "all expire": [
        "SEMAPHORE a 2 PX 600000",
        "SEMAPHORE b 2 PX 600000",
        "w waits for SEMAPHORE 2",
        f"RENEW a PX {SHORT}",
        f"RENEW b PX {SHORT}",
    ],
    "TTL set directly": ["SEMAPHORE a 5 PX 600000", "! PEXPIRE k 500000", "SEMAPHORE b 5 PX 400000"],
    "TTL removed directly": ["SEMAPHORE a 5 PX 600000", "! PERSIST k", "SEMAPHORE b 5 PX 400000", "RELEASE b"],
    "leases deleted directly": ["SEMAPHORE a 5", "SEMAPHORE b 5", f"! DEL {LEASES}", "SEMAPHORE a 5"],
    "leases overwritten directly": ["SEMAPHORE a 5", "SEMAPHORE b 5", f"! SET {LEASES} x", "RELEASE b"],
    "deleted and acquired again": ["SEMAPHORE a 5 PX 600000", "! DEL k", "SEMAPHORE b 5 PX 400000"],
    "permits written directly": ["SEMAPHORE a 5", "SEMAPHORE b 5", "! HSET k c 2", "SEMAPHORE d 5", "RELEASE c"],
    "longest lease": [f"SEMAPHORE a 5 PX {2**62}", "SEMAPHORE b 5 PX 400000"],
}
STATES = {f"read-write: {name}": steps for name, steps in READ_WRITE.items()}
STATES |= {f"semaphore: {name}": steps for name, steps in SEMAPHORE.items()}
each_state = pytest.mark.parametrize("steps", STATES.values(), ids=STATES)


def play(server, steps, db=0):
    """Plays the steps on k; at the end all waiters have received a reply."""
    client, waiters = server.client(db=db), []
    for step in steps:
        if step == LEASE_EXPIRES:
            end = int(client.zrange(LEASES, 0, 0, withscores=True)[0][1])
            wait_for(lambda end=end: server.now_ms() > end, what="the lease to expire")
        elif found := WAIT.match(step):
            word, *rest = found[2].split()
            waiter = server.actor(found[1], db=db)
            waiter.send(f"LOCK.{word}", "k", found[1], *rest, "PX", 900_000, "BLOCK", 0)
            waiters.append((waiter.wait_blocked(), int(rest[2]) if "PERMITS" in rest else 1))
        elif step.startswith("! "):
            client.execute_command(*step[2:].split())
        else:
            word, *rest = step.split()
            client.execute_command(f"LOCK.{word}", "k", *rest)
    for waiter, count in waiters:
        assert waiter.reply(timeout=10) == count


@cache
def replica_of(server):
    return server.start_replica()


@each_state
def test_replica_has_the_same_data(server, steps):
    replica = replica_of(server)
    play(server, steps)
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump()


@each_state
def test_key_and_lease_key_expire_together(server, steps):
    play(server, steps)
    ends = {key: entry[2] for (_, key), entry in server.dump().items() if entry[0] != "string"}
    if LEASES.encode() in ends:
        assert ends[b"k"] == ends[LEASES.encode()]


def play_all(server):
    for db, steps in enumerate(STATES.values()):
        play(server, steps, db)
    return server.dump()


def test_aof_restores_all_states_and_has_no_command_of_the_module(make_server):
    server = make_server(databases=len(STATES), lock_default_lease=HOUR, **AOF)
    before = play_all(server)
    commands = commands_in(aof_of(server))
    assert commands and not [words for words in commands if words[0].upper().startswith("LOCK.")]
    server.kill()
    server.start()
    assert server.dump() == before
    server.control.bgrewriteaof()
    wait_for(lambda: "Background AOF rewrite finished successfully" in server.log(), 20, "the rewrite")
    server.kill()
    server.start()
    assert server.dump() == before


def test_rdb_restores_all_states(make_server):
    server = make_server(databases=len(STATES), lock_default_lease=HOUR)
    before = play_all(server)
    server.control.execute_command("DEBUG", "RELOAD")
    assert server.dump() == before
    server.restart(save=True)
    assert server.dump() == before


def test_lock_can_be_used_after_a_restart(make_server):
    server = make_server()
    play(server, READ_WRITE["readers"])
    server.restart(save=True)
    client = server.client()
    assert client.execute_command("LOCK.RWREAD", "k", "b") == 2
    assert client.execute_command("LOCK.RWWRITE", "k", "b") is None
    assert client.execute_command("LOCK.RELEASE", "k", "a") == 1


def test_waiting_clients_survive_a_reload(server, actor):
    server.control.execute_command("LOCK.RWREAD", "k", "a", "PX", 600_000)
    writer = actor("w")
    writer.send("LOCK.RWWRITE", "k", "w", "BLOCK", 0)
    writer.wait_blocked()
    server.control.execute_command("DEBUG", "RELOAD")
    assert server.control.execute_command("LOCK.RELEASE", "k", "a") == 0
    assert writer.reply() == 1


@pytest.mark.parametrize("again", ["a restart", "a reload", "a promotion"])
def test_sum_of_permits_is_counted_again(make_server, again):
    """The remembered sum of a semaphore is not valid for its newly loaded key."""
    server = make_server()
    play(server, ["SEMAPHORE a 9 PERMITS 2", "SEMAPHORE b 9 PERMITS 3"])
    if again == "a restart":
        server.restart(save=True)
    elif again == "a reload":
        server.control.execute_command("DEBUG", "RELOAD")
    else:
        replica = server.start_replica()
        play(server, ["SEMAPHORE c 9", "RELEASE b PERMITS 1"])
        wait_for_sync(server, replica)
        replica.control.execute_command("REPLICAOF", "NO", "ONE")
        server = replica
    taken = sum(permits_of(server).values())
    client = server.client()
    assert client.execute_command("LOCK.SEMAPHORE", "k", "z", taken, "PX", HOUR) is None
    assert client.execute_command("LOCK.SEMAPHORE", "k", "z", taken + 1, "PX", HOUR) == 1


# The exact commands in the AOF


def written(make_server, prepare, *steps):
    """The commands in the AOF of these steps, without SELECT."""
    server = make_server(**AOF)
    play(server, prepare)
    before = len(commands_in(aof_of(server)))
    play(server, steps)
    commands = commands_in(aof_of(server))[before:]
    assert commands[0] == ["MULTI"] and commands[-1] == ["EXEC"]
    assert sum(words == ["MULTI"] for words in commands) == 1
    return commands


def test_release_of_a_writer_and_all_its_grants_are_one_transaction(make_server):
    commands = written(make_server, ["RWWRITE a"], "b waits for RWREAD", "c waits for RWREAD", "RELEASE a")
    assert {words[2] for words in commands if words[:2] == ["HSET", "k"]} >= {"b", "c"}
    assert "b" in [words[-1] for words in commands if words[:2] == ["ZADD", LEASES]]


def test_release_of_permits_and_all_its_grants_are_one_transaction(make_server):
    waits = [f"{name} waits for SEMAPHORE 3" for name in "bc"]
    commands = written(make_server, ["SEMAPHORE a 3 PERMITS 3"], *waits, "RELEASE a PERMITS 2")
    assert [words for words in commands if words[0] == "HSET"] == [["HSET", "k", name, "1"] for name in "abc"]


def test_removal_of_an_expired_reader_is_in_the_transaction_that_finds_it(make_server):
    prepare = [f"RWREAD a PX {SHORT}", "RWREAD b PX 600000", LEASE_EXPIRES]
    commands = written(make_server, prepare, "RWREAD c PX 1000")
    assert ["HDEL", "k", "a"] in commands and ["ZREM", LEASES, "a"] in commands and ["HSET", "k", "c", "1"] in commands


@pytest.mark.parametrize(
    "prepare, commands",
    [
        (["RWWRITE a"], ["RWWRITE b", "RWREAD b", "INFO", "CANCEL a"]),
        (CROWD, ["SEMAPHORE z 20", "RELEASE z", "RELEASE o1 PERMITS 2", "INFO", "CANCEL o1"]),
    ],
    ids=["read-write", "semaphore"],
)
def test_command_that_changes_nothing_writes_nothing(make_server, prepare, commands):
    server = make_server(**AOF)
    play(server, prepare)
    before = aof_of(server)
    for command in commands:
        word, *rest = command.split()
        server.actor().attempt(f"LOCK.{word}", "k", *rest)
    assert aof_of(server) == before
