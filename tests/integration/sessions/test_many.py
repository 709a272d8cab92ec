"""Sessions whose many holds the server renews or releases in more than one time slice."""

import pytest

from harness import scaled, scaled_ms, wait_for
from harness.aof import aof_of, commands_in
from harness.cputime import MainThread
from harness.schedule import as_map
from model.session_scene import LONG, begin_to_wait
from model.session_scene import server  # noqa: F401

MANY = 20_000


@pytest.fixture
def many(server):
    """A connection with more holds than are renewed or released in one time slice."""
    client = server.client()
    pipe = client.pipeline(transaction=False)
    for n in range(MANY):
        pipe.execute_command("LOCK.ACQUIRE", f"many:{n}", "o", "SESSION")
    assert pipe.execute() == [1] * MANY
    return client


def begin_to_wait_and_send(actor, key, *command):
    """A waiter whose second reply shows the state at the moment of its grant."""
    client = begin_to_wait(actor, f"waits for {key}", key=key)
    client.send(*command)
    return client


def end_pause_when_due(server, key, lease):
    """Ends the pause when all renewals and all releases are due."""
    wait_for(lambda: server.control.pttl(key) < lease / 2, what="all to be due")
    server.control.execute_command("CLIENT", "UNPAUSE")


def test_waiters_are_granted_while_many_holds_are_released(actor, many):
    waiters = [begin_to_wait_and_send(actor, f"many:{n}", "DBSIZE") for n in (1000, MANY // 2, MANY - 1000)]
    many.connection_pool.disconnect()
    assert [waiter.reply() for waiter in waiters] == [1, 1, 1]
    first, second, third = (waiter.reply() for waiter in waiters)
    assert first > second > third, "waiters were granted only after all releases"


def test_many_releases_delay_no_renewal(server, actor, many):
    lease = scaled_ms(3000)
    server.control.config_set("lock.default-lease", lease)
    actor().call("LOCK.ACQUIRE", "k", "o", "SESSION")
    waiter = begin_to_wait_and_send(actor, f"many:{MANY // 2}", "PTTL", "k")
    server.control.execute_command("CLIENT", "PAUSE", LONG, "WRITE")
    many.connection_pool.disconnect()
    end_pause_when_due(server, "k", lease)
    assert waiter.reply() == 1
    assert waiter.reply() > lease / 2, "the renewal had to wait for all releases"


def test_many_renewals_delay_no_release(server, actor, many):
    lease, last = scaled_ms(6000), f"many:{MANY - 1}"
    server.control.config_set("lock.default-lease", lease)
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    many.execute_command("LOCK.RENEW", last, "o", "SESSION")
    waiter = begin_to_wait_and_send(actor, "k", "PTTL", last)
    server.control.execute_command("CLIENT", "PAUSE", LONG, "WRITE")
    a.kill_socket()
    end_pause_when_due(server, last, lease)
    assert waiter.reply() == 1
    assert waiter.reply() < lease / 2, "the release had to wait for all renewals"


def largest_slice(server, since):
    """The largest number of renewals in one transaction of the AOF, after its first `since` bytes."""
    largest = count = 0
    for words in commands_in(aof_of(server)[since:]):
        count = count + 1 if words[0] == "PEXPIREAT" else 0
        largest = max(largest, count)
    return largest


@pytest.mark.timing
def test_time_slices_are_longer_when_leases_would_expire(clock, make_server):
    """Ten times as long, as soon as the first renewal has been due for a third of the lease; short again afterwards."""
    server = make_server(appendonly="yes", appendfsync="no", lock_default_lease=30_000)
    keys = [f"many:{number}" for number in range(MANY)]
    with server.client().pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.execute_command("LOCK.ACQUIRE", key, "o", "SESSION")
        assert pipe.execute() == [1] * MANY
        slices, now = [], 0
        for passes in (12, 24, 12):  # seconds; a third is 10
            since, now = len(aof_of(server)), now + passes
            clock.step_and_run_timers(server, now)
            wait_for(lambda: min(server.control.pttl(key) for key in keys[:: MANY - 1]) > 25_000, 30, "the renewals")
            slices.append(largest_slice(server, since))
    on_time, late, on_time_again = slices
    assert late > 3 * on_time and late > 3 * on_time_again, slices


# A connection closes, and another command runs in the same transaction, before the module checks the bound holds.


def kill_and(server, client, *commands):
    """Kills the client and runs the commands in one transaction; returns the replies except that of the kill."""
    server.control.config_set("lock.session-grace", 0)
    client_id = client.client_id()
    pipeline = server.control.pipeline(transaction=True)
    for words in (("CLIENT", "KILL", "ID", client_id), *commands):
        pipeline.execute_command(*words)
    return pipeline.execute()[1:]


def all_are_released(server, left=0):
    wait_for(lambda: server.info("lock")["lock_sessions"] == left, scaled(30))
    assert len(set(server.control.scan_iter("many:*", count=1000))) == left  # SCAN may return a key twice


def test_no_hold_is_bound_right_after_the_close(server, many):
    keys = [f"many:{n}" for n in (0, MANY // 2, MANY - 1)]
    infos = kill_and(server, many, *(("LOCK.INFO", key) for key in keys))
    assert [as_map(as_map(info)["holders"][0])["session"] for info in infos] == [None] * 3
    all_are_released(server)


def test_hold_bound_to_a_new_connection_before_its_check_is_kept(server, many):
    keys = [f"many:{n}" for n in (0, MANY // 2, MANY - 1)]
    assert kill_and(server, many, *(("LOCK.RENEW", key, "o", "SESSION") for key in keys)) == [1, 1, 1]
    all_are_released(server, left=3)
    holders = [as_map(server.control.execute_command("LOCK.INFO", key))["holders"][0] for key in keys]
    assert {as_map(holder)["session"] for holder in holders} == {server.control.client_id()}


def test_hold_released_and_acquired_again_before_its_check_is_kept(server, many):
    words = (("LOCK.RELEASE", "many:7", "o"), ("LOCK.ACQUIRE", "many:7", "p", "PX", LONG))
    assert kill_and(server, many, *words) == [0, 1]
    wait_for(lambda: server.info("lock")["lock_sessions"] == 0, scaled(30))
    assert server.control.hgetall("many:7") == {"p": "1"}


def test_databases_swapped_before_the_check_of_the_holds(server, many):
    server.control.set("many:here", "of the other database")
    kill_and(server, many, ("SWAPDB", 0, 1))
    all_are_released(server)
    server.control.execute_command("SWAPDB", 0, 1)
    assert server.control.keys("many:*") == ["many:here"]


def test_data_flushed_before_the_check_of_the_holds(server, many):
    kill_and(server, many, ("FLUSHALL",), ("LOCK.ACQUIRE", "many:7", "o", "PX", LONG))
    wait_for(lambda: server.info("lock")["lock_sessions"] == 0, scaled(30))
    assert server.control.hgetall("many:7") == {"o": "1"}


def test_replica_releases_no_holds_of_a_connection_closed_before(make_server, actor):
    server = make_server(lock_quarantine=0)
    client = server.client()
    pipe = client.pipeline(transaction=False)
    for n in range(MANY):
        pipe.execute_command("LOCK.ACQUIRE", f"many:{n}", "o", "SESSION")
    pipe.execute()
    kill_and(server, client, ("REPLICAOF", "127.0.0.1", 1))
    assert server.info("lock")["lock_sessions"] == 0
    server.control.execute_command("REPLICAOF", "NO", "ONE")
    assert server.control.dbsize() == MANY


def test_holds_of_two_connections_that_close_are_released(server, many):
    other = server.client()
    pipe = other.pipeline(transaction=False)
    for n in range(MANY):
        pipe.execute_command("LOCK.ACQUIRE", f"many:other:{n}", "p", "SESSION")
    assert pipe.execute() == [1] * MANY
    kill_and(server, many, ("CLIENT", "KILL", "ID", other.client_id()))
    all_are_released(server)


def test_hold_in_its_grace_is_not_renewed(server, many):
    lease = scaled_ms(3000)
    server.control.config_set("lock.default-lease", lease)
    assert many.execute_command("LOCK.RENEW", "many:3", "o", "SESSION") == 1
    end = server.control.execute_command("PEXPIRETIME", "many:3")
    server.control.config_set("lock.session-grace", LONG)
    many.connection_pool.disconnect()
    server.let_pass(lease + 1)
    assert server.control.exists("many:3") == 0
    assert server.now_ms() > end


@pytest.mark.timing
def test_close_takes_no_longer_with_more_bound_holds(server):
    thread = MainThread(server)
    took = []
    for attempt in range(3):  # noise of the machine only adds time
        client = server.client()
        pipe = client.pipeline(transaction=False)
        for n in range(10 * MANY):
            pipe.execute_command("LOCK.ACQUIRE", f"many:{attempt}:{n}", "o", "SESSION")
        pipe.execute()
        took.append(thread.of(lambda client=client: kill_and(server, client)))
    assert min(took) < thread.limit_ms / 8
