"""A cluster of which one node does not respond."""

import asyncio
import os
import signal
import time

import pytest
import redis
import redis.asyncio
from harness import scaled, wait_for
from redis.crc import key_slot

from lock_so import Locks, aio
from seen import holds

LAST = 16383


@pytest.fixture
def cluster(servers):
    """Three masters, and a key of each."""
    nodes = [servers.make(cluster_enabled="yes", cluster_node_timeout=60000) for _ in range(3)]
    bounds = [0, LAST // 3, 2 * LAST // 3, LAST + 1]
    for number, node in enumerate(nodes):
        node.control.execute_command("CLUSTER", "ADDSLOTSRANGE", bounds[number], bounds[number + 1] - 1)
        node.control.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        bus = node.control.config_get("cluster-port")["cluster-port"]
        nodes[0].control.execute_command("CLUSTER", "MEET", "127.0.0.1", node.port, bus)
    for node in nodes:
        wait_for(lambda: "cluster_slots_ok:16384" in raw(node), 60, "the cluster to cover all slots")  # noqa: B023
    keys = [next(f"k{n}" for n in range(1000) if first <= key_slot(b"k%d" % n) < last) for first, last in zip(bounds, bounds[1:])]
    return nodes, keys


def raw(node):
    found = node.control.execute_command("CLUSTER", "INFO")
    return found if isinstance(found, str) else "\n".join(f"{name}:{value}" for name, value in found.items())


@pytest.mark.parametrize("silent", [0, 1])
def test_the_locks_on_the_other_nodes_are_kept(cluster, silent):
    nodes, keys = cluster
    locks = Locks(redis.RedisCluster(host="127.0.0.1", port=nodes[0].port))
    held = [locks.lock(key, lease=scaled(2)).acquire() for key in keys]
    os.kill(nodes[silent].pid, signal.SIGSTOP)
    try:
        until, waits = time.monotonic() + scaled(6), 0
        while time.monotonic() < until:
            assert [hold.is_lost for number, hold in enumerate(held) if number != silent] == [False, False]
            with locks.read(f"{{{keys[2]}}}read", wait=scaled(1)):
                waits += 1
            time.sleep(0.02)
        assert waits > 10 and held[silent].is_lost
        for number, hold in enumerate(held):
            if number != silent:
                assert list(holds(nodes[number], keys[number])) == [hold.owner]
                hold.release()
    finally:
        os.kill(nodes[silent].pid, signal.SIGCONT)
    locks.close()


def test_the_same_with_asyncio(cluster):
    nodes, keys = cluster

    async def play():
        locks = aio.Locks(redis.asyncio.RedisCluster(host="127.0.0.1", port=nodes[0].port))
        held = [await locks.lock(key, lease=scaled(2)).acquire() for key in keys]
        os.kill(nodes[0].pid, signal.SIGSTOP)
        try:
            until = time.monotonic() + scaled(6)
            while time.monotonic() < until:
                assert not held[1].is_lost and not held[2].is_lost
                async with locks.read(f"{{{keys[1]}}}read", wait=scaled(1)):
                    await asyncio.sleep(0.02)
            assert held[0].is_lost
            await held[1].release()
            await held[2].release()
        finally:
            os.kill(nodes[0].pid, signal.SIGCONT)
        await locks.close()

    asyncio.run(play())


def test_a_try_follows_a_slot_that_has_moved(cluster):
    nodes, keys = cluster
    locks = Locks(redis.RedisCluster(host="127.0.0.1", port=nodes[0].port))
    with locks.lock(keys[1]):
        pass
    slot, name = key_slot(keys[1].encode()), nodes[2].control.execute_command("CLUSTER", "MYID")
    for node in (nodes[2], nodes[0], nodes[1]):
        node.control.execute_command("CLUSTER", "SETSLOT", slot, "NODE", name)
    locks.lock(keys[1]).acquire(wait=0).release()
    locks.close()


@pytest.mark.parametrize("flavour", ["sync", "asyncio"])
def test_the_only_node_that_the_client_knows_fails(cluster, flavour):
    """As soon as it has been reached, the others are known."""
    nodes, keys = cluster

    async def play():
        locks = aio.Locks(redis.asyncio.RedisCluster(host="127.0.0.1", port=nodes[0].port))
        held = await locks.lock(keys[0], renew=False).acquire()
        nodes[0].kill()  # without an await in between: nothing goes on in the background
        await (await locks.lock(keys[1]).acquire(wait=10)).release()
        await locks.close(timeout=0.1)
        assert held.keys == (keys[0],)

    if flavour == "asyncio":
        asyncio.run(play())
        return
    locks = Locks(redis.RedisCluster(host="127.0.0.1", port=nodes[0].port))
    held = locks.lock(keys[0], renew=False).acquire()
    nodes[0].kill()
    locks.lock(keys[1]).acquire(wait=10).release()
    locks.close(timeout=0.1)
    assert held.keys == (keys[0],)
