"""The delayed queue when a replica in a cluster replaces its master: it finds all queues, and delivers."""

import pytest

from harness import wait_for, wait_for_sync
from model.cluster_scene import FAILOVERS, HALF
from model.delay_scene import HOUR, fall_due, pending, push, queues, stuck, wait_delivered

NAMES = ("b", "{j}", "2")  # in three slots of the first node


def arrange(master, replica):
    """Each queue has two elements that are overdue, one that is due in an hour, and a key of another type as its
    list, so that nothing can be delivered."""
    for name in NAMES:
        client = master.server.control
        assert client.execute_command("CLUSTER", "KEYSLOT", name) <= HALF
        client.set(name, "no list")
        for id_ in ("b", "a", "later"):
            push(client, id_, HOUR, name=name)
        fall_due(client, "a", "b", name=name)
    wait_for(lambda: stuck(master.server) == 2 * len(NAMES), what="the overdue ones to be tried")
    wait_for_sync(master.server, replica.server)
    assert queues(replica.server) == 0


@pytest.mark.parametrize("fail", FAILOVERS)
def test_promoted_replica_delivers(pair, fail):
    master, replica = pair
    arrange(master, replica)
    fail(master, replica)
    there = replica.server.control
    wait_for(lambda: replica.server.info("replication")["role"] == "master", 60, "the promotion")
    wait_for(lambda: queues(replica.server) == len(NAMES), 2, "all queues to be found")
    wait_for(lambda: stuck(replica.server) == 2 * len(NAMES), 20, "the overdue ones to be tried")
    for name in NAMES:
        there.delete(name)
        wait_delivered(there, "va", "vb", name=name)
        assert pending(there, name) == ["later"]
        fall_due(there, "later", name=name)
        wait_delivered(there, "va", "vb", "vlater", name=name)
    wait_for(lambda: queues(replica.server) == 0, what="all queues to be gone from memory")
    if not master.server.is_running():
        master.server.start()
    wait_for(lambda: master.server.info("replication")["role"] == "slave", 20, "the old master to follow")
    wait_for(lambda: queues(master.server) == stuck(master.server) == 0, what="the old master to remove its queues")
    wait_for_sync(replica.server, master.server)
    old = master.server.actor()
    old.call("READONLY")
    assert sorted(old.call("KEYS", "*")) == sorted(NAMES)
    assert [old.call("LRANGE", name, 0, -1) for name in NAMES] == [["va", "vb", "vlater"]] * len(NAMES)
