"""Several beats, of which one sends. No worker runs, so that what was sent stays in the queue."""

import json
import re
import signal
import time

import pytest
from harness import Server, wait_for

from seen import holds, info

KEY, TIMES = "celery:beat", "{celery:beat}:times"


def sent(server, task="tick"):
    """The processes that have sent this task, in order."""
    found = [json.loads(one)["headers"] for one in reversed(server.control.lrange("celery", 0, -1))]
    return [int(re.match(r"gen(\d+)@", one["origin"])[1]) for one in found if one["task"] == task]


def active(server):
    """The process that holds the lock, or None."""
    owners = list(holds(server, KEY))
    return int(owners[0].split(":")[1]) if owners else None


def wait_active(server, *beats):
    """The beat of these that becomes active and sends."""
    pids = [one.pid for one in beats]
    wait_for(lambda: active(server) in pids and sent(server)[-1:] == [active(server)], 30, f"{pids} to be active")
    return next(one for one in beats if one.pid == active(server))


def two(server, beat, **settings):
    """Two beats: the one that is active, and the one that stands by."""
    beats = [beat(**settings), beat(**settings)]
    first = wait_active(server, *beats)
    other = next(one for one in beats if one is not first)
    other.wait_log("beat: Standing by: lock")
    return first, other


def wait_more(server, number=3):
    """Waits until more has been sent."""
    before = len(sent(server))
    wait_for(lambda: len(sent(server)) >= before + number, 20, "more tasks")


def test_one_of_two_sends(server, beat):
    first, other = two(server, beat)
    wait_more(server, 10)
    assert set(sent(server)) == {first.pid}
    assert "lock -> celery:beat" in first.log() and "beat: Active, as " in first.log()
    assert other.pid not in sent(server)


def test_another_takes_over_at_once_when_the_active_one_ends(server, beat):
    first, other = two(server, beat)
    first.send(signal.SIGTERM)
    start = time.monotonic()
    wait_active(server, other)
    assert time.monotonic() - start < 4  # less than the lease
    assert first.wait_end() == 0


def test_one_that_stands_by_ends_at_once(server, beat):
    first, other = two(server, beat)
    other.send(signal.SIGTERM)
    assert other.wait_end() == 0
    wait_for(lambda: not info(server, KEY)["waiters"], 20)
    assert active(server) == first.pid


def test_another_takes_over_when_the_active_one_is_killed(server, beat):
    first, other = two(server, beat)
    first.kill()
    start = time.monotonic()
    wait_active(server, other)
    assert time.monotonic() - start < 20


def test_another_takes_over_when_the_active_one_is_stopped(server, beat):
    first, other = two(server, beat)
    first.send(signal.SIGSTOP)
    wait_active(server, other)
    before = len(sent(server))
    first.send(signal.SIGCONT)
    first.wait_log("beat: Standing by: lock")
    wait_more(server, 5)
    assert set(sent(server)[before:]) == {other.pid}
    # It takes over again.
    other.kill()
    wait_active(server, first)


def test_one_that_was_stopped_before_it_sends_sends_nothing(server, beat):
    """It has checked that it holds the lock, and continues when another one is active."""
    first, other = two(server, beat, scheduler="program:StopsItself")
    server.control.set("stop", "now")
    wait_active(server, other)
    assert not server.control.exists("stop")
    before = len(sent(server))
    first.send(signal.SIGCONT)
    first.wait_log("beat: Standing by: lock")
    wait_more(server, 5)
    assert set(sent(server)[before:]) == {other.pid}
    assert first.log().count("Standing by") == 1


@pytest.mark.parametrize("command", ["LOCK.FORCE", "DEL"])
def test_one_that_has_lost_the_lock_stops_sending(server, beat, command):
    first, other = two(server, beat)
    for number in range(3):
        server.control.execute_command(command, KEY)
        wait_more(server)
        # Whoever is active now, one has sent after the other.
        found = sent(server)
        changes = sum(1 for one, next in zip(found, found[1:]) if one != next)
        assert changes <= number + 1
    assert "the lock celery:beat is lost; nothing more is sent" in first.log() + other.log()


def test_times_are_taken_over(server, beat):
    """An hourly entry is sent when it is due, and not again by another one."""
    server.control.hset(TIMES, "hourly", repr(time.time() - 3601))
    first, other = two(server, beat)
    wait_for(lambda: sent(server, "hourly") == [first.pid], 20)
    first.kill()
    wait_active(server, other)
    wait_more(server)
    third = beat()
    other.kill()
    wait_active(server, third)
    wait_more(server)
    assert sent(server, "hourly") == [first.pid]
    assert time.time() - float(server.control.hget(TIMES, "hourly")) < 200


def test_a_time_that_was_missed_is_sent_by_the_next(server, beat):
    first, other = two(server, beat)
    assert not sent(server, "hourly")
    server.control.hset(TIMES, "hourly", repr(time.time() - 3601))
    first.kill()
    wait_for(lambda: sent(server, "hourly") == [other.pid], 30)


def test_without_a_server_nothing_is_sent(server, beat):
    alone = beat(locks="redis://127.0.0.1:1/0")
    alone.wait_log("beat: nothing is sent without an answer from the server of the lock: ")
    wait_for(lambda: alone.log().count("nothing is sent without") >= 2, 20)
    assert sent(server) == []
    alone.send(signal.SIGTERM)
    assert alone.wait_end() == 0


def test_without_the_module_it_ends(server, beat, launch, tmp_path):
    other = Server(launch, tmp_path / "other", load_module=False)
    try:
        alone = beat(locks=f"redis://127.0.0.1:{other.port}/0")
        assert alone.wait_end() == 1
        assert "is lock.so loaded on 127.0.0.1" in alone.log() and sent(server) == []
    finally:
        other.stop()


def test_a_refusal_sends_nothing(server, beat):
    server.control.execute_command("ACL", "SETUSER", "default", "-lock.acquire")
    alone = beat()
    alone.wait_log("beat: nothing is sent without an answer from the server of the lock: ")
    assert sent(server) == []
    server.control.execute_command("ACL", "SETUSER", "default", "+lock.acquire")
    wait_active(server, alone)


def test_after_an_outage_one_sends(server, beat):
    first, other = two(server, beat)
    wait_more(server)
    server.restart(save=True)
    wait_for(lambda: active(server) in (first.pid, other.pid), 60)
    wait_more(server, 5)
    found = sent(server)[-5:]
    assert len(set(found)) == 1 and found[0] == active(server)
