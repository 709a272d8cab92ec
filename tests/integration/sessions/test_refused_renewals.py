"""A master that would refuse a write of a client renews no session: the holds end, and watches are notified."""

import os
import signal

import pytest

from harness import code_of, scaled_ms, wait_for
from harness.schedule import as_map
from model.session_scene import session, wait_free
from model.watch_scene import watches

LEASE = scaled_ms(900)
REQUESTS = {
    "plain": "LOCK.ACQUIRE k o SESSION",
    "fair": "LOCK.FAIR k o SESSION",
    "read": "LOCK.RWREAD k o SESSION",
    "write": "LOCK.RWWRITE k o SESSION",
    "permit": "LOCK.SEMAPHORE k o 3 SESSION",
    "multi-key": "LOCK.MACQUIRE 2 k l o SESSION",
}
each_hold = pytest.mark.parametrize("request_text", REQUESTS.values(), ids=REQUESTS)


class NoReplicas:
    code = "NOREPLICAS"

    def __init__(self, server):
        self._set = lambda number: server.control.config_set("min-replicas-to-write", number)

    def begin(self):
        self._set(1)

    def end(self):
        self._set(0)


class NotSaved:
    """The last save has failed, because a folder has the name of the file."""

    code = "MISCONF"

    def __init__(self, server):
        self._server = server
        (server.folder / "dump.rdb").mkdir(exist_ok=True)
        server.control.config_set("save", "3600 1000000")
        server.control.config_set("stop-writes-on-bgsave-error", "no")
        server.control.bgsave()
        wait_for(lambda: server.info("persistence")["rdb_bgsave_in_progress"] == 0, what="the save to end")
        assert server.info("persistence")["rdb_last_bgsave_status"] == "err"

    def begin(self):
        self._server.control.config_set("stop-writes-on-bgsave-error", "yes")

    def end(self):
        self._server.control.config_set("stop-writes-on-bgsave-error", "no")


@pytest.fixture
def server(server):
    server.control.config_set("lock.default-lease", LEASE)
    yield server
    server.control.config_set("min-replicas-to-write", 0)
    server.control.config_set("stop-writes-on-bgsave-error", "no")


@pytest.fixture(params=[NoReplicas, NotSaved], ids=["NOREPLICAS", "MISCONF"])
def refusal(request, server):
    return request.param(server)


@each_hold
def test_hold_ends_with_its_lease_and_the_watch_is_notified(server, actor, refusal, request_text):
    holder = actor()
    holder.call(*request_text.split())
    watcher = watches(server)
    refusal.begin()
    end = server.control.execute_command("PEXPIRETIME", "k")
    assert watcher.reply(timeout=10) == "LOST"
    # A renewal may have been executed between the two lines above.
    assert end <= server.now_ms() <= end + 2 * LEASE
    assert code_of(holder.attempt("LOCK.RENEW", "k", "o", "SESSION")) == refusal.code
    wait_free(server, "k", "l")


def ends_at(server):
    return server.control.execute_command("PEXPIRETIME", "k")


@each_hold
def test_session_is_renewed_again_when_writes_are_accepted_in_time(server, actor, refusal, request_text):
    server.control.config_set("lock.default-lease", scaled_ms(3000))
    holder = actor()
    holder.call(*request_text.split())
    refusal.begin()
    # Read after the refusal has begun: a renewal may have been executed just before.
    end = ends_at(server)
    server.let_pass(scaled_ms(1500))
    assert ends_at(server) == end, "it was renewed"
    refusal.end()
    wait_for(lambda: ends_at(server) > end, what="the next renewal")
    server.let_pass(scaled_ms(2000))
    assert ends_at(server) > server.now_ms()
    assert server.control.exists("k")


def test_session_is_renewed_as_soon_as_writes_are_accepted(server, actor, refusal):
    """It does not wait for a third of the lease."""
    server.control.config_set("lock.default-lease", 60_000)
    holder = actor()
    holder.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    refusal.begin()
    server.control.config_set("lock.default-lease", scaled_ms(3000))
    other = actor()
    refusal.end()
    other.call("LOCK.ACQUIRE", "l", "o", "SESSION")  # due earlier, so both are renewed
    refusal.begin()
    server.let_pass(scaled_ms(1500))
    ends = [server.control.execute_command("PEXPIRETIME", key) for key in "kl"]
    refusal.end()
    wait_for(lambda: server.control.execute_command("PEXPIRETIME", "l") > ends[1], scaled_ms(300) / 1000, "the renewal")


def test_session_whose_hold_has_ended_is_forgotten(server, actor, refusal):
    actor().call("LOCK.ACQUIRE", "k", "o", "SESSION")
    refusal.begin()
    wait_free(server)
    refusal.end()
    wait_for(lambda: server.info("lock")["lock_sessions"] == 0, what="the binding to be forgotten")
    server.let_pass(LEASE)
    assert not server.control.exists("k")


def test_waiter_is_granted_when_writes_are_accepted_again(server, actor, refusal):
    actor().call("LOCK.ACQUIRE", "k", "o", "SESSION")
    waiter = actor()
    waiter.send("LOCK.ACQUIRE", "k", "w", "PX", 60_000, "BLOCK", 0)
    waiter.wait_blocked()
    refusal.begin()
    end = ends_at(server)
    wait_for(lambda: server.now_ms() > end + LEASE, 20, "the lease to expire")
    server.settle()
    assert not waiter.has_reply()
    refusal.end()
    assert waiter.reply(timeout=10) == 1


def test_closed_connection_is_noticed_while_writes_are_refused(server, actor):
    """The hold is released after its grace, but no waiter is granted."""
    server.control.config_set("lock.session-grace", 0)
    holder = actor()
    holder.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    waiter = actor()
    waiter.send("LOCK.ACQUIRE", "k", "w", "PX", 60_000, "BLOCK", 0)
    waiter.wait_blocked()
    refusal = NoReplicas(server)
    server.control.config_set("lock.default-lease", 60_000)
    refusal.begin()
    holder.kill_socket()
    wait_free(server)
    server.settle()
    assert not waiter.has_reply()
    refusal.end()
    assert waiter.reply() == 1


def test_sessions_are_not_renewed_while_the_only_replica_is_stopped(make_server):
    """A real case: after min-replicas-max-lag an earlier session is not renewed, until the replica continues."""
    master = make_server(min_replicas_to_write=1, min_replicas_max_lag=1, lock_default_lease=LEASE)
    replica = master.start_replica()
    wait_for(lambda: master.info("replication")["min_slaves_good_slaves"] == 1, what="the replica to be good")
    holder = master.actor()
    assert holder.call("LOCK.ACQUIRE", "k", "o", "SESSION") == 1
    master.let_pass(2 * LEASE)
    assert session(master) == holder.client_id
    watcher = watches(master)
    os.kill(replica.pid, signal.SIGSTOP)
    try:
        assert watcher.reply(timeout=30) == "LOST"
        assert code_of(holder.attempt("LOCK.ACQUIRE", "k", "o", "SESSION")) == "NOREPLICAS"
    finally:
        os.kill(replica.pid, signal.SIGCONT)
    wait_for(lambda: master.info("replication")["min_slaves_good_slaves"] == 1, 20, "the replica to be good again")
    assert holder.call("LOCK.ACQUIRE", "k", "o", "SESSION") == 1
    assert as_map(master.control.execute_command("LOCK.INFO", "k"))["mode"] == "exclusive"
