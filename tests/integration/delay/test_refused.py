"""While the server may not write, due elements stay pending; afterwards they are delivered. And clocks that step."""

import time

import pytest

from harness import fewer, wait_for
from harness.cputime import MainThread
from model.delay_scene import (
    HOUR,
    LONG_AGO,
    delivered,
    due_of,
    pending,
    push,
    queues,
    stays_undelivered,
    stuck,
    value_of,
    wait_delivered,
    wait_nothing_left,
)


def refuse_by(name, value):
    return f"CONFIG SET {name} {value}"


def fail_to_save(server):
    """Makes BGSAVE fail: a folder has the name of the file. Writes are still allowed, for now."""
    (server.folder / "dump.rdb").mkdir(exist_ok=True)
    server.control.config_set("stop-writes-on-bgsave-error", "no")
    server.control.config_set("save", "3600 1000000")
    server.control.bgsave()
    wait_for(lambda: server.info("persistence")["rdb_bgsave_in_progress"] == 0, what="the save to end")
    assert server.info("persistence")["rdb_last_bgsave_status"] == "err"


REFUSALS = {
    "OOM": (lambda server: None, "maxmemory", 1, 0),
    "MISCONF": (fail_to_save, "stop-writes-on-bgsave-error", "yes", "no"),
    "NOREPLICAS": (lambda server: None, "min-replicas-to-write", 1, 0),
}


@pytest.mark.parametrize("arrange, option, refuse, allow", REFUSALS.values(), ids=REFUSALS)
def test_due_elements_stay_until_writes_are_accepted(server, some_client, at_once, arrange, option, refuse, allow):
    arrange(server)
    # In one packet: nothing is delivered before the server refuses writes.
    at_once("DELAY.PUSH q a 0 va", "DELAY.PUSH q b 1 vb", f"DELAY.PUSH q c {HOUR} vc", refuse_by(option, refuse))
    wait_for(lambda: stuck(server) == 2, what="the stuck ones to be counted")
    before = server.dump()
    stays_undelivered(server, some_client, "a", "b", "c")
    assert server.dump() == before
    server.control.config_set(option, allow)
    wait_delivered(some_client, "va", "vb")
    assert pending(some_client) == ["c"]
    assert stuck(server) == 0


@pytest.mark.parametrize("how", ["WRITE", "ALL"])
def test_due_elements_stay_during_a_pause(make_server, how):
    server = make_server(appendonly="yes")  # then the server asserts that nothing is propagated in a pause
    client, sock = server.client(), server.raw_connection()
    sock.sendall(b"DELAY.PUSH q a 0 va\r\nCLIENT PAUSE %d %s\r\n" % (600 if how == "ALL" else HOUR, how.encode()))
    replies = sock.makefile("rb")
    assert [replies.readline() for _ in range(3)] == [b"$1\r\n", b"a\r\n", b"+OK\r\n"]
    if how == "WRITE":
        stays_undelivered(server, client, "a")
        server.control.execute_command("CLIENT", "UNPAUSE")
    wait_delivered(client, "va")
    wait_nothing_left(server, client)


def test_due_elements_are_counted_as_stuck_during_a_pause(server, some_client, at_once):
    at_once("DELAY.PUSH q later 9999999 v", "DELAY.PUSH q a 0 va", "DELAY.PUSH p b 0 vb", f"CLIENT PAUSE {HOUR} WRITE")
    wait_for(lambda: stuck(server) == 2, what="the stuck ones to be counted")
    at_once("CLIENT UNPAUSE")
    wait_delivered(some_client, "va")
    wait_delivered(some_client, "vb", name="p")
    assert stuck(server) == 0 and pending(some_client) == ["later"]


def test_due_elements_stay_during_a_second_pause(server, some_client, at_once):
    at_once("DELAY.PUSH q a 0 va", f"CLIENT PAUSE {HOUR} WRITE")
    server.settle(50)
    at_once("CLIENT UNPAUSE", f"CLIENT PAUSE {HOUR} WRITE")
    stays_undelivered(server, some_client, "a")
    at_once("CLIENT UNPAUSE")
    wait_delivered(some_client, "va")


@pytest.mark.parametrize("command", ["ZREM", "HDEL", "UNLINK"])
def test_nothing_is_delivered_twice_if_a_command_is_renamed(make_server, command):
    server = make_server(**{f"rename-command {command}": "away"})
    client = server.client()
    for id_ in ("a", "b", "c"):
        push(client, id_, 0)
        wait_for(lambda id_=id_: delivered(client)[-1:] == [f"v{id_}"], what="the delivery")
    server.settle(50)
    assert delivered(client) == ["va", "vb", "vc"]
    assert client.exists(due_of()) == 0


def test_elements_stay_if_RPUSH_is_renamed(make_server):
    server = make_server(**{"rename-command RPUSH": "away"})
    client = server.client()
    push(client, "a", 0)
    wait_for(lambda: stuck(server) == 1, what="the stuck one")
    assert pending(client) == ["a"]


