"""The two keys are the queue: what another client changes in them is changed in the queue.

Elements are delivered once, or stay in the keys; elements that are no longer in the keys are gone.
"""

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
    stays_undelivered,
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


def nothing_is_delivered(server, client, name="q"):
    wait_for(lambda: queues(server) == 0, what="the queue to be gone from memory")
    server.settle(20)
    assert delivered(client, name) == []


def works_again(server, client, *before):
    push(client, "again", 0)
    wait_delivered(client, *before, "vagain")
    wait_nothing_left(server, client)


# Deleted


@pytest.mark.parametrize("command", ["DEL", "UNLINK"])
def test_queue_is_empty_after_both_keys_are_deleted(server, q, command):
    q.execute_command(command, DUE, VALUE)
    nothing_is_delivered(server, q)
    works_again(server, q)


def test_queue_is_empty_after_the_times_are_deleted(server, q):
    q.delete(DUE)
    nothing_is_delivered(server, q)
    # Values without a time are removed with the last element.
    works_again(server, q)


def test_elements_wait_while_all_values_are_deleted(server, q):
    values = q.hgetall(VALUE)
    q.delete(VALUE)
    fall_due(q, "a", "b")
    wait_for(lambda: stuck(server) == 2, what="the stuck ones to be counted")
    stays_undelivered(server, q, "a", "b")
    q.hset(VALUE, mapping=values)
    wait_delivered(q, "va", "vb")
    wait_nothing_left(server, q)


@pytest.mark.parametrize("gone, stays", ["ab", "ba"])
def test_element_waits_while_its_value_is_deleted(server, q, gone, stays):
    q.hdel(VALUE, gone)
    fall_due(q, "a", "b")
    wait_delivered(q, f"v{stays}")
    wait_for(lambda: stuck(server) == 1, what="the stuck one to be counted")
    stays_undelivered(server, q, gone)
    q.hset(VALUE, gone, "back")
    wait_delivered(q, f"v{stays}", "back")
    wait_nothing_left(server, q)


def test_many_elements_without_values_delay_no_other(server, q):
    """Deliveries are in order, if no client writes while the queue is scanned."""
    q.zadd(DUE, {f"nothing{n}": LONG_AGO + n / 1000 for n in range(1000)})
    wait_for(lambda: stuck(server) == 1000, what="the stuck ones to be counted")
    fall_due(q, "a", "b")
    wait_delivered(q, "va", "vb")
    push(q, "c", 0)
    wait_delivered(q, "va", "vb", "vc")
    q.delete(DUE)
    wait_for(lambda: queues(server) == stuck(server) == 0, what="the queue to be gone from memory")


def test_many_elements_without_values_delay_none_of_the_same_score(server, q):
    q.hset(VALUE, "z", "vz")
    q.zadd(DUE, {f"nothing{n}": LONG_AGO for n in range(1000)} | {"z": LONG_AGO})
    wait_for(lambda: delivered(q) == ["vz"], 1, "the delivery")


def test_elements_are_delivered_when_one_of_their_time_has_no_value(server, q):
    q.hset(VALUE, mapping={f"z{n:03}": f"v{n:03}" for n in range(100)})
    q.zadd(DUE, {"nothing": LONG_AGO} | {f"z{n:03}": LONG_AGO for n in range(100)})
    wait_for(lambda: delivered(q) == [f"v{n:03}" for n in range(100)], 5, "the delivery")
    assert stuck(server) == 1


def test_element_without_a_value_at_the_lowest_score_delays_no_other(server, q):
    q.zadd(DUE, {"nothing": "-inf"})
    fall_due(q, "a")
    wait_delivered(q, "va")
    server.settle(50)  # it is skipped once, not again and again
    assert stuck(server) == 1 and queues(server) == 1


def test_skipped_element_can_be_cancelled(server, q):
    """The elements behind it then have other positions in the set."""
    q.zadd(DUE, {"nothing1": LONG_AGO, "nothing2": LONG_AGO})
    wait_for(lambda: stuck(server) == 2, what="the stuck ones")
    assert q.execute_command("DELAY.CANCEL", "q", "nothing1") == 1
    fall_due(q, "a", "b")
    wait_delivered(q, "va", "vb")
    assert stuck(server) == 1


def test_skipped_element_can_be_pushed_again(server, q):
    q.zadd(DUE, {"nothing1": LONG_AGO, "nothing2": LONG_AGO})
    wait_for(lambda: stuck(server) == 2, what="the stuck ones")
    push(q, "nothing1", HOUR)
    wait_for(lambda: stuck(server) == 1, what="it to be pending")
    fall_due(q, "a", "b")
    wait_delivered(q, "va", "vb")


def test_name_of_a_list_that_has_other_keys_is_ignored(server, q):
    q.hset(VALUE, "", "foreign")
    fall_due(q, "a", "b")
    wait_delivered(q, "va", "vb")
    assert q.exists("foreign") == 0


def test_element_whose_time_is_deleted_is_gone(server, q):
    q.zrem(DUE, "a")
    fall_due(q, "b")
    wait_delivered(q, "vb")
    wait_nothing_left(server, q)


def test_queue_is_empty_after_the_last_time_is_deleted(server, q):
    q.zrem(DUE, "a", "b")
    nothing_is_delivered(server, q)


# Written


def test_element_is_delivered_at_the_time_that_is_written(server, q):
    q.zadd(DUE, {"b": LONG_AGO})
    wait_delivered(q, "vb")
    assert pending(q) == ["a"]


