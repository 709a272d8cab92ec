"""The gauges of INFO lock are 0 when the data has been deleted, or replaced by the data of another server."""

import pytest

from harness import wait_for
from model.waiting_scene import HOUR

LONGEST = 10**15  # the longest time that a configuration accepts
GAUGES = ["waiters", "waiters_unsearched", "awaiting_replicas", "contended_locks", "sessions", "watchers"]
GAUGES += ["latch_waiters", "unconfirmed_grants", "unconfirmed_oldest_ms", "delay_queues", "delay_stuck", "delay_scanning"]


@pytest.fixture
def server(make_server):
    """A server with holds, positions and elements that remain for the longest possible time, without their clients."""
    server = make_server(lock_session_grace=LONGEST, lock_default_lease=LONGEST, lock_fair_reserve=LONGEST)
    holder, session, fair, unconfirmed = (server.actor(name) for name in ("h", "s", "f", "u"))
    for key in ("plain", "fair"):
        assert holder.call("LOCK.ACQUIRE", key, "h") == 1
    assert session.call("LOCK.SEMAPHORE", "sem", "s", 3, "SESSION") == 1
    unconfirmed.send("LOCK.ACQUIRE", "plain", "u", "BLOCK", 0)
    unconfirmed.wait_blocked()
    fair.send("LOCK.FAIR", "fair", "f", "BLOCK", 0)
    fair.wait_blocked()
    assert holder.call("LOCK.RELEASE", "plain", "h") == 0
    server.control.execute_command("DELAY.PUSH", "later", "*", HOUR, "v")
    server.control.set("stuck", "no list")
    server.control.execute_command("DELAY.PUSH", "stuck", "*", 0, "v")
    wait_for(lambda: gauges(server)["delay_stuck"] == 1, what="the element to be stuck")
    for actor in (holder, session, fair):
        actor.kill_socket()
    wait_for(lambda: gauges(server)["waiters"] == 0, what="the connections to close")
    counted = gauges(server)
    assert (counted["sessions"], counted["contended_locks"], counted["delay_queues"]) == (1, 1, 2)
    assert counted["unconfirmed_grants"] == 1
    return server


def gauges(server):
    info = server.info("lock")
    return {name: info[f"lock_{name}"] for name in GAUGES}


def by_flushall(server):
    server.control.flushall()


def by_flushdb(server):
    server.control.flushdb()


def by_swap_and_flush(server):
    server.control.swapdb(0, 5)
    server.control.flushall()  # positions stay in the database in which they were requested


def by_deletes(server):
    server.control.config_set("lock.default-lease", 1000, "lock.session-grace", 0)
    names = [*server.control.keys("*"), "lock:queue:{fair}"]
    server.control.delete(*names)
    server.control.execute_command("LOCK.CANCEL", "fair", "f")


def by_another_master(server):
    server.control.replicaof("127.0.0.1", 1)


def by_promotion(server):
    by_another_master(server)
    server.control.config_set("replica-read-only", "no")
    server.control.flushall()
    server.control.replicaof("NO", "ONE")


ENDS = [by_flushall, by_flushdb, by_swap_and_flush, by_deletes, by_another_master, by_promotion]


@pytest.mark.parametrize("end", ENDS)
def test_gauges_are_zero_when_the_data_is_gone(server, end):
    end(server)
    wait_for(lambda: not any(gauges(server).values()), what=f"zeros in {gauges(server)}")
