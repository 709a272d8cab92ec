"""The two keys are the truth: what somebody does to them by hand is done to the queue.

Elements are delivered once, or stay where the keys hold them; what the keys do not hold any more is gone.
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
    """A client, and in the queue before q: a and b, due in hours."""
    push(some_client, "a", HOUR)
    push(some_client, "b", 2 * HOUR)
    return some_client


def nobody_gets_anything(server, client, name="q"):
    wait_for(lambda: queues(server) == 0, what="the queue to be forgotten")
    server.settle(20)
    assert delivered(client, name) == []


def works_again(server, client, *before):
    push(client, "again", 0)
    wait_delivered(client, *before, "vagain")
    wait_nothing_left(server, client)


# Deleted


@pytest.mark.parametrize("command", ["DEL", "UNLINK"])
def test_both_deleted(server, q, command):
    q.execute_command(command, DUE, VALUE)
    nobody_gets_anything(server, q)
    works_again(server, q)


def test_times_deleted(server, q):
    q.delete(DUE)
    nobody_gets_anything(server, q)
    # Values without a time go with the last element.
    works_again(server, q)


def test_values_deleted_and_back(server, q):
    values = q.hgetall(VALUE)
    q.delete(VALUE)
    fall_due(q, "a", "b")
    wait_for(lambda: stuck(server) == 2, what="the stuck ones to be counted")
    stays_undelivered(server, q, "a", "b")
    q.hset(VALUE, mapping=values)
    wait_delivered(q, "va", "vb")
    wait_nothing_left(server, q)


@pytest.mark.parametrize("gone, stays", ["ab", "ba"])
def test_one_value_deleted_and_back(server, q, gone, stays):
    q.hdel(VALUE, gone)
    fall_due(q, "a", "b")
    wait_delivered(q, f"v{stays}")
    wait_for(lambda: stuck(server) == 1, what="the stuck one to be counted")
    stays_undelivered(server, q, gone)
    q.hset(VALUE, gone, "back")
    wait_delivered(q, f"v{stays}", "back")
    wait_nothing_left(server, q)


def test_many_without_values_hold_up_nobody(server, q):
    """In order, if nobody writes while the queue is walked through."""
    q.zadd(DUE, {f"nothing{n}": LONG_AGO + n / 1000 for n in range(1000)})
    wait_for(lambda: stuck(server) == 1000, what="the stuck ones to be counted")
    fall_due(q, "a", "b")
    wait_delivered(q, "va", "vb")
    push(q, "c", 0)
    wait_delivered(q, "va", "vb", "vc")
    q.delete(DUE)
    wait_for(lambda: queues(server) == stuck(server) == 0, what="the queue to be forgotten")


def test_many_without_values_hold_up_nobody_of_the_same_score(server, q):
    q.hset(VALUE, "z", "vz")
    q.zadd(DUE, {f"nothing{n}": LONG_AGO for n in range(1000)} | {"z": LONG_AGO})
    wait_for(lambda: delivered(q) == ["vz"], 1, "the delivery")


def test_all_with_values_go_when_one_of_the_same_time_has_none(server, q):
    q.hset(VALUE, mapping={f"z{n:03}": f"v{n:03}" for n in range(100)})
    q.zadd(DUE, {"nothing": LONG_AGO} | {f"z{n:03}": LONG_AGO for n in range(100)})
    wait_for(lambda: delivered(q) == [f"v{n:03}" for n in range(100)], 5, "the delivery")
    assert stuck(server) == 1


def test_nothing_at_the_least_of_all_times(server, q):
    q.zadd(DUE, {"nothing": "-inf"})
    fall_due(q, "a")
    wait_delivered(q, "va")
    server.settle(50)  # it is passed by once, not again and again
    assert stuck(server) == 1 and queues(server) == 1


def test_passed_by_and_then_cancelled(server, q):
    """Those behind it are in their places then."""
    q.zadd(DUE, {"nothing1": LONG_AGO, "nothing2": LONG_AGO})
    wait_for(lambda: stuck(server) == 2, what="the stuck ones")
    assert q.execute_command("DELAY.CANCEL", "q", "nothing1") == 1
    fall_due(q, "a", "b")
    wait_delivered(q, "va", "vb")
    assert stuck(server) == 1


def test_passed_by_and_then_pushed_again(server, q):
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


def test_one_time_deleted(server, q):
    q.zrem(DUE, "a")
    fall_due(q, "b")
    wait_delivered(q, "vb")
    wait_nothing_left(server, q)


def test_last_time_deleted(server, q):
    q.zrem(DUE, "a", "b")
    nobody_gets_anything(server, q)


# Written


def test_time_written(server, q):
    q.zadd(DUE, {"b": LONG_AGO})
    wait_delivered(q, "vb")
    assert pending(q) == ["a"]


def test_time_put_off(server, q, at_once):
    at_once("DELAY.PUSH q c 1 vc", f"ZADD {DUE} {2**52} c", "DELAY.PUSH q d 2 vd")
    wait_delivered(q, "vd")
    assert pending(q) == ["a", "b", "c"]


def test_time_counted_down(server, q):
    for _ in range(2):
        q.zincrby(DUE, -HOUR, "a")
    wait_delivered(q, "va")


def test_value_written(server, q):
    q.hset(VALUE, "a", "other")
    fall_due(q, "a")
    wait_delivered(q, "other")


@pytest.mark.parametrize("first", [DUE, VALUE])
def test_element_written(server, q, first):
    writes = {DUE: lambda: q.zadd(DUE, {"c": LONG_AGO}), VALUE: lambda: q.hset(VALUE, "c", "vc")}
    writes.pop(first)()
    server.settle(20)
    assert delivered(q) == []
    writes.popitem()[1]()
    wait_delivered(q, "vc")
    assert pending(q) == ["a", "b"]


def test_whole_queue_written(server, q):
    q.hset(value_of("p"), mapping={"x": "vx", "y": "vy"})
    q.zadd(due_of("p"), {"x": LONG_AGO, "y": 2**52})
    wait_delivered(q, "vx", name="p")
    fall_due(q, "y", name="p")
    wait_delivered(q, "vx", "vy", name="p")
    assert delivered(q) == []


SCORES = ["-inf", "-1e300", "-1", "0", "0.5", "1e-300"]


@pytest.mark.parametrize("score", SCORES)
def test_score_that_is_long_ago(server, q, score):
    q.zadd(DUE, {"a": score}, xx=True)
    wait_delivered(q, "va")


@pytest.mark.parametrize("score", ["inf", "1e300", str(2**63)])
def test_score_that_never_comes(server, q, score):
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


def test_equal_scores_one_without_a_value(server, q):
    q.hset(VALUE, mapping={"1": "v1", "2": "v2"})
    q.zadd(DUE, dict.fromkeys("012", LONG_AGO))
    wait_delivered(q, "v1", "v2")
    wait_for(lambda: stuck(server) == 1, what="the stuck one to be counted")
    assert pending(q) == ["0", "a", "b"]


@pytest.mark.parametrize("key", [DUE, VALUE])
def test_another_type_in_between(server, q, key):
    saved = server.client(decode_responses=False).dump(key)
    q.set(key, "x")
    server.settle(20)
    q.restore(key, 0, saved, replace=True)
    fall_due(q, "a", "b")
    wait_delivered(q, "va", "vb")
    wait_nothing_left(server, q)


# Flushed, expired


@pytest.mark.parametrize("command", ["FLUSHALL", "FLUSHALL ASYNC", "FLUSHDB", "FLUSHDB ASYNC"])
def test_flushed(server, q, command):
    there = server.client(db=3)
    push(there, "c", HOUR)
    q.execute_command(*command.split())
    assert queues(server) == ("DB" in command)
    server.settle(20)
    assert q.keys() == []
    fall_due(there, "c")
    wait_for(lambda: delivered(there) == (["vc"] if "DB" in command else []), what="the other database")
    works_again(server, q)


def test_flushed_between_two_pushes(server, q, at_once):
    at_once("DELAY.PUSH q c 0 vc", "FLUSHALL", "DELAY.PUSH q d 0 vd")
    wait_delivered(q, "vd")
    wait_nothing_left(server, q)


@pytest.mark.parametrize("active", [0, 1], ids=["unseen", "seen"])
def test_times_expired(server, q, active):
    q.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", active)
    q.pexpire(DUE, 1)
    server.let_pass(5)
    assert pending(q) == []
    push(q, "c", 0)
    wait_delivered(q, "vc")
    wait_nothing_left(server, q)
    q.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 1)


def test_times_expired_is_noticed(server, q):
    q.pexpire(DUE, 1)
    nobody_gets_anything(server, q)


def test_values_expired(server, q):
    q.pexpire(VALUE, 1)
    server.let_pass(5)
    fall_due(q, "a", "b")
    wait_for(lambda: stuck(server) == 2, what="the stuck ones to be counted")
    assert delivered(q) == []
    push(q, "a", 0)
    wait_delivered(q, "va")
    assert pending(q) == ["b"]


def test_expiry_that_is_not_over_changes_nothing(server, q):
    q.pexpire(DUE, HOUR)
    q.pexpire(VALUE, HOUR)
    fall_due(q, "a", "b")
    wait_delivered(q, "va", "vb")
    wait_nothing_left(server, q)
