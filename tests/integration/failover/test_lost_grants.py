"""A grant that the new master has not received has expired before another client is granted the lock.

Each way to lose a grant is tested with a quarantine and without: then there are two owners, which shows that the test
would notice them. All servers are on one machine, with one clock.
"""

import os
import signal

import pytest

from harness import scaled_ms, wait_for
from model.quarantine_scene import left_ms

LEASE = scaled_ms(1200)
LAG = 1  # s: min-replicas-max-lag
MARGIN = scaled_ms(300)
# A master notices up to three seconds after the lag that its replicas are missing: it counts in whole seconds, and two
# for its last check.
LASTS = LEASE + MARGIN
LASTS_WITH_SESSIONS = LEASE + (LAG + 3) * 1000 + MARGIN

quarantined = pytest.mark.parametrize("is_on", [True, False], ids=["quarantine", "none"])


@pytest.fixture
def master_of(make_server):
    """master_of(lasts=…): a master that is in service, and its replica."""

    def make(lasts, **config):
        leases = {"lock_quarantine": lasts, "lock_max_lease": LEASE, "lock_default_lease": LEASE}
        master = make_server(**leases, **config)
        replica = master.start_replica(**leases)
        wait_for(lambda: left_ms(master) == 0, 30, "the master's own quarantine to end")
        return master, replica

    return make


def send_signal(server, name):
    os.kill(server.pid, name)


class Stopped:
    """The replica is stopped, and when it continues it becomes a master before it reads more from its old master: all
    that was written in the meantime is lost.

    The server handles sockets in the order in which they have become readable.
    """

    def __init__(self, replica):
        self._replica, self._promoter = replica, replica.actor("promoter")
        assert self._promoter.call("PING") == "PONG"  # then the server has accepted the connection

    def __enter__(self):
        send_signal(self._replica, signal.SIGSTOP)
        self._promoter.send("REPLICAOF", "NO", "ONE")

    def __exit__(self, *failure):
        send_signal(self._replica, signal.SIGCONT)
        assert self._promoter.reply() == "OK"


def take(server):
    """a acquires the lock; returns when its lease expires."""
    assert server.control.execute_command("LOCK.ACQUIRE", "k", "a", "PX", LEASE) == 1
    return server.control.execute_command("PEXPIRETIME", "k")


def request(server, command="LOCK.ACQUIRE"):
    """b sends a request to a server that does not know that a holds the lock."""
    assert server.control.exists("k") == 0, "the grant was not lost"
    waiter = server.actor("b")
    waiter.send(command, "k", "b", "PX", LEASE, "BLOCK", 0)
    return waiter


def granted(server, waiter):
    """When b was granted the lock."""
    assert waiter.reply(timeout=30) == 1
    return server.control.execute_command("PEXPIRETIME", "k") - LEASE


def check(granted_at, end, is_on):
    if is_on:
        assert granted_at >= end, f"b was granted the lock {end - granted_at} ms before a's lease expired"
    else:
        assert granted_at < end, "without a quarantine b was not to wait for the end of a's lease"


@quarantined
@pytest.mark.parametrize("command", ["LOCK.ACQUIRE", "LOCK.FAIR"])
def test_grant_that_is_lost_with_its_master_has_expired(master_of, is_on, command):
    master, replica = master_of(LASTS if is_on else 0)
    with Stopped(replica):
        end = take(master)
        master.kill()
    check(granted(replica, request(replica, command)), end, is_on)
    master.start()  # for the harness to stop


@quarantined
def test_grant_of_an_old_master_that_still_runs_has_expired(master_of, is_on):
    """The old master does not know that it is no longer the master."""
    master, replica = master_of(LASTS if is_on else 0)
    with Stopped(replica):
        end = take(master)
    check(granted(replica, request(replica)), end, is_on)


@quarantined
def test_grant_that_was_not_on_disk_has_expired_after_a_crash(make_server, is_on):
    server = make_server(lock_quarantine=LASTS if is_on else 0)
    server.control.set("some", "data")
    server.control.save()
    wait_for(lambda: left_ms(server) == 0, 30, "its quarantine to end")
    end = take(server)
    server.kill()
    server.start()
    assert server.control.get("some") == "data"
    at = granted(server, request(server))
    if is_on or at < end:  # without one, a server that starts slowly grants late too
        check(at, end, is_on)


def with_sessions(master_of, is_on):
    """A master in service that refuses writes without its replica, and that replica."""
    lasts = LASTS_WITH_SESSIONS if is_on else 0
    master, replica = master_of(lasts, min_replicas_to_write=1, min_replicas_max_lag=LAG)
    wait_for(lambda: master.info("replication")["min_slaves_good_slaves"] == 1, what="the replica to be good")
    return master, replica


@quarantined
def test_session_on_an_isolated_master_has_ended(master_of, is_on):
    """The master renews as long as it accepts writes; then the hold ends, its owner is notified, and only then b is
    granted the lock."""
    master, replica = with_sessions(master_of, is_on)
    holder, watcher = master.actor("a"), master.actor("watch")
    with Stopped(replica):
        assert holder.call("LOCK.ACQUIRE", "k", "a", "SESSION") == 1
        watcher.send("LOCK.WATCH", "k", "a", "BLOCK", 0)
        watcher.wait_blocked()
    waiter = request(replica)
    if not is_on:
        check(granted(replica, waiter), master.control.execute_command("PEXPIRETIME", "k"), is_on)
        return
    assert watcher.reply(timeout=30) == "LOST"
    assert not waiter.has_reply()
    assert master.control.exists("k") == 0
    assert waiter.reply(timeout=30) == 1


def test_stopped_master_has_no_hold_when_it_continues(master_of):
    master, replica = with_sessions(master_of, True)
    holder = master.actor("a")
    with Stopped(replica):
        assert holder.call("LOCK.ACQUIRE", "k", "a", "SESSION") == 1
        send_signal(master, signal.SIGSTOP)
    try:
        granted(replica, request(replica))
    finally:
        send_signal(master, signal.SIGCONT)
    assert master.control.exists("k") == 0
    assert str(holder.attempt("LOCK.RENEW", "k", "a")).startswith(("NOREPLICAS", "NOTHELD"))
