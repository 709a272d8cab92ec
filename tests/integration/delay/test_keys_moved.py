"""A queue moves with its two keys, in either order: RENAME, RESTORE, COPY, MOVE, SWAPDB."""

import pytest

from harness import wait_for
from model.delay_scene import (
    HOUR,
    LONG_AGO,
    delivered,
    due_of,
    fall_due,
    pending,
    push,
    queues,
    stuck,
    value_of,
    wait_delivered,
    wait_nothing_left,
)

DUE, VALUE = due_of(), value_of()


@pytest.fixture
def q(server, some_client):
    """A client; the queue in front of q has a and b, due in hours."""
    push(some_client, "a", HOUR)
    push(some_client, "b", 2 * HOUR)
    return some_client


ORDERS = pytest.mark.parametrize("kinds", [(due_of, value_of), (value_of, due_of)], ids=["times first", "values first"])


@ORDERS
def test_queue_renamed_to_another_list_is_delivered_there(server, q, kinds):
    for side in kinds:
        q.rename(side("q"), side("p"))
    fall_due(q, "a", "b", name="p")
    wait_delivered(q, "va", "vb", name="p")
    wait_nothing_left(server, q, "p")
    assert delivered(q) == []


@ORDERS
def test_queue_renamed_over_another_is_delivered_there(server, q, kinds):
    push(q, "x", HOUR, name="p")
    for side in kinds:
        q.rename(side("q"), side("p"))
    fall_due(q, "a", "b", name="p")
    wait_delivered(q, "va", "vb", name="p")
    wait_nothing_left(server, q, "p")


@ORDERS
def test_queue_renamed_when_overdue_is_delivered_there(server, q, kinds):
    q.set("q", "no list")
    fall_due(q, "a", "b")
    wait_for(lambda: stuck(server) == 2, what="the stuck ones")
    for side in kinds:
        q.rename(side("q"), side("p"))
    wait_delivered(q, "va", "vb", name="p")
    wait_nothing_left(server, q, "p")


@ORDERS
@pytest.mark.parametrize("pause", [False, True], ids=["", "slowly"])
def test_restored_queue_is_delivered(server, q, kinds, pause):
    fall_due_later = q.zadd(DUE, {"a": 2**52, "b": 2**52 + 1}) == 0
    saved = {side: server.client(decode_responses=False).dump(side("q")) for side in kinds}
    q.delete(DUE, VALUE)
    wait_for(lambda: queues(server) == 0, what="the queue to be gone from memory")
    for side in kinds:
        q.restore(side("q"), 0, saved[side])
        server.settle(20 if pause else 0)
    assert fall_due_later and pending(q) == ["a", "b"]
    fall_due(q, "a", "b")
    wait_delivered(q, "va", "vb")
    wait_nothing_left(server, q)


@ORDERS
def test_overdue_queue_that_is_restored_is_delivered(server, q, kinds):
    q.set("q", "no list")
    fall_due(q, "a", "b")
    saved = {side: server.client(decode_responses=False).dump(side("q")) for side in kinds}
    q.delete(DUE, VALUE, "q")
    wait_for(lambda: queues(server) == 0, what="the queue to be gone from memory")
    assert delivered(q) == []
    for side in kinds:
        q.restore(side("q"), 0, saved[side])
        server.settle(10)
    wait_delivered(q, "va", "vb")
    wait_nothing_left(server, q)


@pytest.mark.parametrize("command", ["DELAY.LIST other", "DELAY.CANCEL other a", "DELAY.PUSH other a 9999999 v"])
@pytest.mark.parametrize("write", ["RESTORE", "ZADD", "COPY"])
def test_queue_written_before_the_first_command_is_delivered(make_server, write, command):
    """The module receives events of keys from the first command about a queue on, and then scans for older queues."""
    other, server = make_server(), make_server()
    client = server.client()
    push(other.client(), "a", HOUR)
    saved = other.client(decode_responses=False).dump(VALUE)
    client.restore(VALUE, 0, saved)
    if write == "ZADD":
        client.zadd(DUE, {"a": LONG_AGO})
    else:
        client.zadd("times", {"a": LONG_AGO})
        if write == "COPY":
            client.copy("times", DUE)
        else:
            client.restore(DUE, 0, server.client(decode_responses=False).dump("times"))
    client.execute_command(*command.split())
    wait_delivered(client, "va")


def test_queue_written_after_the_first_command_is_delivered(make_server):
    server = make_server()
    client = server.client()
    assert pending(client) == []
    client.hset(VALUE, "a", "va")
    client.zadd(DUE, {"a": LONG_AGO})
    wait_delivered(client, "va")


@ORDERS
def test_copied_queue_is_delivered_at_both_names(server, q, kinds):
    for side in kinds:
        q.copy(side("q"), side("p"))
    for name in ("q", "p"):
        fall_due(q, "a", "b", name=name)
    for name in ("q", "p"):
        wait_delivered(q, "va", "vb", name=name)
        wait_nothing_left(server, q, name)


@ORDERS
def test_queue_copied_to_another_database_is_delivered_in_both(server, q, kinds):
    there = server.client(db=3)
    for side in kinds:
        # By a client of its own: Valkey 8.1 leaves it in the other database once a module listens to such events.
        server.client().copy(side("q"), side("q"), destination_db=3)
    fall_due(there, "a", "b")
    wait_delivered(there, "va", "vb")
    assert delivered(q) == []
    fall_due(q, "a", "b")
    wait_delivered(q, "va", "vb")
    wait_nothing_left(server, q)


@ORDERS
def test_queue_moved_to_another_database_is_delivered_there(server, q, kinds):
    there = server.client(db=3)
    for side in kinds:
        # By a client of its own: Valkey 8.1 leaves it in the other database once a module listens to such events.
        server.client().move(side("q"), 3)
    fall_due(there, "a", "b")
    wait_delivered(there, "va", "vb")
    wait_nothing_left(server, there)
    assert delivered(q) == []


def test_queues_of_swapped_databases_are_delivered(server, q):
    there = server.client(db=3)
    push(there, "c", HOUR)
    q.execute_command("SWAPDB", 0, 3)
    assert (pending(q), pending(there)) == (["c"], ["a", "b"])
    fall_due(there, "a", "b")
    wait_delivered(there, "va", "vb")
    fall_due(q, "c")
    wait_delivered(q, "vc")
    wait_nothing_left(server, q)
    wait_nothing_left(server, there)


def test_queues_are_delivered_after_databases_are_swapped_twice(server, q, at_once):
    push(server.client(db=3), "c", HOUR)
    for _ in range(2):
        q.execute_command("SWAPDB", 0, 3)
    assert queues(server) == 2
    fall_due(q, "a", "b")
    wait_delivered(q, "va", "vb")
    assert pending(server.client(db=3)) == ["c"]


def test_element_due_soon_is_delivered_in_the_swapped_database(server, q, at_once):
    at_once("DELAY.PUSH q c 1 vc", "SWAPDB 0 3")
    wait_delivered(server.client(db=3), "vc")
    assert delivered(q) == []
    assert pending(server.client(db=3)) == ["a", "b"]


def test_queue_of_a_database_swapped_with_itself_is_delivered(server, q):
    q.execute_command("SWAPDB", 0, 0)
    fall_due(q, "a", "b")
    wait_delivered(q, "va", "vb")
