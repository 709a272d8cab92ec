"""What is to happen minutes or hours from now, on servers whose time of day is moved on."""

import re
from pathlib import Path

import pytest

from harness import wait_for
from model.fair_scene import ENDS, HOUR, QUEUE, order

MINUTE = 60_000


@pytest.fixture
def server(clock, make_server):
    """Where k is held for longer than any test looks ahead."""
    server = make_server()
    server.control.execute_command("LOCK.ACQUIRE", "k", "oa", "PX", 1000 * HOUR)
    return server


@pytest.fixture
def now_it_is(clock, server):
    """now_it_is(6 * MINUTE): so long after the test has begun, and all that is due then has happened."""
    return lambda ms: clock.step_and_ring(server, ms / 1000)


def begin_to_wait(server, command, block):
    waiter = server.actor("ob")
    waiter.send(command, "k", "ob", "BLOCK", block)
    return waiter.wait_blocked()


def test_places_stay_written_down_while_somebody_waits_for_ever(server, now_it_is):
    """Their keys would expire after ten minutes; each time when half of that is over they are put off."""
    waiter = begin_to_wait(server, "LOCK.FAIR", 0)

    def will_live():
        return min(server.control.pttl(name) for name in (QUEUE, ENDS)) > 5 * MINUTE

    for minutes in (6, 12, 18):
        now_it_is(minutes * MINUTE)
        wait_for(will_live, what=f"the keys to be put off after {minutes} minutes")
    assert order(server) == server.control.zrange(QUEUE, 0, -1) == ["ob"]
    assert waiter.is_blocked()


@pytest.mark.parametrize("command", ["LOCK.ACQUIRE", "LOCK.FAIR"])
def test_wait_of_more_than_a_day_ends_when_it_should(server, now_it_is, command):
    """No timer of the module's is that long: it is set again and again."""
    waiter = begin_to_wait(server, command, 26 * HOUR)
    for hours in (0.7, 1.4, 25):
        now_it_is(hours * HOUR)
        assert waiter.is_blocked()
    now_it_is(27 * HOUR)
    assert waiter.reply() is None


@pytest.mark.timing
@pytest.mark.parametrize("command", ["LOCK.ACQUIRE", "LOCK.FAIR", "LOCK.RWREAD"])
def test_server_sleeps_until_then(make_server, command):
    server = make_server()
    server.control.execute_command("LOCK.RWWRITE" if "RW" in command else "LOCK.ACQUIRE", "k", "oa", "PX", 1000 * HOUR)
    begin_to_wait(server, command, HOUR)
    server.all_searched()

    def times_woken():
        status = Path(f"/proc/{server.pid}/status").read_text()
        return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.MULTILINE)[1])

    before = times_woken()
    server.control.blpop("nothing", 1)
    # Ten a second are the server's own; a timer that comes each millisecond would be a thousand.
    assert times_woken() - before < 100
