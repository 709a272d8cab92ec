"""Queues are found again after a restart, a promotion, a reload, and by a module that is loaded later, with no command.

And replicas and the AOF have exactly the data of the master.
"""

import pytest

from harness import fewer, scaled_ms, wait_for, wait_for_sync
from harness.aof import aof_of, commands_in, rewrite_aof
from model.delay_scene import (
    HOUR,
    LONG_AGO,
    delivered,
    due_of,
    fall_due,
    pending,
    push,
    queues,
    stuck,
    value_of,
    wait_delivered,
    wait_nothing_left,
)

DBS = (0, 3)


def arrange(server):
    """In two databases: `q` has two overdue elements and one due in an hour, but is no list, so that nothing is
    delivered; `p` has one element due in an hour."""
    for db in DBS:
        client = server.client(db=db)
        client.set("q", "no list")
        push(client, "b", HOUR)
        push(client, "a", HOUR)
        push(client, "later", HOUR)
        push(client, "later", HOUR, name="p")
        fall_due(client, "a", "b")
    wait_for(lambda: stuck(server) == 2 * len(DBS), what="the stuck ones")


def wait_found(server):
    """All overdue elements are found and tried, and the others are in memory too, without any command."""
    wait_for(lambda: queues(server) == 2 * len(DBS), what="all queues to be found")
    wait_for(lambda: stuck(server) == 2 * len(DBS), what="the overdue ones to be tried")
    for db in DBS:
        client = server.client(db=db)
        client.delete("q")
        wait_delivered(client, "va", "vb")
        assert pending(client) == ["later"]
        for name in ("q", "p"):
            fall_due(client, "later", name=name)
        wait_delivered(client, "vlater", name="p")
        wait_delivered(client, "va", "vb", "vlater")
    wait_for(lambda: queues(server) == 0, what="all queues to be gone from memory")


def restart_by_rdb(server):
    server.restart(save=True)


def kill_and_start(server):
    server.kill()
    server.start()


def reload(server):
    server.control.execute_command("DEBUG", "RELOAD")


def rewrite_and_kill(server):
    rewrite_aof(server)
    kill_and_start(server)


AOF = {"appendonly": "yes", "appendfsync": "always"}
RESTARTS = {
    "RDB": ({}, restart_by_rdb),
    "DEBUG RELOAD": ({}, reload),
    "DEBUG LOADAOF": (AOF, lambda server: server.control.execute_command("DEBUG", "LOADAOF")),
    "AOF": (AOF, kill_and_start),
    "AOF, RDB base": (AOF | {"aof_use_rdb_preamble": "yes"}, rewrite_and_kill),
    "AOF, plain base": (AOF | {"aof_use_rdb_preamble": "no"}, rewrite_and_kill),
}
each_restart = pytest.mark.parametrize("config, restart", RESTARTS.values(), ids=RESTARTS)


@each_restart
def test_queues_are_found_again(make_server, config, restart):
    server = make_server(**config)
    arrange(server)
    before = server.dump()
    restart(server)
    assert server.dump() == before
    wait_found(server)


@each_restart
def test_elements_that_became_overdue_are_delivered_at_once(make_server, clock, config, restart):
    server = make_server(**config)
    client = server.client()
    for id_, hours in (("b", 2), ("a", 1), ("c", 9)):
        push(client, id_, hours * HOUR)
    clock.step(3 * 3600)
    restart(server)
    client = server.client()
    wait_delivered(client, "va", "vb")
    assert pending(client) == ["c"]


def test_consumer_that_waits_before_they_are_found_is_woken(make_server, clock):
    server = make_server()
    push(server.client(), "a", HOUR)
    clock.step(2 * 3600)
    server.restart(save=True)
    assert server.control.blpop("q", 10) == ("q", "va")


def test_queues_are_found_among_many_other_keys(make_server):
    server = make_server()
    count = fewer(200_000)
    server.control.execute_command("DEBUG", "POPULATE", count)
    for n in range(100):
        push(server.control, "a", HOUR, name=f"q{n}")
    server.control.execute_command("DEBUG", "RELOAD")
    wait_for(lambda: server.info("lock")["lock_delay_scanning"] == 0, 20, "the end of the scan")
    assert queues(server) == 100


def test_flush_during_the_scan_removes_the_queues(make_server):
    server = make_server()
    push(server.control, "a", HOUR)
    server.control.execute_command("DEBUG", "POPULATE", fewer(100_000))
    pipeline = server.control.pipeline(transaction=False)
    pipeline.execute_command("DEBUG", "RELOAD")
    pipeline.flushall()
    pipeline.execute_command("DELAY.PUSH", "q", "b", 0, "vb")
    pipeline.execute()
    wait_delivered(server.control, "vb")
    wait_for(lambda: server.info("lock")["lock_delay_scanning"] == 0, 20, "the end of the scan")
    wait_nothing_left(server, server.control)


def test_queue_swapped_to_where_the_scan_has_been_is_found(make_server):
    server = make_server()
    push(server.client(db=2), "a", HOUR)
    server.client(db=1).execute_command("DEBUG", "POPULATE", fewer(200_000))
    server.control.execute_command("DEBUG", "RELOAD")
    server.settle(3)  # the scan has finished database 0, and needs a long time for the full one
    server.control.swapdb(0, 2)
    wait_for(lambda: server.info("lock")["lock_delay_scanning"] == 0, 20, "the end of the scan")
    assert queues(server) == 1
    fall_due(server.control, "a")
    wait_delivered(server.control, "va")


