"""A server that stood still grants and renews nothing before it has counted its replicas: with lock.quarantine."""

import os
import signal
import time

import pytest

from harness import code_of, scaled_ms, wait_for
from model.quarantine_scene import ASKS, ASKS_AGAIN, FIRST, HOUR, begin, end, left_ms

STILL_S = 2.2  # longer than STANDSTILL_MS of standstill.h; no more than it has to be


@pytest.fixture
def server(make_server):
    """Its quarantine is over: it lasts a millisecond."""
    return make_server(lock_quarantine=1)


@pytest.fixture
def stands_still(server):
    """Says commands that are read in the turn after a standstill, as those that clients had sent meanwhile, and
    returns the last answer."""

    def call(*commands):
        with server.control.pipeline(transaction=False) as pipeline:
            pipeline.execute_command("DEBUG", "SLEEP", STILL_S)
            for command in commands:
                pipeline.execute_command(*command.split())
            answers = pipeline.execute(raise_on_error=False)[1:]
        return answers[0] if len(commands) == 1 else answers

    wait_for(lambda: left_ms(server) == 0, what="the first quarantine to end")
    return call


def passes(server):
    wait_for(lambda: left_ms(server) == 0, 20, "the server to count its replicas")


def each_in_its_db(asks):
    """Kinds of requests do not meet: each has a database of its own."""
    return [word for db, ask in enumerate(asks) for word in (f"SELECT {db}", ask)] + ["SELECT 0"]


def answers_of(server, asks):
    with server.control.pipeline(transaction=False) as pipeline:
        for command in each_in_its_db(asks):
            pipeline.execute_command(*command.split())
        return dict(zip(asks, pipeline.execute(raise_on_error=False)[1::2]))


def test_nothing_is_granted_until_it_is_over(server, stands_still):
    asks = dict(ASKS.values())
    heard = stands_still(*each_in_its_db(asks))
    assert heard[1::2] == [None] * len(asks)
    assert left_ms(server) > 0
    passes(server)
    for ask, answer in answers_of(server, asks).items():
        assert asks[ask](answer) if callable(asks[ask]) else answer == asks[ask], ask


def test_nobody_enters_again_until_it_is_over(server, stands_still):
    # A session would be bound to another connection here, the one that asks.
    kinds = [kind for kind in ASKS_AGAIN if kind != "session"]
    first = [f"{ASKS[FIRST.get(kind, kind)][0]} PX {HOUR}" for kind in kinds]
    again = {f"{ASKS_AGAIN[kind][0]} PX {HOUR}": ASKS_AGAIN[kind][1] for kind in kinds}
    assert all(answers_of(server, first).values())
    heard = stands_still(*each_in_its_db(again))
    assert heard[1::2] == [None] * len(again)
    passes(server)
    assert answers_of(server, again) == again


def test_who_waits_is_granted_when_it_is_over(server, stands_still, actor):
    holder, waiter = actor("h"), actor("w")
    holder.call("LOCK.ACQUIRE", "k", "h", "PX", HOUR)
    waiter.send("LOCK.ACQUIRE", "k", "w", "PX", HOUR, "BLOCK", 0)
    waiter.wait_blocked()
    assert stands_still("LOCK.RELEASE k h") == 0
    assert not waiter.has_reply() or left_ms(server) == 0
    assert waiter.reply(timeout=20) == 1
    assert left_ms(server) == 0


def test_a_lease_is_not_renewed_until_it_is_over(server, stands_still, actor):
    actor("h").call("LOCK.ACQUIRE", "k", "h", "PX", HOUR)
    ends_at = server.control.execute_command("PEXPIRETIME", "k")
    assert code_of(stands_still(f"LOCK.RENEW k h PX {HOUR}")) == "NOREPLICAS"
    assert server.control.execute_command("PEXPIRETIME", "k") == ends_at

    def renewed():
        try:
            return server.control.execute_command("LOCK.RENEW", "k", "h", "PX", HOUR) == 1
        except Exception as error:
            assert code_of(error) == "NOREPLICAS"
            return False

    wait_for(renewed, 20, "a renewal")