def test_writable_replica_delivers_nothing_until_it_is_a_master(server, some_client):
    server.control.replicaof("127.0.0.1", 1)
    server.control.config_set("replica-read-only", "no")
    push(some_client, "a", 0)
    stays_undelivered(server, some_client, "a")
    assert queues(server) == 0
    server.control.replicaof("NO", "ONE")
    wait_delivered(some_client, "va")
    wait_nothing_left(server, some_client)


def test_stuck_elements_are_removed_by_a_flush(server, some_client, at_once):
    at_once("SET q x", "DELAY.PUSH q a 0 va")
    wait_for(lambda: stuck(server) == 1, what="the stuck one")
    some_client.flushall()
    assert queues(server) == stuck(server) == 0
    server.settle(250)
    assert some_client.keys() == []


# The clock


def test_elements_due_in_hours_are_delivered_when_the_clock_is_there(clock, make_server):
    server = make_server()
    client = server.client()
    push(client, "a", 2 * HOUR)
    push(client, "b", 5 * HOUR)
    for hours, values in ((1, []), (1.9, []), (2.1, ["va"]), (4.9, ["va"]), (5.1, ["va", "vb"])):
        clock.step_and_run_timers(server, hours * 3600)
        wait_delivered(client, *values)
    wait_nothing_left(server, client)


def test_elements_wait_by_the_clock_after_it_steps_back(clock, make_server):
    server = make_server()
    client = server.client()
    client.set("q", "x")
    push(client, "a", 0)
    wait_for(lambda: stuck(server) == 1, what="the stuck one")
    clock.step_for(server, -3600)
    client.delete("q")
    # It is due at a time that will come again; an element that is pushed now is delivered now.
    push(client, "b", 1)
    wait_delivered(client, "vb")
    assert pending(client) == ["a"]
    clock.step_and_run_timers(server, 1)
    wait_delivered(client, "vb", "va")
    wait_nothing_left(server, client)


def test_push_after_a_step_back_is_delivered_in_time(clock, make_server):
    server = make_server()
    client = server.client()
    push(client, "a", HOUR)
    clock.step_for(server, -36000)
    for name in ("q", "other"):
        push(client, "b", 20, name=name)
        wait_for(lambda name=name: delivered(client, name) == ["vb"], what="the delivery")
    assert pending(client) == ["a"]


def test_overdue_element_that_was_stuck_is_delivered_after_a_step_back(clock, make_server):
    server = make_server()
    client = server.client()
    client.set("q", "x")
    push(client, "a", HOUR)
    client.zadd(due_of(), {"a": LONG_AGO})
    wait_for(lambda: stuck(server) == 1, what="the stuck one")
    clock.step_for(server, -3600)
    server.settle(200)
    client.delete("q")
    wait_delivered(client, "va")


def test_generated_ids_grow_while_the_clock_steps_back(clock, make_server):
    server = make_server()
    client, ids = server.client(), []
    for seconds in (0, -3600, -7200, 3600, 0):
        clock.step_for(server, seconds)
        ids += [int(push(client, "*", HOUR)) for _ in range(20)]
    assert ids == sorted(set(ids))


def module_sees(clock, server):
    """Skips the test if the server binds its modules to the C library itself: then they see the true time."""
    clock.step_for(server, 7200)
    ahead = int(push(server.client(), "*", HOUR, name="probe")) > (time.time() + 3600) * 1_000_000
    if not ahead:
        pytest.skip("the module of this server sees the true time")
    server.restart()
    clock.step_for(server, 0)


def test_generated_id_is_never_a_pending_one(clock, make_server):
    server = make_server()
    module_sees(clock, server)
    client = server.client()
    clock.step_for(server, 3600)
    last = int(push(client, "*", 9 * HOUR))
    # The server calls the timers that are due by a wall clock that it has read before. If the clock steps back just
    # then, a timer that is created in the meantime would be due at once, again and again.
    for _ in range(3):
        client.ping()
    clock.step_for(server, 0)
    # From here on the next larger ids are generated, and two of them are pending already.
    client.zadd(due_of(), {str(last + 1): 2**52, str(last + 2): 2**52})
    assert int(push(client, "*", HOUR)) > last + 2


@pytest.mark.timing
def test_generating_an_id_skips_100_000_pending_ids_in_few_steps(clock, make_server):
    server = make_server()
    module_sees(clock, server)
    client, many = server.client(), fewer(100_000)
    clock.step_for(server, 3600)
    last = int(push(client, "*", 9 * HOUR))
    for _ in range(3):
        client.ping()  # as above
    clock.step_for(server, 0)
    client.zadd(due_of(), {str(last + number): 2**52 for number in range(1, many + 1)})
    thread, ids = MainThread(server), []
    took = thread.of(lambda: ids.append(int(push(client, "*", HOUR))))
    assert ids[0] > last + many
    assert took < thread.limit_ms
