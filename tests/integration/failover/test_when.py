"""When a quarantine begins and ends: starts, loads, promotions, changes of its length, steps of the clock."""

import time

import pytest
from redis.exceptions import ConnectionError

from harness import scaled, scaled_ms, wait_for, wait_for_sync
from harness.schedule import error
from model.fair_scene import granted_ms
from model.quarantine_scene import HOUR, begin, end, left_ms

SHORT = scaled_ms(1200)


def tries(server, owner="o"):
    return server.control.execute_command("LOCK.ACQUIRE", "k", owner, "PX", HOUR)


def waits(server, owner="w"):
    actor = server.actor(owner)
    actor.send("LOCK.ACQUIRE", "k", owner, "PX", HOUR, "BLOCK", 0)
    return actor.wait_blocked()


def is_on(server):
    assert tries(server) is None
    return left_ms(server) > 0


# ---- events that begin a quarantine ----


def start(make_server):
    return make_server(lock_quarantine=HOUR)


def restart_from_rdb(make_server):
    server = make_server()
    server.control.set("some", "data")
    return server.restart(save=True, lock_quarantine=HOUR)


def crash_with_aof(make_server):
    server = make_server(appendonly="yes", appendfsync="always")
    server.control.set("some", "data")
    server.kill()
    return server.start(lock_quarantine=HOUR)


def replica_of(make_server, **config):
    master = make_server()
    master.control.set("some", "data")
    return master, master.start_replica(lock_quarantine=HOUR, **config)


def promotion(make_server):
    _, replica = replica_of(make_server)
    replica.control.replicaof("NO", "ONE")
    return replica


def promotion_after_the_masters_death(make_server):
    master, replica = replica_of(make_server)
    master.kill()
    replica.control.replicaof("NO", "ONE")
    master.start()  # for the harness to stop
    return replica


def promotion_without_its_first_sync(make_server):
    replica = make_server(lock_quarantine=HOUR)
    replica.control.replicaof("127.0.0.1", 1)
    assert left_ms(replica) == 0
    replica.control.replicaof("NO", "ONE")
    return replica


def failover(make_server):
    master, replica = replica_of(make_server)
    master.control.execute_command("FAILOVER", "TO", "127.0.0.1", replica.port)
    wait_for(lambda: replica.info("replication")["role"] == "master", 20, "the failover")
    wait_for(lambda: master.info("replication")["role"] == "slave", 20, "the failover")
    return replica


def load_into_a_running_master(make_server):
    server = make_server(load_module=False)
    words = ("CONFIG", "lock.quarantine", HOUR)
    server.control.execute_command("MODULE", "LOADEX", str(server.launch.module), *words)
    return server


def reload(make_server):
    """The quarantine of the start has ended by then."""
    server = make_server()
    server.let_pass(SHORT)
    server.control.config_set("lock.quarantine", SHORT)
    assert left_ms(server) == 0
    server.control.execute_command("DEBUG", "RELOAD")
    assert 0 < left_ms(server) <= SHORT
    server.control.config_set("lock.quarantine", HOUR)
    return server


CAUSES = (
    start, restart_from_rdb, crash_with_aof, promotion, promotion_after_the_masters_death,
    promotion_without_its_first_sync, failover, load_into_a_running_master, reload,
)  # fmt: skip


@pytest.mark.parametrize("cause", CAUSES)
def test_quarantine_begins(make_server, cause):
    server = cause(make_server)
    assert is_on(server)
    waiter = waits(server)
    server.settle()
    assert not waiter.has_reply()
    end(server)
    assert waiter.reply() == 1


def test_there_is_no_quarantine_by_default(make_server):
    server = make_server()
    assert (left_ms(server), tries(server)) == (0, 1)


def test_replica_has_no_quarantine(make_server):
    master, replica = replica_of(make_server)
    assert left_ms(replica) == 0
    replica.control.config_set("lock.quarantine", 2 * HOUR)
    assert left_ms(replica) == 0
    # And not after another first sync.
    replica.control.replicaof("NO", "ONE")
    assert left_ms(replica) > 0
    replica.control.replicaof("127.0.0.1", master.port)
    wait_for_sync(master, replica)
    assert left_ms(replica) == 0


def test_promotion_during_a_quarantine_begins_a_new_one(make_server):
    """Demoted and promoted at once: the waiters are disconnected, and the quarantine counts from the promotion."""
    server = make_server(lock_quarantine=HOUR)
    waiter = waits(server)
    server.let_pass(scaled_ms(500))
    before = left_ms(server)
    assert before <= HOUR - scaled_ms(400)
    pipeline = server.control.pipeline(transaction=False)
    pipeline.execute_command("REPLICAOF", "127.0.0.1", 1)
    pipeline.execute_command("REPLICAOF", "NO", "ONE")
    pipeline.execute()
    assert before < left_ms(server) <= HOUR
    try:
        assert error("UNBLOCKED")(waiter.outcome())
    except ConnectionError:
        pass  # it was closed before it could read
    assert is_on(server)


