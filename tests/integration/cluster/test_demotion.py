"""A master that its replica has replaced ends all waits, of every kind: no client hangs on a replica."""

import pytest

from harness import code_of, wait_for
from model.cluster_scene import HALF, plan, take_over
from model.replicas_scene import LONG, online, silent, wait_awaiting

WAITS = [
    "LOCK.ACQUIRE {k} w BLOCK 0",
    "LOCK.FAIR {k} w BLOCK 0",
    "LOCK.MACQUIRE 1 {k} w BLOCK 0 SESSION",
    "LOCK.WATCH {k} o BLOCK 0",
    "LATCH.WAIT {l} BLOCK 0",
]


@pytest.mark.parametrize("fail", [plan, take_over])
def test_waits_end_on_a_master_that_becomes_a_replica(pair, fail):
    master, replica = pair
    names = [name for name in map(str, range(60)) if master.cluster("KEYSLOT", name) <= HALF]
    words = dict(zip("kl", names, strict=False))
    assert master.actor.call("LOCK.ACQUIRE", words["k"], "o", "PX", LONG) == 1
    assert master.actor.call("LATCH.SET", words["l"], 1) == "OK"
    waits = [master.server.actor(line) for line in WAITS]
    for actor, line in zip(waits, WAITS, strict=True):
        actor.send(*line.format(**words).split())
        actor.wait_blocked()
    fail(master, replica)
    wait_for(lambda: master.server.info("replication")["role"] == "slave", 20, "the old master to follow")
    for actor in waits:
        assert code_of(actor.outcome()) in ("UNBLOCKED", "MOVED"), actor
    no_client_waits(master.server)


def no_client_waits(server):
    def none():
        info = server.info("lock")
        return not any(info[f"lock_{what}"] for what in ("waiters", "watchers", "latch_waiters", "awaiting_replicas"))

    wait_for(none, what="all waits to have ended")


def test_waits_for_replicas_end_on_a_master_that_becomes_a_replica(pair):
    master, replica = pair
    wait_for(lambda: online(master.server) == 1, what="the master to know its replica")
    name = next(name for name in map(str, range(60)) if master.cluster("KEYSLOT", name) <= HALF)
    waits = master.server.actor()
    with silent(replica.server):
        waits.send("LOCK.ACQUIRE", name, "o", "PX", LONG, "REPLICAS", 1, LONG)
        wait_awaiting(master.server, 1)
        # So that the replica does not reconnect before it is the master.
        master.server.control.config_set("requirepass", "another")
        master.server.control.execute_command("CLIENT", "KILL", "TYPE", "replica")
    assert replica.cluster("FAILOVER", "TAKEOVER") == "OK"
    assert code_of(waits.outcome(timeout=20)) in ("UNBLOCKED", "MOVED")
    no_client_waits(master.server)
    master.server.control.config_set("requirepass", "")
