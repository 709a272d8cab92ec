"""With lock.quarantine a server that was stalled grants and renews nothing before it has counted its replicas."""

import os
import signal
import time

import pytest

from harness import code_of, scaled_ms, wait_for
from model.quarantine_scene import REQUESTS, REQUESTS_AGAIN, FIRST, HOUR, begin, end, left_ms

STALL_S = 2.2  # a little longer than STALL_MS of stall.h


@pytest.fixture
def server(make_server):
    """Its quarantine lasts only a millisecond."""
    return make_server(lock_quarantine=1)


@pytest.fixture
def after_a_stall(server):
    """Sends commands that the server reads in the event-loop iteration after a stall, like those that clients sent
    during it; returns the reply, or all replies."""

    def call(*commands):
        with server.control.pipeline(transaction=False) as pipeline:
            pipeline.execute_command("DEBUG", "SLEEP", STALL_S)
            for command in commands:
                pipeline.execute_command(*command.split())
            replies = pipeline.execute(raise_on_error=False)[1:]
        return replies[0] if len(commands) == 1 else replies

    wait_for(lambda: left_ms(server) == 0, what="the first quarantine to end")
    return call


def wait_counted(server):
    wait_for(lambda: left_ms(server) == 0, 20, "the server to count its replicas")


def each_in_its_db(requests):
    """The kinds of requests do not conflict: each has a database of its own."""
    return [word for db, request in enumerate(requests) for word in (f"SELECT {db}", request)] + ["SELECT 0"]


def replies_to(server, requests):
    with server.control.pipeline(transaction=False) as pipeline:
        for command in each_in_its_db(requests):
            pipeline.execute_command(*command.split())
        return dict(zip(requests, pipeline.execute(raise_on_error=False)[1::2]))


def test_nothing_is_granted_before_replicas_are_counted(server, after_a_stall):
    requests = dict(REQUESTS.values())
    replies = after_a_stall(*each_in_its_db(requests))
    assert replies[1::2] == [None] * len(requests)
    assert left_ms(server) > 0
    wait_counted(server)
    for request, reply in replies_to(server, requests).items():
        expected = requests[request]
        assert expected(reply) if callable(expected) else reply == expected, request


def test_no_owner_reenters_before_replicas_are_counted(server, after_a_stall):
    # A session would be bound to another connection here, that of the second request.
    kinds = [kind for kind in REQUESTS_AGAIN if kind != "session"]
    first = [f"{REQUESTS[FIRST.get(kind, kind)][0]} PX {HOUR}" for kind in kinds]
    again = {f"{REQUESTS_AGAIN[kind][0]} PX {HOUR}": REQUESTS_AGAIN[kind][1] for kind in kinds}
    assert all(replies_to(server, first).values())
    replies = after_a_stall(*each_in_its_db(again))
    assert replies[1::2] == [None] * len(again)
    wait_counted(server)
    assert replies_to(server, again) == again


def test_waiter_is_granted_when_replicas_are_counted(server, after_a_stall, actor):
    holder, waiter = actor("h"), actor("w")
    holder.call("LOCK.ACQUIRE", "k", "h", "PX", HOUR)
    waiter.send("LOCK.ACQUIRE", "k", "w", "PX", HOUR, "BLOCK", 0)
    waiter.wait_blocked()
    assert after_a_stall("LOCK.RELEASE k h") == 0
    assert not waiter.has_reply() or left_ms(server) == 0
    assert waiter.reply(timeout=20) == 1
    assert left_ms(server) == 0


def test_lease_is_not_renewed_before_replicas_are_counted(server, after_a_stall, actor):
    actor("h").call("LOCK.ACQUIRE", "k", "h", "PX", HOUR)
    ends_at = server.control.execute_command("PEXPIRETIME", "k")
    assert code_of(after_a_stall(f"LOCK.RENEW k h PX {HOUR}")) == "NOREPLICAS"
    assert server.control.execute_command("PEXPIRETIME", "k") == ends_at

    def renewed():
        try:
            return server.control.execute_command("LOCK.RENEW", "k", "h", "PX", HOUR) == 1
        except Exception as error:
            assert code_of(error) == "NOREPLICAS"
            return False

    wait_for(renewed, 20, "a renewal")


