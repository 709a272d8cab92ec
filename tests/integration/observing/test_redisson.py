"""The message that Redisson's clients receive when a lock has become free."""

import pytest

from harness import wait_for, wait_for_sync
from harness.listener import Listener
from model.mutations import MUTATIONS
from model.waiting_scene import HOUR, say

FREE = ("redisson_lock__channel:{k}", "0")
FREE_L = ("redisson_lock__channel:{l}", "0")
# Which locks become free by a command of the table in model/mutations.py, and remain free.
FREED = dict.fromkeys(["release", "force", "force a foreign hash", "give up"], [FREE])
FREED |= {"multi-key release": [FREE, FREE_L], "multi-key release, one of two": [FREE_L]}
FREED |= {"multi-key release, hand off one": [FREE_L], "modes, release": [FREE, FREE_L]}
FREED |= {"modes, release, hand off": [FREE]}


@pytest.fixture
def redisson(server):
    server.control.config_set("lock.redisson-interop", "yes")
    return Listener(server)


@pytest.mark.parametrize("name", MUTATIONS)
def test_message_is_published_when_a_lock_becomes_free(server, redisson, name):
    MUTATIONS[name].perform(server)
    assert redisson.new_messages() == FREED.get(name, [])


@pytest.mark.parametrize("key", ["a{b}c", "{k}", "a}b", "k k", ""])
def test_channel_is_the_one_that_redisson_uses(server, redisson, key):
    server.control.execute_command("LOCK.ACQUIRE", key, "o")
    server.control.execute_command("LOCK.RELEASE", key, "o")
    channel = "redisson_lock__channel:" + (key if "{" in key else f"{{{key}}}")
    assert redisson.new_messages() == [(channel, "0")]


@pytest.mark.parametrize("freed", ["LOCK.RELEASE k o", "LOCK.FORCE k", "LOCK.MRELEASE 1 k o"])
def test_message_is_published_when_only_a_reserved_position_is_left(server, actor, redisson, freed):
    """The first waiter of the fair queue has lost its connection; its position is reserved for a while."""
    server.control.config_set("lock.fair-reserve", HOUR)
    say(server, f"LOCK.ACQUIRE k o PX {HOUR}")
    waiter = actor()
    waiter.send("LOCK.FAIR", "k", "w", "BLOCK", 0)
    waiter.wait_blocked().kill_socket()
    wait_for(lambda: server.info("lock")["lock_waiters"] == 0, what="the position to be without a client")
    say(server, freed)
    assert redisson.new_messages() == [FREE]
    assert server.info("lock")["lock_contended_locks"] == 1
    assert actor().call("LOCK.FAIR", "k", "w") == 1


def test_nothing_is_published_after_interop_is_switched_off(server, redisson):
    server.control.config_set("lock.redisson-interop", "no")
    MUTATIONS["release"].perform(server)
    assert redisson.new_messages() == []


def test_message_is_published_once_on_a_replica(make_server):
    master = make_server(lock_redisson_interop="yes")
    replica = master.start_replica()
    redisson = Listener(replica, master)
    MUTATIONS["release"].perform(master)
    assert redisson.new_messages() == [FREE]


def cluster_of_a_master_and_its_replica(make_server):
    """Both nodes know the role of the other: only then the cluster bus carries the messages of the shard."""
    master, replica = (make_server(cluster_enabled="yes", lock_redisson_interop="yes") for _ in range(2))
    ask, ask_replica = master.actor().call, replica.actor().call
    ask("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    bus = master.control.config_get("cluster-port")["cluster-port"]
    ask_replica("CLUSTER", "MEET", "127.0.0.1", master.port, bus)
    name = ask("CLUSTER", "MYID")
    wait_for(lambda: name in ask_replica("CLUSTER", "NODES"), 20, "the nodes to meet")
    ask_replica("CLUSTER", "REPLICATE", name)
    for which, node in (("the master", ask), ("the replica", ask_replica)):
        wait_for(lambda node=node: "cluster_state:ok" in node("CLUSTER", "INFO"), 20, f"{which} to serve")

    def is_known_as_replica():
        (known,) = (line.split() for line in ask("CLUSTER", "NODES").splitlines() if "myself" not in line)
        return known[2:4] == ["slave", name] and known[7] == "connected"

    wait_for(is_known_as_replica, 20, "the master to know its replica")
    wait_for_sync(master, replica)
    return master, replica


def test_message_is_published_once_on_a_replica_in_a_cluster(make_server):
    # In a cluster the bus carries the message to every node, replicas too; Redisson may subscribe to the shard only.
    master, replica = cluster_of_a_master_and_its_replica(make_server)
    redisson, of_the_shard = Listener(replica, master), replica.actor()
    of_the_shard.call("SSUBSCRIBE", FREE[0])
    MUTATIONS["release"].perform(master)
    wait_for_sync(master, replica)
    assert redisson.new_messages() == [FREE]
    assert of_the_shard.reply() == ["smessage", *FREE]
