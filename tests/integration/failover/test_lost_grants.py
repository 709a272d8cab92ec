"""A grant that the new master has never heard of is over before anybody else is granted the lock.

Each way to lose one is played with a quarantine and without: then there are two owners, so the test would see them.
All is on one machine, by one clock.
"""

import os
import signal

import pytest

from harness import scaled_ms, wait_for
from model.quarantine_scene import left_ms

LEASE = scaled_ms(1200)
LAG = 1  # s: min-replicas-max-lag
MARGIN = scaled_ms(300)
# A master finds that it lacks its replicas up to three seconds after the lag: it counts whole ones, and on its last look
# for two.
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


class Deaf:
    """The replica stands still, and when it goes on it is a master before it reads on from its own: what was written
    within is lost.

    The server works off what has become readable in the order in which it did.
    """

    def __init__(self, replica):
        self._replica, self._promoter = replica, replica.actor("promoter")
        assert self._promoter.call("PING") == "PONG"  # the server has accepted the connection, too

    def __enter__(self):
        send_signal(self._replica, signal.SIGSTOP)
        self._promoter.send("REPLICAOF", "NO", "ONE")

    def __exit__(self, *failure):
        send_signal(self._replica, signal.SIGCONT)
        assert self._promoter.reply() == "OK"


def take(server):
    """a takes the lock; returns when its lease ends."""
    assert server.control.execute_command("LOCK.ACQUIRE", "k", "a", "PX", LEASE) == 1
    return server.control.execute_command("PEXPIRETIME", "k")


def ask_for(server, command="LOCK.ACQUIRE"):
    """b asks a server that has not heard that a has the lock."""
    assert server.control.exists("k") == 0, "nothing was lost"
    waiter = server.actor("b")
    waiter.send(command, "k", "b", "PX", LEASE, "BLOCK", 0)
    return waiter


def granted(server, waiter):
    """When b was granted it."""
    assert waiter.reply(timeout=30) == 1
    return server.control.execute_command("PEXPIRETIME", "k") - LEASE


def judge(granted_at, end, is_on):
    if is_on:
        assert granted_at >= end, f"b was granted the lock {end - granted_at} ms before a's lease ended"
    else:
        assert granted_at < end, "without a quarantine nobody was to wait for a's lease"


@quarantined
@pytest.mark.parametrize("command", ["LOCK.ACQUIRE", "LOCK.FAIR"])
def test_master_dies_before_its_replica_has_heard(master_of, is_on, command):
    master, replica = master_of(LASTS if is_on else 0)
    with Deaf(replica):
        end = take(master)
        master.kill()
    judge(granted(replica, ask_for(replica, command)), end, is_on)
    master.start()  # for the harness to stop


@quarantined
def test_old_master_goes_on_beside_the_new_one(master_of, is_on):
    """Nobody has told it that it is none any more."""
    master, replica = master_of(LASTS if is_on else 0)
    with Deaf(replica):
        end = take(master)
    judge(granted(replica, ask_for(replica)), end, is_on)


@quarantined
def test_crash_loses_what_was_not_on_disk(make_server, is_on):
    server = make_server(lock_quarantine=LASTS if is_on else 0)
    server.control.set("some", "data")
    server.control.save()
    wait_for(lambda: left_ms(server) == 0, 30, "its quarantine to end")
    end = take(server)
    server.kill()
    server.start()
    assert server.control.get("some") == "data"
    at = granted(server, ask_for(server))
    if is_on or at < end:  # without one, who takes long to start is late too
        judge(at, end, is_on)


def with_sessions(master_of, is_on):
    """A master that refuses writes without its replica, in service, and that replica."""
    lasts = LASTS_WITH_SESSIONS if is_on else 0
    master, replica = master_of(lasts, min_replicas_to_write=1, min_replicas_max_lag=LAG)
    wait_for(lambda: master.info("replication")["min_slaves_good_slaves"] == 1, what="the replica to be good")
    return master, replica


@quarantined
def test_session_on_an_isolated_master(master_of, is_on):
    """It renews as long as it accepts writes; then the hold ends, its owner is told, and only then b is granted it."""
    master, replica = with_sessions(master_of, is_on)
    holder, watcher = master.actor("a"), master.actor("watch")
    with Deaf(replica):
        assert holder.call("LOCK.ACQUIRE", "k", "a", "SESSION") == 1
        watcher.send("LOCK.WATCH", "k", "a", "BLOCK", 0)
        watcher.wait_blocked()
    waiter = ask_for(replica)
    if not is_on:
        judge(granted(replica, waiter), master.control.execute_command("PEXPIRETIME", "k"), is_on)
        return
    assert watcher.reply(timeout=30) == "LOST"
    assert not waiter.has_reply()
    assert master.control.exists("k") == 0
    assert waiter.reply(timeout=30) == 1


def test_frozen_master_goes_on_when_its_holders_lease_is_over(master_of):
    master, replica = with_sessions(master_of, True)
    holder = master.actor("a")
    with Deaf(replica):
        assert holder.call("LOCK.ACQUIRE", "k", "a", "SESSION") == 1
        send_signal(master, signal.SIGSTOP)
    try:
        granted(replica, ask_for(replica))
    finally:
        send_signal(master, signal.SIGCONT)
    assert master.control.exists("k") == 0
    assert str(holder.attempt("LOCK.RENEW", "k", "a")).startswith(("NOREPLICAS", "NOTHELD"))