def test_demotion_ends_the_quarantine_and_the_waits(make_server):
    server = make_server(lock_quarantine=HOUR)
    waits(server)
    server.control.replicaof("127.0.0.1", 1)
    wait_for(lambda: server.info("lock")["lock_contended_locks"] == 0, what="the wait to end")
    assert left_ms(server) == 0


def test_waiters_are_granted_after_the_quarantine_of_a_reload(make_server):
    """Those that waited already are granted when it has ended, holders first."""
    server = make_server(lock_quarantine=0)
    assert tries(server, "a") == 1
    waiter = waits(server)
    server.control.config_set("lock.quarantine", HOUR)
    again = waits(server, "a")
    server.control.execute_command("DEBUG", "RELOAD")
    server.settle()
    assert not waiter.has_reply() and not again.has_reply()
    end(server)
    assert again.reply() == 2
    server.control.execute_command("LOCK.FORCE", "k")
    assert waiter.reply() == 1


# ---- the end of a quarantine ----


def ends_after(server, began, ms):
    """A waiter is granted at this time, not before, and not much later; by the test's monotonic clock."""
    waiter = waits(server)
    assert waiter.reply(timeout=30) == 1
    passed_ms = (time.monotonic() - began) * 1000
    assert ms - 1 <= passed_ms < ms + scaled_ms(700)
    assert left_ms(server) == 0


def promoted(make_server, ms):
    """A promoted replica that was a replica for longer than `ms`; and the latest time of its promotion."""
    _, replica = replica_of(make_server)
    replica.control.config_set("lock.quarantine", ms)
    replica.let_pass(ms)
    began = time.monotonic()
    replica.control.replicaof("NO", "ONE")
    return replica, began


def test_quarantine_counts_from_the_promotion(make_server):
    replica, began = promoted(make_server, SHORT)
    assert 0 < left_ms(replica) <= SHORT
    ends_after(replica, began, SHORT)


def test_quarantine_that_is_made_longer_ends_later(make_server):
    replica, began = promoted(make_server, SHORT)
    waiter = waits(replica, "first")
    replica.control.config_set("lock.quarantine", 2 * SHORT)
    assert waiter.reply(timeout=30) == 1
    assert (time.monotonic() - began) * 1000 >= 2 * SHORT - 1


def test_quarantine_that_is_made_shorter_ends_earlier(make_server):
    replica, began = promoted(make_server, 10 * SHORT)
    replica.control.config_set("lock.quarantine", SHORT)
    ends_after(replica, began, SHORT)


def test_quarantine_made_shorter_than_the_time_passed_ends_at_once(make_server):
    replica, _ = promoted(make_server, SHORT)
    replica.control.config_set("lock.quarantine", HOUR)
    waiter = waits(replica)
    replica.let_pass(5)
    replica.control.config_set("lock.quarantine", 1)
    assert waiter.reply() == 1


def test_quarantine_longer_than_the_servers_age_begins_when_set(make_server):
    """As if it had been set from the beginning; grants in the meantime remain."""
    server = make_server()
    assert tries(server, "before") == 1
    begin(server)
    assert left_ms(server) < HOUR
    assert tries(server, "before") is None
    assert server.control.execute_command("LOCK.RENEW", "k", "before", "PX", HOUR) == 1


def test_quarantine_shorter_than_the_servers_age_does_not_begin(make_server):
    server = make_server()
    server.let_pass(20)
    server.control.config_set("lock.quarantine", 10)
    assert (left_ms(server), tries(server)) == (0, 1)


def test_end_of_a_quarantine_wakes_an_idle_server_at_once(make_server):
    """By the server's own clock: the lease shows when the lock was granted."""
    server = make_server(lock_quarantine=SHORT)
    waiter = waits(server)
    # In one packet: the time left counts from the time that is read with it.
    (seconds, micros), info = server.control.pipeline(transaction=False).time().info("lock").execute()
    ends = seconds * 1000 + micros // 1000 + info["lock_quarantine_ms"]
    time.sleep(SHORT / 1000)  # sends nothing that would wake the server
    assert waiter.reply(timeout=30) == 1
    assert -3 <= granted_ms(server) - ends < scaled_ms(50)


# ---- the wall clock ----


@pytest.mark.parametrize("hours", [-1, 1])
def test_wall_clock_does_not_count(make_server, clock, hours):
    began = time.monotonic()
    server = make_server(lock_quarantine=SHORT)
    waiter = waits(server)
    clock.step(hours * 3600)
    assert waiter.reply(timeout=30) == 1
    passed_ms = (time.monotonic() - began) * 1000
    assert SHORT - 1 <= passed_ms
    assert passed_ms < SHORT + scaled(5) * 1000


def test_step_of_the_clock_grants_nothing_early(make_server, clock):
    server = make_server(lock_quarantine=HOUR)
    waiter = waits(server)
    clock.step_for(server, 7200)
    server.settle(150)
    assert not waiter.has_reply() and is_on(server)
    assert 0 < left_ms(server) < HOUR
    end(server)
    assert waiter.reply() == 1
