"""The wall clock steps back while the server calls timers: the server still replies (module/server/timer.h)."""

from contextlib import suppress

import pytest

from harness import wait_for

HOUR_S = 3600
# More reads than the server and the module make for all timers that fire here in one event-loop iteration.
MOST_READS = 30


@pytest.fixture
def ticking(clock, make_server):
    """A server on which timers of the module fire all the time: that of a session, and those of a stuck delayed queue.

    Without I/O threads, also in a run that has them: the clock counts the reads of the main thread in each iteration.
    """
    server = make_server(lock_default_lease=60, io_threads=1)
    client = server.client()
    client.set("stuck", "x")
    client.execute_command("DELAY.PUSH", "stuck", "a", 0, "va")
    assert client.execute_command("LOCK.ACQUIRE", "held", "o", "SESSION") == 1
    return server


def has_stepped(clock, client):
    """Waits for an iteration with only timers; if none of these reads it so often, makes one with many commands."""
    with suppress(AssertionError):
        wait_for(clock.has_stepped, 0.2)
    many = client.pipeline(transaction=False)
    for _ in range(2 * MOST_READS):
        many.ping()
    return many.execute() and clock.has_stepped()


@pytest.mark.parametrize("reads", range(1, MOST_READS + 1))
def test_server_replies_when_the_clock_steps_back_between_timers(clock, ticking, reads):
    client, waiter = ticking.client(), ticking.actor("waiter")
    # A lease expires, a wait times out, and an element is due.
    client.execute_command("LOCK.ACQUIRE", "k", "holder", "PX", 20)
    client.execute_command("DELAY.PUSH", "q", "*", 25, "v")
    waiter.send("LOCK.ACQUIRE", "k", "waiter", "BLOCK", 30)
    clock.step(-HOUR_S, reads)
    try:
        wait_for(lambda: has_stepped(clock, client), 2, what="the step")
    except AssertionError:
        # Valkey 9 reads the clock once in a millisecond, not for each command: no iteration has that many reads.
        assert ticking.is_valkey and ticking.version >= (9,)
        clock.step(-HOUR_S)
    assert client.ping()
    # What was delayed happens when the clock is right again and the server has checked its timers: Redis 7.2 and later
    # may sleep for the hour after which the first timer seemed to be due, until an earlier timer is set.
    clock.step_and_run_timers(ticking, 0)
    assert waiter.reply() in (1, None)
    wait_for(lambda: client.lrange("q", 0, -1) == ["v"], what="the element")


# More reads than the server makes for an iteration without commands; in the middle of those of a hundred commands.
READS_OF_COMMANDS = range(60, 72)


@pytest.mark.parametrize("reads", READS_OF_COMMANDS)
@pytest.mark.parametrize(
    "words",
    [
        "LOCK.ACQUIRE k# o PX 1000",
        "LOCK.RWREAD k# o PX 1000",
        "LATCH.SET k# 1 PX 1000",
        "LOCK.FAIR k# o PX 1000 FENCED",
    ],
)
def test_hold_outlives_a_clock_that_steps_back_in_its_command(clock, make_server, words, reads):
    """The server has read the time for the command, and decides by it whether a key has expired; the module reads it
    again, an hour earlier. On Redis 8.6 the key was deleted as soon as it was written, and its handle was used."""
    server = make_server(io_threads=1)
    commands = server.client().pipeline(transaction=False)
    for number in range(100):
        commands.execute_command(*words.replace("#", str(number)).split())
    clock.step(-HOUR_S, reads)
    assert all(commands.execute())
    wait_for(clock.has_stepped, 2, "the step")
    assert server.control.exists(*(f"k{number}" for number in range(100))) == 100
