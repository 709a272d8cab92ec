"""REPLICAS in a cluster: a failover, and a slot that moves, while replies wait for replicas."""

import pytest
import redis

from harness import code_of, wait_for
from model.cluster_scene import FAILOVERS, HALF, HOST
from model.replicas_scene import LONG, awaiting, begin, online, silent


@pytest.fixture
def pair(pair):
    master, replica = pair
    wait_for(lambda: online(master.server) == 1, what="the master to know its replica")
    for server in (master.server, replica.server):
        server.control.config_set("repl-timeout", 3600)
    return pair


@pytest.fixture
def names(pair):
    """Keys of the first node."""
    master, _ = pair
    return [name for name in map(str, range(60)) if master.cluster("KEYSLOT", name) <= HALF][:20]


def test_replica_has_the_grant_when_its_client_receives_the_reply(pair, names):
    master, replica = pair
    there = replica.server.actor("there")
    there.call("READONLY")
    for name in names:
        assert master.actor.call("LOCK.RWWRITE", name, "o", "FENCED", "REPLICAS", 1, LONG) > 0
        assert there.call("HGET", name, "o:write") == "1"


@pytest.mark.parametrize("fail", FAILOVERS)
def test_promoted_replica_has_all_acknowledged_grants(pair, names, fail):
    master, replica = pair
    *granted, other = names
    for name in granted:
        assert master.actor.call("LOCK.ACQUIRE", name, "o", "PX", LONG, "REPLICAS", 1, LONG) == 1
    fail(master, replica)
    wait_for(lambda: replica.server.info("replication")["role"] == "master", 60, "the promotion")
    for name in granted:
        assert replica.actor.call("HGETALL", name) == ["o", "1"]
        assert replica.actor.call("LOCK.ACQUIRE", name, "x") is None
    wait_for(lambda: code_of(replica.actor.attempt("LOCK.ACQUIRE", other, "o", "REPLICAS", 2, LONG)) == "NOREPLICAS")


def test_grant_of_a_lock_that_has_moved_to_another_node_is_refused(pair, names):
    master, replica = pair
    name, slot = names[0], master.cluster("KEYSLOT", names[0])
    nodes = [line.split() for line in master.cluster("NODES").splitlines()]
    other = next(words for words in nodes if "master" in words[2] and "myself" not in words[2])
    port = int(other[1].partition("@")[0].rpartition(":")[2])
    # Before the slot moves: in Valkey SETSLOT waits for the replicas, and a key that is missing in a moving slot is
    # redirected.
    assert master.actor.call("LOCK.ACQUIRE", name, "o", "PX", LONG) == 1
    there = redis.Redis(host=HOST, port=port, decode_responses=True)
    assert there.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", master.id)
    assert master.cluster("SETSLOT", slot, "MIGRATING", other[0]) == "OK"
    with silent(replica.server):
        a = begin(master.server, master.server.actor("a"), "LOCK.ACQUIRE", name, "o", "PX", LONG, "REPLICAS", 1, LONG)
        assert master.actor.call("MIGRATE", HOST, port, name, 0, 5000) == "OK"
    assert code_of(a.outcome()) == "NOREPLICAS"
    master.server.settle()
    assert awaiting(master.server) == 0
    pipeline = there.pipeline(transaction=False)
    pipeline.execute_command("ASKING")
    pipeline.execute_command("HGETALL", name)
    assert pipeline.execute()[1] == {"o": "2"}
    assert there.execute_command("CLUSTER", "SETSLOT", slot, "NODE", other[0])
    assert master.cluster("SETSLOT", slot, "NODE", other[0]) == "OK"
