"""Real contention of every kind, and the values that INFO lock must then have."""

import os
import signal

from harness import scaled_ms, wait_for

HOUR = 3_600_000
# Above the limits of the alerts that count events.
MANY = 12
LEASES = 7

# The values of INFO lock after the scene.
COUNTED = {
    "lock_waiters": 3,
    "lock_waiters_unsearched": 0,
    "lock_awaiting_replicas": 0,
    "lock_contended_locks": 1,
    "lock_sessions": 1,
    "lock_watchers": 1,
    "lock_latch_waiters": 1,
    "lock_delay_queues": 1,
    "lock_delay_stuck": 1,
    "lock_delay_scanning": 0,
    "lock_granted_after_wait": LEASES + 1,
    "lock_granted_by_reentry": 1,
    "lock_repeats": 1,
    "lock_forced": 1,
    "lock_lease_ends": LEASES,
    "lock_time_outs": MANY,
    "lock_cancelled": 2,
    "lock_not_acknowledged": 1,
    "lock_sessions_released": MANY,
    "lock_clients_gone": MANY,
    "lock_deadlocks_refused": 1,
    "lock_deadlock_searches_cut": 0,
    "lock_delay_delivered": 1,
}
# And the alerts that must fire, and those that must be pending.
FIRING = {
    "LockDeadlocksRefused",
    "LockLeasesEnd",
    "LockHoldersLate",
    "LockSessionsReleased",
    "LockTimeOuts",
    "LockClientsGone",
    "LockNotAcknowledged",
}
PENDING = {"LockDelayStuck", "LockQuarantineLasts"}


def release_too_late(server):
    """Sends a release whose reply is NOTHELD."""
    assert str(server.actor().attempt("LOCK.RELEASE", "nothing", "late")).startswith("NOTHELD")


def run(server):
    """Runs the scene. At the end some clients still wait, and there is a quarantine."""
    control = server.control
    control.config_set("lock.session-grace", 0)
    holder = server.actor("holder")
    _leases(server, holder)
    _waits(server, holder)
    _sessions(server)
    _deadlock(server, holder)
    _replicas(server, holder)
    _delay(control)
    assert holder.call("LOCK.ACQUIRE", "again", "alice", "PX", HOUR) == 1
    assert holder.call("LOCK.ACQUIRE", "again", "alice", "PX", HOUR) == 2
    assert holder.call("LOCK.ACQUIRE", "again", "alice", "PX", HOUR, "ONCE") == 2
    assert holder.call("LOCK.FORCE", "again") == 1
    _keep_waiting(server, holder)
    server.all_searched()
    control.config_set("lock.quarantine", HOUR)
    wait_for(lambda: _counted(server) == COUNTED, what="all to be counted")


def _counted(server):
    info = server.info("lock")
    now = {name: info[name] for name in COUNTED}
    differ = {name: now[name] for name in now if now[name] != COUNTED[name]}
    assert not differ, differ
    return now


def _leases(server, holder):
    """Leases end while others wait, which then release in time; the first owners release too late."""
    waiters = [server.actor() for _ in range(LEASES)]
    for i, waiter in enumerate(waiters):
        assert holder.call("LOCK.ACQUIRE", f"lease:{i}", "alice", "PX", HOUR) == 1
        waiter.send("LOCK.ACQUIRE", f"lease:{i}", "bob", "PX", HOUR, "BLOCK", 0)
        waiter.wait_blocked()
        assert holder.call("PEXPIRE", f"lease:{i}", scaled_ms(500)) == 1
    for i, waiter in enumerate(waiters):
        assert waiter.reply() == 1
        release_too_late(server)
        assert waiter.call("LOCK.RELEASE", f"lease:{i}", "bob") == 0


def _waits(server, holder):
    """One wait for `report` ends with the lock; others time out, are cancelled, or end with their connections."""
    assert holder.call("LOCK.ACQUIRE", "report", "alice", "PX", HOUR) == 1
    waiter = server.actor("bob")
    for _ in range(MANY):
        assert waiter.call("LOCK.ACQUIRE", "report", "bob", "BLOCK", 1) is None
    waiter.send("LOCK.ACQUIRE", "report", "carol", "BLOCK", 0)
    waiter.wait_blocked()
    holder.call("LOCK.CANCEL", "report", "carol")
    assert waiter.outcome() is None
    gone = [server.actor() for _ in range(MANY)]
    for i, client in enumerate(gone):
        client.send("LOCK.ACQUIRE", "report", f"gone:{i}", "BLOCK", 0)
        client.wait_blocked()
        client.kill_socket()
    wait_for(lambda: server.info("lock")["lock_clients_gone"] == MANY, what="the clients to be gone")
    waiter.send("LOCK.ACQUIRE", "report", "bob", "PX", HOUR, "BLOCK", 0)
    waiter.wait_blocked()
    server.let_pass(scaled_ms(200))
    assert holder.call("LOCK.RELEASE", "report", "alice") == 0
    assert waiter.reply() == 1
    assert waiter.call("LOCK.RELEASE", "report", "bob") == 0


def _sessions(server):
    for i in range(MANY):
        client = server.actor()
        assert client.call("LOCK.ACQUIRE", f"session:{i}", "alice", "SESSION") == 1
        client.close()


def _deadlock(server, holder):
    other = server.actor()
    assert holder.call("LOCK.ACQUIRE", "first", "alice", "PX", HOUR) == 1
    assert other.call("LOCK.ACQUIRE", "second", "bob", "PX", HOUR) == 1
    other.send("LOCK.ACQUIRE", "first", "bob", "BLOCK", 0)
    other.wait_blocked()
    assert str(holder.attempt("LOCK.ACQUIRE", "second", "alice", "BLOCK", 0)).startswith("DEADLOCK")
    holder.call("LOCK.CANCEL", "first", "bob")
    assert other.outcome() is None


def _replicas(server, holder):
    """A connected replica is stalled, so it does not acknowledge a grant."""
    replica = server.start_replica()
    # A replica that is not in sync yet does not count as connected.
    wanted = ("LOCK.ACQUIRE", "acknowledged", "alice", "REPLICAS", 1)
    wait_for(lambda: holder.attempt(*wanted, 5000) == 1, what="the replica to acknowledge")
    assert holder.call("LOCK.RELEASE", "acknowledged", "alice") == 0
    os.kill(replica.pid, signal.SIGSTOP)
    try:
        reply = holder.attempt(*wanted, 50)
        assert str(reply).startswith("NOREPLICAS too few replicas acknowledged"), reply
    finally:
        os.kill(replica.pid, signal.SIGCONT)


def _delay(control):
    control.execute_command("DELAY.PUSH", "jobs", "one", 1, "job")
    wait_for(lambda: control.llen("jobs") == 1, what="the element to be delivered")
    control.set("no list", "text")
    control.execute_command("DELAY.PUSH", "no list", "one", 1, "job")


def _keep_waiting(server, holder):
    """Waits and holds that last until the end of the tests."""
    assert holder.call("LOCK.ACQUIRE", "busy", "alice", "SESSION") == 1
    for i in range(3):
        waiter = server.actor()
        waiter.send("LOCK.ACQUIRE", "busy", f"bob:{i}", "BLOCK", 0)
        waiter.wait_blocked()
    holder.call("LATCH.SET", "latch", 1)
    for words in (("LATCH.WAIT", "latch", "BLOCK", 0), ("LOCK.WATCH", "busy", "alice", "BLOCK", 0)):
        client = server.actor()
        client.send(*words)
        client.wait_blocked()