def test_what_the_keys_say_can_still_be_used_and_ended(server, stands_still, actor):
    actor("h").call("LOCK.ACQUIRE", "k", "h", "PX", HOUR)
    assert stands_still("LOCK.GUARD k h INCR x", "LOCK.RELEASE k h", "LOCK.FORCE k") == [1, 0, 0]


def test_in_a_quarantine_it_changes_nothing_but_renewals(server, stands_still, actor):
    actor("h").call("LOCK.ACQUIRE", "k", "h", "PX", HOUR)
    begin(server)
    assert code_of(stands_still(f"LOCK.RENEW k h PX {HOUR}")) == "NOREPLICAS"
    assert HOUR - scaled_ms(60_000) < left_ms(server) <= HOUR
    server.control.config_set("lock.quarantine", 1)
    passes(server)
    assert server.control.execute_command("LOCK.RENEW", "k", "h", "PX", HOUR) == 1


def test_without_quarantine_nothing_is_held_back(server, stands_still):
    end(server)
    assert stands_still(f"LOCK.ACQUIRE k o PX {HOUR}") == 1
    assert stands_still(f"LOCK.RENEW k o PX {HOUR}") == 1
    assert left_ms(server) == 0


def test_promoted_replica_that_was_stopped_waits_for_its_quarantine_only(make_server):
    master = make_server()
    replica = master.start_replica(lock_quarantine=1)
    replica.control.execute_command("DEBUG", "SLEEP", STILL_S)
    replica.control.replicaof("NO", "ONE")
    wait_for(lambda: replica.control.execute_command("LOCK.ACQUIRE", "k", "o", "PX", HOUR) == 1, 20, "a grant")


@pytest.mark.parametrize("hz", [1, 500])
def test_it_ends_at_every_pace_of_the_cron(server, stands_still, hz):
    server.control.config_set("hz", hz)
    server.let_pass(scaled_ms(2500))  # at the new pace for a second, and the one before is forgotten
    assert stands_still(f"LOCK.ACQUIRE k o PX {HOUR}") is None
    wait_for(lambda: server.control.execute_command("LOCK.ACQUIRE", "k", "o", "PX", HOUR) == 1, 20, "a grant")


def test_a_master_that_was_stopped_refuses_what_it_would_have_refused(make_server):
    """Its replica left without a word meanwhile. What clients had sent to it is the first that it reads."""
    server = make_server(lock_quarantine=1, min_replicas_to_write=1, min_replicas_max_lag=1)
    replica = server.start_replica()
    acquirer, renewer = server.actor("a"), server.actor("r")
    wait_for(lambda: renewer.attempt("LOCK.ACQUIRE", "k", "r", "PX", HOUR) == 1, 20, "a grant")
    os.kill(replica.pid, signal.SIGSTOP)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        acquirer.send("LOCK.ACQUIRE", "l", "a", "PX", HOUR)
        renewer.send("LOCK.RENEW", "k", "r", "PX", HOUR)
        time.sleep(STILL_S)  # both stand still: there is nobody to ask
    finally:
        os.kill(server.pid, signal.SIGCONT)
    try:
        answer = acquirer.outcome(timeout=20)
        assert answer is None or code_of(answer) == "NOREPLICAS"
        assert code_of(renewer.outcome(timeout=20)) == "NOREPLICAS"

        def refuses():
            return code_of(acquirer.attempt("LOCK.ACQUIRE", "l", "a", "PX", HOUR)) == "NOREPLICAS"

        wait_for(refuses, 20, "the server to count its replicas")
    finally:
        os.kill(replica.pid, signal.SIGCONT)
    wait_for(lambda: acquirer.attempt("LOCK.ACQUIRE", "l", "a", "PX", HOUR) == 1, 20, "a grant")