def test_element_waits_for_a_later_time_that_is_written(server, q, at_once):
    at_once("DELAY.PUSH q c 1 vc", f"ZADD {DUE} {2**52} c", "DELAY.PUSH q d 2 vd")
    wait_delivered(q, "vd")
    assert pending(q) == ["a", "b", "c"]


def test_element_is_delivered_when_its_time_is_decremented(server, q):
    for _ in range(2):
        q.zincrby(DUE, -HOUR, "a")
    wait_delivered(q, "va")


def test_value_that_is_written_is_delivered(server, q):
    q.hset(VALUE, "a", "other")
    fall_due(q, "a")
    wait_delivered(q, "other")


@pytest.mark.parametrize("first", [DUE, VALUE])
def test_element_that_is_written_is_delivered(server, q, first):
    writes = {DUE: lambda: q.zadd(DUE, {"c": LONG_AGO}), VALUE: lambda: q.hset(VALUE, "c", "vc")}
    writes.pop(first)()
    server.settle(20)
    assert delivered(q) == []
    writes.popitem()[1]()
    wait_delivered(q, "vc")
    assert pending(q) == ["a", "b"]


def test_queue_that_is_written_is_delivered(server, q):
    q.hset(value_of("p"), mapping={"x": "vx", "y": "vy"})
    q.zadd(due_of("p"), {"x": LONG_AGO, "y": 2**52})
    wait_delivered(q, "vx", name="p")
    fall_due(q, "y", name="p")
    wait_delivered(q, "vx", "vy", name="p")
    assert delivered(q) == []


SCORES = ["-inf", "-1e300", "-1", "0", "0.5", "1e-300"]


@pytest.mark.parametrize("score", SCORES)
def test_score_in_the_past_is_delivered_at_once(server, q, score):
    q.zadd(DUE, {"a": score}, xx=True)
    wait_delivered(q, "va")


@pytest.mark.parametrize("score", ["inf", "1e300", str(2**63)])
def test_score_that_is_never_due_stays(server, q, score):
    q.zadd(DUE, {"a": score}, xx=True)
    fall_due(q, "b")
    wait_delivered(q, "vb")
    server.settle(20)
    assert pending(q) == ["a"]
    fall_due(q, "a")
    wait_delivered(q, "vb", "va")


def test_equal_scores_are_all_delivered(server, q):
    ids = [f"{n:04}" for n in range(500)]
    q.hset(VALUE, mapping={id_: id_ for id_ in ids})
    q.zadd(DUE, dict.fromkeys(ids, LONG_AGO))
    wait_delivered(q, *ids)
    assert pending(q) == ["a", "b"]


def test_equal_scores_are_delivered_except_one_without_a_value(server, q):
    q.hset(VALUE, mapping={"1": "v1", "2": "v2"})
    q.zadd(DUE, dict.fromkeys("012", LONG_AGO))
    wait_delivered(q, "v1", "v2")
    wait_for(lambda: stuck(server) == 1, what="the stuck one to be counted")
    assert pending(q) == ["0", "a", "b"]


@pytest.mark.parametrize("key", [DUE, VALUE])
def test_queue_works_again_after_a_key_had_another_type(server, q, key):
    saved = server.client(decode_responses=False).dump(key)
    q.set(key, "x")
    server.settle(20)
    q.restore(key, 0, saved, replace=True)
    fall_due(q, "a", "b")
    wait_delivered(q, "va", "vb")
    wait_nothing_left(server, q)


# Flushed, expired


@pytest.mark.parametrize("command", ["FLUSHALL", "FLUSHALL ASYNC", "FLUSHDB", "FLUSHDB ASYNC"])
def test_flushed_queue_is_gone_and_works_again(server, q, command):
    there = server.client(db=3)
    push(there, "c", HOUR)
    q.execute_command(*command.split())
    assert queues(server) == ("DB" in command)
    server.settle(20)
    assert q.keys() == []
    fall_due(there, "c")
    wait_for(lambda: delivered(there) == (["vc"] if "DB" in command else []), what="the other database")
    works_again(server, q)


def test_push_after_a_flush_is_delivered(server, q, at_once):
    at_once("DELAY.PUSH q c 0 vc", "FLUSHALL", "DELAY.PUSH q d 0 vd")
    wait_delivered(q, "vd")
    wait_nothing_left(server, q)


@pytest.mark.parametrize("active", [0, 1], ids=["no active expiry", "active expiry"])
def test_queue_works_after_its_times_have_expired(server, q, active):
    q.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", active)
    q.pexpire(DUE, 1)
    server.let_pass(5)
    assert pending(q) == []
    push(q, "c", 0)
    wait_delivered(q, "vc")
    wait_nothing_left(server, q)
    q.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 1)


def test_queue_is_empty_after_its_times_have_expired(server, q):
    q.pexpire(DUE, 1)
    nothing_is_delivered(server, q)


def test_elements_wait_after_their_values_have_expired(server, q):
    q.pexpire(VALUE, 1)
    server.let_pass(5)
    fall_due(q, "a", "b")
    wait_for(lambda: stuck(server) == 2, what="the stuck ones to be counted")
    assert delivered(q) == []
    push(q, "a", 0)
    wait_delivered(q, "va")
    assert pending(q) == ["b"]


def test_expiry_in_the_future_changes_nothing(server, q):
    q.pexpire(DUE, HOUR)
    q.pexpire(VALUE, HOUR)
    fall_due(q, "a", "b")
    wait_delivered(q, "va", "vb")
    wait_nothing_left(server, q)