def test_existing_hold_can_still_be_used_and_released(server, after_a_stall, actor):
    actor("h").call("LOCK.ACQUIRE", "k", "h", "PX", HOUR)
    assert after_a_stall("LOCK.GUARD k h INCR x", "LOCK.RELEASE k h", "LOCK.FORCE k") == [1, 0, 0]


def test_stall_in_a_quarantine_refuses_only_renewals(server, after_a_stall, actor):
    actor("h").call("LOCK.ACQUIRE", "k", "h", "PX", HOUR)
    begin(server)
    assert code_of(after_a_stall(f"LOCK.RENEW k h PX {HOUR}")) == "NOREPLICAS"
    assert HOUR - scaled_ms(60_000) < left_ms(server) <= HOUR
    server.control.config_set("lock.quarantine", 1)
    wait_counted(server)
    assert server.control.execute_command("LOCK.RENEW", "k", "h", "PX", HOUR) == 1


def test_stall_without_quarantine_refuses_nothing(server, after_a_stall):
    end(server)
    assert after_a_stall(f"LOCK.ACQUIRE k o PX {HOUR}") == 1
    assert after_a_stall(f"LOCK.RENEW k o PX {HOUR}") == 1
    assert left_ms(server) == 0


def test_promoted_replica_after_a_stall_waits_only_for_its_quarantine(make_server):
    master = make_server()
    replica = master.start_replica(lock_quarantine=1)
    replica.control.execute_command("DEBUG", "SLEEP", STALL_S)
    replica.control.replicaof("NO", "ONE")
    wait_for(lambda: replica.control.execute_command("LOCK.ACQUIRE", "k", "o", "PX", HOUR) == 1, 20, "a grant")


@pytest.mark.parametrize("hz", [1, 500])
def test_replicas_are_counted_at_every_hz(server, after_a_stall, hz):
    server.control.config_set("hz", hz)
    server.let_pass(scaled_ms(2500))  # after a second at the new rate the old one does not matter
    assert after_a_stall(f"LOCK.ACQUIRE k o PX {HOUR}") is None
    wait_for(lambda: server.control.execute_command("LOCK.ACQUIRE", "k", "o", "PX", HOUR) == 1, 20, "a grant")


def test_stopped_master_that_has_lost_its_replica_refuses_grants(make_server):
    """Its replica became silent in the meantime. The master first reads what clients had sent to it."""
    server = make_server(lock_quarantine=1, min_replicas_to_write=1, min_replicas_max_lag=1)
    replica = server.start_replica()
    acquirer, renewer = server.actor("a"), server.actor("r")
    wait_for(lambda: renewer.attempt("LOCK.ACQUIRE", "k", "r", "PX", HOUR) == 1, 20, "a grant")
    os.kill(replica.pid, signal.SIGSTOP)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        acquirer.send("LOCK.ACQUIRE", "l", "a", "PX", HOUR)
        renewer.send("LOCK.RENEW", "k", "r", "PX", HOUR)
        time.sleep(STALL_S)  # both are stopped: there is no condition to wait for
    finally:
        os.kill(server.pid, signal.SIGCONT)
    try:
        reply = acquirer.outcome(timeout=20)
        assert reply is None or code_of(reply) == "NOREPLICAS"
        assert code_of(renewer.outcome(timeout=20)) == "NOREPLICAS"

        def refuses():
            return code_of(acquirer.attempt("LOCK.ACQUIRE", "l", "a", "PX", HOUR)) == "NOREPLICAS"

        wait_for(refuses, 20, "the server to count its replicas")
    finally:
        os.kill(replica.pid, signal.SIGCONT)
    wait_for(lambda: acquirer.attempt("LOCK.ACQUIRE", "l", "a", "PX", HOUR) == 1, 20, "a grant")
