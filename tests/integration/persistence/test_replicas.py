"""The changes of lock commands reach replicas, and the replicas of these.

The lock commands are those of the table in model/mutations.py.
"""

from functools import cache

import pytest

from harness import scaled_ms, wait_for, wait_for_sync
from model.lock_scene import HOUR, end_of
from model.mutations import WAIT, each_mutation, in_lua, in_multi

DB = 3  # not the one in which connections start


@cache
def replicas_of(server):
    """A replica of the server of this file, and a replica of that replica."""
    replica = server.start_replica()
    return replica, replica.start_replica()


@pytest.fixture
def chain(server):
    """A master, its replica, and the replica of that replica; the master is `server`."""
    return server, *replicas_of(server)


def assert_same_data(chain):
    master, replica, sub = chain
    wait_for_sync(master, replica)
    wait_for_sync(replica, sub)
    assert replica.dump() == master.dump()
    assert sub.dump() == master.dump()


@each_mutation
def test_replicas_have_the_same_data(chain, server, mutation):
    mutation.perform(server, DB)
    assert_same_data(chain)


@pytest.mark.parametrize("say", [in_multi, in_lua])
@each_mutation
def test_replicas_have_the_same_data_after_multi_and_lua(chain, server, actor, say, mutation):
    waiter = mutation.arrange(server)
    assert say(actor(), "SET before 1", mutation.command, "SET behind 1") == ["OK", mutation.reply, "OK"]
    mutation.check_waiter(waiter)
    assert_same_data(chain)


@pytest.mark.parametrize("cause", ["lease end", "DEL k", "FLUSHDB", "EXPIRE k 0", "RENAME k l"])
def test_replicas_have_the_same_data_after_a_grant_by_the_drain(chain, server, actor, cause):
    client = server.client(db=DB)
    client.execute_command("LOCK.ACQUIRE", "k", "o", "PX", HOUR)
    dead, waiter = actor("dead", db=DB), actor("waiter", db=DB)
    dead.send(*WAIT.replace("w", "dead").split())
    dead.wait_blocked()
    waiter.send(*WAIT.split())
    waiter.wait_blocked()
    dead.kill_socket()
    client.execute_command(*(f"PEXPIRE k {scaled_ms(300)}" if cause == "lease end" else cause).split())
    assert waiter.reply() == 1
    assert_same_data(chain)
    assert server.client(db=DB).hgetall("k") == {"w": "1"}


def test_replicas_have_the_same_data_after_a_lease_has_expired(chain, server):
    # The key is not deleted meanwhile: the command itself finds it expired.
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    server.control.execute_command("LOCK.ACQUIRE", "k", "o", "PX", scaled_ms(30))
    end = end_of(server.control)
    wait_for(lambda: server.now_ms() > end, what="the lease to expire")
    server.control.execute_command("LOCK.ACQUIRE", "k", "other", "PX", HOUR)
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 1)
    assert_same_data(chain)
    assert server.control.hgetall("k") == {"other": "1"}