def test_module_that_is_loaded_later_finds_them(make_server):
    server = make_server(load_module=False)
    for db in DBS:
        client = server.client(db=db)
        client.hset(value_of(), mapping={"a": "va", "b": "vb", "c": "vc"})
        client.zadd(due_of(), {"b": LONG_AGO + 1, "a": LONG_AGO, "c": 2**52})
    server.control.module_load(str(server.launch.module))
    for db in DBS:
        wait_delivered(server.client(db=db), "va", "vb")
        assert pending(server.client(db=db)) == ["c"]
    assert queues(server) == len(DBS)


def test_module_is_not_unloaded_while_elements_are_pending(make_server):
    server = make_server()
    push(server.control, "a", HOUR)
    assert not server.unloads()
    fall_due(server.control, "a")
    wait_nothing_left(server, server.control)
    server.unload()
    # An element that was written in the meantime is found when the module is loaded again.
    server.control.hset(value_of(), "b", "vb")
    server.control.zadd(due_of(), {"b": LONG_AGO})
    server.control.module_load(str(server.launch.module))
    wait_delivered(server.control, "va", "vb")


# Replicas


def promote(replica):
    replica.control.replicaof("NO", "ONE")


def test_promoted_replica_finds_them(make_server):
    master = make_server()
    replica = master.start_replica()
    arrange(master)
    wait_for_sync(master, replica)
    assert replica.dump() == master.dump()
    assert queues(replica) == stuck(replica) == 0
    promote(replica)
    wait_found(replica)


def test_replica_of_a_full_sync_finds_them_when_promoted(make_server):
    master = make_server()
    arrange(master)
    replica = master.start_replica()
    assert replica.dump() == master.dump()
    assert queues(replica) == 0
    promote(replica)
    wait_found(replica)


def test_master_that_was_a_replica_finds_its_queues_again(make_server):
    server = make_server()
    arrange(server)
    server.control.replicaof("127.0.0.1", 1)
    wait_for(lambda: queues(server) == 0, what="the replica to remove its queues from memory")
    promote(server)
    wait_found(server)


def test_master_that_was_a_replica_for_a_moment_finds_its_queues(server, at_once):
    arrange(server)
    at_once("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE")
    wait_found(server)


def test_promoted_replica_continues_the_deliveries_of_its_master(make_server):
    master = make_server()
    replica = master.start_replica()
    ids = [f"{n:04}" for n in range(fewer(1000))]
    pipeline = master.control.pipeline(transaction=False)
    for n, id_ in enumerate(ids):
        push(pipeline, id_, n // 20, id_)
    pipeline.execute()
    wait_for(lambda: master.control.exists("q"), what="the first to be delivered")
    master.kill()
    wait_for(lambda: replica.info("replication")["master_link_status"] == "down", what="the link to be down")
    got = {*delivered(replica.client()), *pending(replica.client(), count=2000)}
    promote(replica)
    wait_for(lambda: replica.control.llen("q") == len(got), what="the rest to be delivered")
    assert sorted(replica.control.lrange("q", 0, -1)) == sorted(got)
    wait_nothing_left(replica, replica.control)


def everything(client, server):
    """Each kind of write that the module makes to the keys of a queue."""
    script = "for i = 1, 50 do redis.call('DELAY.PUSH', KEYS[1], '*', ARGV[1], i) end"
    client.eval(script, 1, "q", 1)
    client.eval(script, 1, "q", HOUR)
    for name in ("q", "{x}", "}{", ""):
        push(client, "a", 0, name=name)
        push(client, "a", HOUR, name=name)
        push(client, "b", HOUR, "\0\r\n", name=name)
        push(client, "c", 1, name=name)
        client.execute_command("DELAY.CANCEL", name, "b", "nothing")
    push(client, "gone", HOUR, name="gone")
    client.execute_command("DELAY.CANCEL", "gone", "gone")
    push(client, "soon", scaled_ms(20), name="soon")
    wait_delivered(client, "vsoon", name="soon")
    wait_for(lambda: client.zcount(due_of(), "-inf", server.now_ms()) == 0, what="all to be delivered")
    wait_for(lambda: all(client.llen(name) for name in ("q", "{x}", "}{", "")), what="each list to have an element")
    wait_for(lambda: all(pending(client, name) == ["a"] for name in ("{x}", "}{", "")), what="the rest to be pending")


def test_replica_and_aof_have_exactly_the_data_of_the_master(make_server):
    master = make_server(**AOF)
    replica = master.start_replica()
    everything(master.client(), master)
    wait_for_sync(master, replica)
    before = master.dump()
    assert replica.dump() == before
    scores = [one.control.zrange(due_of(), 0, -1, withscores=True) for one in (master, replica)]
    assert scores[0] == scores[1]
    kill_and_start(master)
    assert master.dump() == before


@pytest.mark.parametrize("count", [1, 32, 33, 100])
def test_each_delivery_is_one_transaction_in_the_aof(make_server, count):
    server = make_server(**AOF)
    client = server.client()
    client.set("q", "no list")
    pipeline = client.pipeline()
    for n in range(count):
        push(pipeline, str(n), 0)
    pipeline.execute()
    wait_for(lambda: stuck(server) == count, what="the stuck ones")
    begin = len(aof_of(server))
    client.delete("q")
    wait_nothing_left(server, client)
    written = commands_in(aof_of(server)[begin:])
    assert written.pop(0) == ["DEL", "q"]
    # Between a MULTI and its EXEC there are whole batches.
    depth = 0
    for words in written:
        depth += {"MULTI": 1, "EXEC": -1}.get(words[0], 0)
        assert words[0] in ("MULTI", "EXEC") or depth == 1
    names = [words[0] for words in written if words[0] not in ("MULTI", "EXEC")]
    batches = -(-count // 32)
    assert names.count("RPUSH") == names.count("ZREM") == batches
    assert [words[2:] for words in written if words[0] == "RPUSH"] == [
        [f"v{n}" for n in range(start, min(start + 32, count))] for start in range(0, count, 32)
    ]
