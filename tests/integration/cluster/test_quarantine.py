"""A replica that replaces its master in a cluster is in quarantine, in whatever way it is promoted."""

import pytest

from harness import wait_for, wait_for_sync
from model.cluster_scene import FAILOVERS, HALF
from model.quarantine_scene import HOUR, left_ms

HELD, FREE = "b", "{j}"  # in two slots of the first node


@pytest.mark.parametrize("fail", FAILOVERS)
def test_promoted_replica_grants_nothing(pair, fail):
    master, replica = pair
    there = replica.server.control
    assert master.server.control.execute_command("LOCK.ACQUIRE", HELD, "a", "PX", HOUR) == 1
    assert max(there.execute_command("CLUSTER", "KEYSLOT", name) for name in (HELD, FREE)) <= HALF
    wait_for_sync(master.server, replica.server)
    there.config_set("lock.quarantine", HOUR)
    assert left_ms(replica.server) == 0
    fail(master, replica)
    wait_for(lambda: replica.server.info("replication")["role"] == "master", 60, "the promotion")
    wait_for(replica.is_up, 60, "the cluster to be whole")
    assert HOUR - 120_000 < left_ms(replica.server) <= HOUR
    assert there.execute_command("LOCK.ACQUIRE", FREE, "b") is None
    assert there.execute_command("LOCK.ACQUIRE", HELD, "a") is None
    assert there.execute_command("LOCK.RENEW", HELD, "a", "PX", HOUR) == 1
    waiter, again = replica.server.actor(), replica.server.actor()
    for actor, name, owner in ((waiter, FREE, "b"), (again, HELD, "a")):
        actor.send("LOCK.ACQUIRE", name, owner, "BLOCK", 0)
        actor.wait_blocked()
    replica.server.settle(50)
    assert not waiter.has_reply() and not again.has_reply()
    there.config_set("lock.quarantine", 0)
    assert (waiter.reply(), again.reply()) == (1, 2)
    if not master.server.is_running():
        master.server.start()
    wait_for(lambda: master.server.info("replication")["role"] == "slave", 20, "the old master to follow")
