"""Sessions with so many holds that the server renews them, or releases them, in more than one turn."""

import pytest

from harness import scaled_ms, wait_for
from harness.aof import aof_of, commands_in
from model.session_scene import LONG, begin_to_wait
from model.session_scene import server  # noqa: F401

MANY = 20_000


@pytest.fixture
def many(server):
    """A connection with so many holds that they are not renewed, or released, in one turn."""
    client = server.client()
    pipe = client.pipeline(transaction=False)
    for n in range(MANY):
        pipe.execute_command("LOCK.ACQUIRE", f"many:{n}", "o", "SESSION")
    assert pipe.execute() == [1] * MANY
    return client


def begin_to_wait_and_ask(actor, key, *question):
    """Its second reply is what it was when the lock was given to it."""
    client = begin_to_wait(actor, f"waits for {key}", key=key)
    client.send(*question)
    return client


def end_pause_when_due(server, key, lease):
    """All that is to be renewed, and all whose connections have closed."""
    wait_for(lambda: server.control.pttl(key) < lease / 2, what="all to be due")
    server.control.execute_command("CLIENT", "UNPAUSE")


def test_others_are_served_while_many_are_released(actor, many):
    waiters = [begin_to_wait_and_ask(actor, f"many:{n}", "DBSIZE") for n in (1000, MANY // 2, MANY - 1000)]
    many.connection_pool.disconnect()
    assert [waiter.reply() for waiter in waiters] == [1, 1, 1]
    first, second, third = (waiter.reply() for waiter in waiters)
    assert first > second > third, "they were served only after all were released"


def test_many_to_release_delay_no_renewal(server, actor, many):
    lease = scaled_ms(3000)
    server.control.config_set("lock.default-lease", lease)
    actor().call("LOCK.ACQUIRE", "k", "o", "SESSION")
    waiter = begin_to_wait_and_ask(actor, f"many:{MANY // 2}", "PTTL", "k")
    server.control.execute_command("CLIENT", "PAUSE", LONG, "WRITE")
    many.connection_pool.disconnect()
    end_pause_when_due(server, "k", lease)
    assert waiter.reply() == 1
    assert waiter.reply() > lease / 2, "the renewal had to wait for all releases"


def test_many_to_renew_delay_no_release(server, actor, many):
    lease, last = scaled_ms(6000), f"many:{MANY - 1}"
    server.control.config_set("lock.default-lease", lease)
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    many.execute_command("LOCK.RENEW", last, "o", "SESSION")
    waiter = begin_to_wait_and_ask(actor, "k", "PTTL", last)
    server.control.execute_command("CLIENT", "PAUSE", LONG, "WRITE")
    a.kill_socket()
    end_pause_when_due(server, last, lease)
    assert waiter.reply() == 1
    assert waiter.reply() < lease / 2, "the release had to wait for all renewals"


def largest_turn(server, since):
    """How many renewals are in one transaction of the AOF at most, behind so many bytes."""
    largest = count = 0
    for words in commands_in(aof_of(server)[since:]):
        count = count + 1 if words[0] == "PEXPIREAT" else 0
        largest = max(largest, count)
    return largest


@pytest.mark.timing
def test_turns_are_longer_when_leases_would_end(clock, make_server):
    """Ten times, as soon as the first has been due for a third of the lease; and short again afterwards."""
    server = make_server(appendonly="yes", appendfsync="no", lock_default_lease=30_000)
    keys = [f"many:{number}" for number in range(MANY)]
    with server.client().pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.execute_command("LOCK.ACQUIRE", key, "o", "SESSION")
        assert pipe.execute() == [1] * MANY
        turns, now = [], 0
        for passes in (12, 24, 12):  # seconds; a third is 10
            since, now = len(aof_of(server)), now + passes
            clock.step_and_ring(server, now)
            wait_for(lambda: min(server.control.pttl(key) for key in keys[:: MANY - 1]) > 25_000, 30, "the renewals")
            turns.append(largest_turn(server, since))
    on_time, late, on_time_again = turns
    assert late > 3 * on_time and late > 3 * on_time_again, turns
