"""Latches survive restarts, promotions and kills: replicas and the AOF get ordinary commands with the same effect."""

import pytest

from harness import scaled_ms, wait_for, wait_for_sync
from harness.aof import aof_of, commands_in
from model.latch_scene import HOUR, begins_to_wait, latch_waiters

COMMANDS = ["LATCH.SET a 3", "LATCH.DOWN a", f"LATCH.SET b 5 PX {HOUR}", "LATCH.DOWN b 2", "LATCH.SET c 1"]
COMMANDS += ["LATCH.DOWN c"]
COMMANDS += ["LATCH.SET d 4 EX 1000", "LATCH.SET d 0", "LATCH.SET e 9 PX 100000", "LATCH.SET e 2", "LATCH.DOWN nothing"]


def run_all(server):
    client = server.client()
    for command in COMMANDS:
        client.execute_command(*command.split())
    client.execute_command("SET", "f", -1)
    client.execute_command("LATCH.DOWN", "f")


def test_replica_has_what_the_master_has(make_server):
    master = make_server()
    replica = master.start_replica()
    run_all(master)
    wait_for_sync(master, replica)
    assert replica.dump() == master.dump()
    assert {key for _, key in master.dump()} == {b"a", b"b", b"e"}


def test_aof_has_plain_commands_with_absolute_times(make_server):
    server = make_server(appendonly="yes")
    run_all(server)
    before = server.dump()
    names = [command[0].upper() for command in commands_in(aof_of(server))]
    assert {word for word in names if word not in ("MULTI", "EXEC")} == {"SET", "DEL"}
    server.kill()
    server.start()
    assert server.dump() == before
    assert server.control.execute_command("LATCH.DOWN", "b") == 2


@pytest.mark.parametrize("how", ["save", "kill"])
def test_latches_survive_a_restart(make_server, how):
    server = make_server(**({"appendonly": "yes", "appendfsync": "always"} if how == "kill" else {}))
    run_all(server)
    before = server.dump()
    if how == "kill":
        server.kill()
        server.start()
    else:
        server.restart(save=True)
    assert server.dump() == before
    waiter = begins_to_wait(server, key="a")
    assert server.control.execute_command("LATCH.DOWN", "a", 2) == 0
    assert waiter.reply() == 1


@pytest.mark.parametrize("opening", ["LATCH.DOWN l", "DEL l", "PEXPIRE l 20"])
def test_promoted_replica_opens_the_replicated_latch(make_server, opening):
    master = make_server()
    replica = master.start_replica()
    master.control.execute_command("LATCH.SET", "l", 1)
    wait_for_sync(master, replica)
    master.kill()
    replica.control.replicaof("NO", "ONE")
    waiter = begins_to_wait(replica)
    replica.control.execute_command(*opening.split())
    assert waiter.reply() == 1
    assert latch_waiters(replica) == 0


def test_replicated_latch_expires_on_the_promoted_replica(make_server):
    master = make_server()
    replica = master.start_replica()
    master.control.execute_command("LATCH.SET", "l", 1, "PX", scaled_ms(3000))
    wait_for_sync(master, replica)
    master.kill()
    replica.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    replica.control.replicaof("NO", "ONE")
    assert replica.actor().call("LATCH.WAIT", "l", "BLOCK", 0, timeout=20) == 1


def test_failover_unblocks_waiters_and_the_new_master_has_the_latch(make_server):
    master = make_server()
    replica = master.start_replica()
    master.control.execute_command("LATCH.SET", "l", 1)
    waiter = begins_to_wait(master)
    wait_for_sync(master, replica)
    master.control.execute_command("FAILOVER")
    assert str(waiter.outcome(timeout=10)).startswith("UNBLOCKED")
    wait_for(lambda: replica.info("replication")["role"] == "master", 20, "the promotion")
    again = begins_to_wait(replica)
    assert replica.control.execute_command("LATCH.DOWN", "l") == 0
    assert again.reply() == 1


def test_master_replicates_the_deletion_of_an_expired_latch(make_server):
    master = make_server()
    replica = master.start_replica()
    master.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    master.control.execute_command("LATCH.SET", "l", 1, "PX", scaled_ms(50))
    assert master.actor().call("LATCH.WAIT", "l", "BLOCK", 0) == 1
    wait_for_sync(master, replica)
    assert replica.dump() == master.dump() == {}


def test_killed_server_has_the_latch_as_counted_down_after_restart(make_server):
    server = make_server(appendonly="yes", appendfsync="always")
    server.control.execute_command("LATCH.SET", "l", 2)
    waiter = begins_to_wait(server)
    server.control.execute_command("LATCH.DOWN", "l")
    server.kill()
    waiter.close()
    server.start()
    assert server.control.get("l") == "1"
    assert server.control.execute_command("LATCH.DOWN", "l") == 0
    assert server.control.execute_command("LATCH.WAIT", "l") == 1
