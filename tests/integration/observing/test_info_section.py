"""The section of the module in INFO: counters, present values, and percentiles of waits."""

import pytest

from harness import scaled_ms, wait_for
from model.mutations import FAILURES, MUTATIONS, FAILS_AT_ONCE, TAKE, WAIT
from model.reported import REPORTED
from model.waiting_scene import HOUR, say, wait_as  # noqa: F401

COUNTERS = ["granted_at_once", "granted_after_wait", "granted_by_reentry", "repeats", "releases", "forced", "lease_ends"]
COUNTERS += ["time_outs", "cancelled", "clients_gone", "sessions_released"]
COUNTERS += ["deadlocks_refused", "deadlock_searches_cut"]
PERCENTILES = ["wait_ms_p50", "wait_ms_p99", "wait_ms_p99_9", "wait_ms_max", "wait_ms_total"]


def counted(server):
    """The present values of the counters."""
    info = server.info("lock")
    return {name: info["lock_" + name] for name in COUNTERS}


class counts:
    """Asserts that the counters grow by exactly these numbers in this block."""

    def __init__(self, server, **growth):
        self._server, self._growth = server, growth

    def __enter__(self):
        self._before = counted(self._server)

    def __exit__(self, *failure):
        if failure == (None, None, None):
            now = counted(self._server)
            grown = {name: now[name] - self._before[name] for name in COUNTERS}
            assert {name: by for name, by in grown.items() if by} == self._growth


def test_info_has_all_fields_and_they_begin_at_zero(make_server):
    server = make_server()
    names = ["waiters", "waiters_unsearched", "contended_locks", "sessions", *COUNTERS, *PERCENTILES]
    names += ["deadlock_searches", "deadlock_search_steps"]  # not in COUNTERS: a search runs a moment later
    names += ["watchers", "latch_waiters", "quarantine_ms", "unconfirmed_grants", "unconfirmed_oldest_ms"]
    names += ["awaiting_replicas", "not_acknowledged"]
    names += ["delay_queues", "delay_stuck", "delay_scanning", "delay_delivered"]
    # A server first scans for delayed queues.
    wait_for(lambda: server.info("lock")["lock_delay_scanning"] == 0, what="the end of the scan")
    assert server.info("lock") == {"lock_" + name: 0 for name in names}
    assert "lock_waiters" in server.info("everything")
    assert "lock_waiters" in server.info("modules")


@pytest.mark.parametrize("name", REPORTED)
def test_command_is_counted(server, name):
    mutation = MUTATIONS[name]
    waiter = mutation.arrange(server)
    with counts(server, **REPORTED[name][0]):
        say(server, mutation.command)
        mutation.check_waiter(waiter)


@pytest.mark.parametrize("name", FAILS_AT_ONCE)
def test_failure_is_not_counted(server, actor, name):
    for command in FAILURES[name].before:
        say(server, command)
    with counts(server):
        actor().attempt(*FAILURES[name].command.split())


def test_time_out_is_counted(server, actor):
    say(server, TAKE)
    with counts(server, time_outs=1):
        assert actor().call("LOCK.ACQUIRE", "k", "w", "BLOCK", 1) is None


def test_end_of_a_reserved_position_is_not_counted_as_time_out(server, actor):
    """Its waiter was counted when the connection closed."""
    server.control.config_set("lock.fair-reserve", scaled_ms(60))
    say(server, TAKE)
    with counts(server, clients_gone=1):
        waiter = actor()
        waiter.send("LOCK.FAIR", "k", "w", "BLOCK", 0)
        waiter.wait_blocked()
        waiter.kill_socket()
        wait_for(lambda: server.info("lock")["lock_contended_locks"] == 0, what="the position to end")


def test_lost_client_is_counted(server, wait_as):
    say(server, TAKE)
    waiter = wait_as()
    with counts(server, clients_gone=1):
        waiter.kill_socket()
        wait_for(lambda: server.info("lock")["lock_waiters"] == 0, what="the waiter to leave")


def test_lease_end_is_counted(server, wait_as):
    say(server, f"LOCK.ACQUIRE k o PX {HOUR}")
    waiter = wait_as()
    with counts(server, lease_ends=1, granted_after_wait=1):
        say(server, f"LOCK.RENEW k o PX {scaled_ms(300)}")
        assert waiter.reply() == 1


def test_waiters_and_contended_locks_are_present_values(server, wait_as):
    def now():
        info = server.info("lock")
        return info["lock_waiters"], info["lock_contended_locks"]

    for key in ("k", "l"):
        say(server, f"LOCK.ACQUIRE {key} o")
    wait_as("w1", "k"), wait_as("w2", "k"), wait_as("w3", "l")
    assert now() == (3, 2)
    say(server, "LOCK.CANCEL k w2")
    assert now() == (2, 2)
    say(server, "LOCK.RELEASE l o")
    assert now() == (1, 1)


def test_percentiles_of_waits_are_ordered_and_below_the_longest(make_server):
    server = make_server()
    start, waiter = server.now_ms(), server.actor()
    say(server, f"LOCK.ACQUIRE k o PX {scaled_ms(300)}")
    waiter.send(*WAIT.split())
    assert waiter.reply() == 1
    longest = server.now_ms() - start
    values = [server.info("lock")["lock_" + name] for name in PERCENTILES]
    assert values == sorted(values)
    assert 0 < values[0] <= values[-1] <= longest


def test_single_long_wait_shows_only_in_the_highest_percentile(make_server):
    """One wait of 301 is long. It lasts as long as all others together, so the others need not be short."""
    server = make_server()
    quick, slow = server.actor(), server.actor()
    say(server, f"LOCK.ACQUIRE k o PX {HOUR}")
    slow.send("LOCK.ACQUIRE", "k", "slow", "BLOCK", 0)
    slow.wait_blocked()
    say(server, f"LOCK.ACQUIRE l o0 PX {HOUR}")
    for number in range(300):
        quick.send("LOCK.ACQUIRE", "l", f"o{number + 1}", "PX", HOUR, "BLOCK", 0)
        quick.wait_blocked()
        say(server, f"LOCK.RELEASE l o{number}")
        assert quick.reply() == 1
    server.let_pass(scaled_ms(20))
    say(server, "LOCK.RELEASE k o")
    assert slow.reply() == 1
    p99, p99_9, longest = (server.info("lock")["lock_" + name] for name in PERCENTILES[1:4])
    assert p99 < p99_9 == longest
