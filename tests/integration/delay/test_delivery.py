"""Elements that are due are moved to their list: which clients are woken, the order, and what is left."""

import pytest

from harness import fewer, scaled, wait_for
from harness.aof import aof_of, commands_in
from harness.listener import listen_for_events
from model.delay_scene import (
    HOUR,
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


# Clients that wait on the list


def blocked_on_q(actor, *words):
    consumer = actor("consumer")
    consumer.send(*words)
    return consumer.wait_blocked()


def test_blpop_is_woken(server, some_resp, actor):
    consumer = blocked_on_q(actor, "BLPOP", "q", 0)
    push(server.control, "a", 30, "hello")
    assert consumer.reply() == ["q", "hello"]
    wait_nothing_left(server, server.control)
    assert delivered(server.control) == []


def test_blmove_is_woken(server, some_resp, actor):
    consumer = blocked_on_q(actor, "BLMOVE", "q", "mine", "LEFT", "RIGHT", 0)
    push(server.control, "a", 0, "hello")
    assert consumer.reply() == "hello"
    assert delivered(server.control, "mine") == ["hello"]
    wait_nothing_left(server, server.control)


def test_several_clients_are_woken_each_with_an_element(server, actor, at_once):
    consumers = [blocked_on_q(actor, "BLPOP", "q", 0) for _ in range(5)]
    at_once(*(f"DELAY.PUSH q {n} 1 {n}" for n in range(5)))
    assert [consumer.reply() for consumer in consumers] == [["q", str(n)] for n in range(5)]


def test_element_is_appended_to_the_tail(server, some_client):
    some_client.rpush("q", "first")
    push(some_client, "a", 0)
    wait_delivered(some_client, "first", "va")


def test_element_is_not_delivered_early(server, some_client):
    ms = 40
    before = server.now_ms()
    push(some_client, "a", ms)
    wait_for(lambda: some_client.exists("q"), what="the delivery")
    assert server.now_ms() >= before + ms


def test_idle_server_delivers_in_time(server, actor):
    """Only the timer wakes the server; the delay depends on the machine, but its order of magnitude does not."""
    consumer = blocked_on_q(actor, "BLPOP", "q", 0)
    push(server.control, "a", 50)
    assert consumer.reply(timeout=scaled(2)) == ["q", "va"]


def test_earlier_element_that_is_pushed_later_is_delivered_first(server, some_client):
    push(some_client, "late", HOUR)
    push(some_client, "early", 1)
    wait_delivered(some_client, "vearly")
    assert pending(some_client) == ["late"]


# Order


@pytest.fixture
def blocked_list(server):
    """A server on which nothing can be delivered to `q` until the test deletes it."""
    server.control.set("q", "no list")
    return server


def test_elements_are_delivered_in_order_of_time(blocked_list, some_client):
    for id_, ms in (("d", 8), ("b", 4), ("c", 6), ("a", 2)):
        push(some_client, id_, ms)
    # Sets their order, also on a slow machine.
    fall_due(some_client, "a", "b", "c", "d")
    some_client.delete("q")
    wait_delivered(some_client, "va", "vb", "vc", "vd")


PUSH_MANY = "for i = 1, #ARGV do redis.call('DELAY.PUSH', KEYS[1], ARGV[i], 1, ARGV[i]) end"


@pytest.mark.parametrize("count", [40, 2000])
def test_elements_of_equal_times_are_delivered_in_order_of_arrival(blocked_list, some_client, count):
    ids = [f"{count - n:05}" for n in range(count)]

    def many_share_a_millisecond():  # at least two do, also on a slow server
        some_client.eval(PUSH_MANY, 1, "q", *ids)
        scores = [score for _, score in some_client.zrange(due_of(), 0, -1, withscores=True)]
        assert len(set(scores)) == count
        return len({int(score) for score in scores}) < count

    wait_for(many_share_a_millisecond, what="elements that are due at the same time")
    assert pending(some_client, count=count) == ids
    some_client.delete("q")
    wait_delivered(some_client, *ids)
    wait_nothing_left(blocked_list, some_client)


def test_queues_with_many_overdue_elements_alternate(server, some_client):
    count = fewer(20_000)
    pipeline = some_client.pipeline()
    for n in range(count):
        push(pipeline, str(n), HOUR, name="long")
    pipeline.execute()
    consumer = server.raw_connection()
    consumer.sendall(b"BLPOP short 0\r\nLLEN long\r\n")
    # In one packet: the long queue is not delivered completely before the short one has its element.
    pipeline = some_client.pipeline(transaction=False)
    fall_due(pipeline, *map(str, range(count)), name="long")
    push(pipeline, "a", 0, name="short")
    pipeline.execute()
    answers = consumer.makefile("rb")
    assert [answers.readline() for _ in range(5)][-1] == b"va\r\n"
    assert int(answers.readline()[1:]) < count
    wait_for(lambda: some_client.llen("long") == count, what="the long queue")


def test_pending_id_that_is_pushed_again_moves_to_the_end(blocked_list, some_client):
    some_client.eval(PUSH_MANY, 1, "q", "a", "b", "c", "a")
    assert pending(some_client) == ["b", "c", "a"]
    some_client.delete("q")
    wait_delivered(some_client, "b", "c", "a")


def test_many_elements_due_at_once_are_delivered_once_and_in_order(server, some_client):
    count = fewer(20_000)
    ids = [f"{n:06}" for n in range(count)]
    for start in range(0, count, 2000):
        some_client.eval(PUSH_MANY.replace(", 1, ", ", 3600000, "), 1, "q", *ids[start : start + 2000])
    assert some_client.zcard(due_of()) == count
    all_due = "for i = 1, ARGV[1] do redis.call('ZADD', KEYS[1], i, string.format('%06d', i - 1)) end"
    some_client.eval(all_due, 1, due_of(), count)
    wait_for(lambda: some_client.llen("q") == count, 30, "all to be delivered")
    assert delivered(some_client) == ids
    wait_nothing_left(server, some_client)


def test_many_queues_deliver_their_elements(server, some_client):
    names = [f"q{n}" for n in range(500)]
    pipeline = some_client.pipeline(transaction=False)
    for name in names:
        push(pipeline, "a", 1, name, name)
        push(pipeline, "b", HOUR, name, name)
    pipeline.execute()
    wait_for(lambda: sum(map(bool, map_exists(some_client, names))) == len(names), 20, "all to be delivered")
    assert queues(server) == len(names)
    for name in names:
        assert delivered(some_client, name) == [name]
        some_client.execute_command("DELAY.CANCEL", name, "b")
    wait_for(lambda: queues(server) == 0, what="all queues to be gone from memory")


def map_exists(client, names):
    pipeline = client.pipeline(transaction=False)
    for name in names:
        pipeline.exists(name)
    return pipeline.execute()


# A list of another type


@pytest.mark.parametrize("make", ["SET q x", "SADD q x", "HSET q f x", "ZADD q 1 x", "XADD q * f x"])
def test_key_that_is_no_list_keeps_elements_pending(server, some_client, make, at_once):
    at_once(make, "DELAY.PUSH q a 0 va", "DELAY.PUSH q b 0 vb", f"DELAY.PUSH q c {HOUR} vc")
    before = some_client.type("q")
    wait_for(lambda: stuck(server) == 2, what="the stuck ones to be counted")
    stays_undelivered(server, some_client, "a", "b", "c")
    assert some_client.type("q") == before
    some_client.delete("q")
    wait_delivered(some_client, "va", "vb")
    assert stuck(server) == 0
    assert pending(some_client) == ["c"]


def test_elements_are_delivered_when_the_key_becomes_a_list(server, some_client, at_once):
    at_once("SET q x", "DELAY.PUSH q a 0 va")
    wait_for(lambda: stuck(server) == 1, what="the stuck one to be counted")
    at_once("DEL q", "RPUSH q first")
    wait_delivered(some_client, "first", "va")
    wait_nothing_left(server, some_client)


def test_stuck_queue_delays_no_other(server, some_client, at_once):
    at_once("SET q x", "DELAY.PUSH q a 0 va", "DELAY.PUSH p a 0 va")
    wait_delivered(some_client, "va", name="p")
    wait_for(lambda: stuck(server) == 1, what="the stuck one to be counted")
    push(some_client, "b", 0, name="p")
    wait_delivered(some_client, "va", "vb", name="p")


def test_stuck_elements_that_are_cancelled_are_not_counted(server, some_client, at_once):
    at_once("SET q x", "DELAY.PUSH q a 0 va")
    wait_for(lambda: stuck(server) == 1, what="the stuck one to be counted")
    assert some_client.execute_command("DELAY.CANCEL", "q", "a") == 1
    wait_for(lambda: stuck(server) == queues(server) == 0, what="the queue to be gone from memory")


# What is left, and what is reported


def test_nothing_is_left_after_all_deliveries(server, some_client):
    for n in range(10):
        push(some_client, str(n), n)
    wait_for(lambda: some_client.llen("q") == 10, what="the delivery")
    wait_nothing_left(server, some_client)
    assert some_client.keys() == ["q"]


def test_delivered_elements_are_counted(server, some_client, at_once):
    before = server.info("lock")["lock_delay_delivered"]
    at_once(*(f"DELAY.PUSH q {n} 0 v" for n in range(7)))
    wait_for(lambda: some_client.llen("q") == 7, what="the delivery")
    assert server.info("lock")["lock_delay_delivered"] == before + 7


def test_delivery_sends_the_events_of_a_clients_commands(server, some_client, at_once):
    listener = listen_for_events(server, "KA")
    at_once("DELAY.PUSH q a 0 v")
    wait_nothing_left(server, some_client)
    received = [(channel.partition(":")[2], message) for channel, message in listener.new_messages()]
    expected = [("q", "rpush"), (due_of(), "zrem"), (due_of(), "del"), (value_of(), "del")]
    assert [event for event in received if event in expected] == expected


def test_delivery_is_one_transaction(make_server):
    server = make_server(appendonly="yes")
    client = server.client()
    client.set("q", "x")
    for id_ in "ab":
        push(client, id_, 0)
    push(client, "c", HOUR)
    wait_for(lambda: stuck(server) == 2, what="the stuck ones")
    start = len(aof_of(server))
    client.delete("q")
    wait_delivered(client, "va", "vb")
    written = commands_in(aof_of(server)[start:])
    rest = [["ZREM", due_of(), "a", "b"], ["HDEL", value_of(), "a", "b"]]
    assert written == [["DEL", "q"], ["MULTI"], ["RPUSH", "q", "va", "vb"], *rest, ["EXEC"]]


@pytest.mark.parametrize("skipped", [0, 1])
def test_long_values_are_delivered_one_by_one(make_server, skipped):
    """Also after an element without a value, where the next ones are found in another way."""
    server = make_server(appendonly="yes")
    client = server.client()
    client.set("q", "x")
    values = [id_ * 100_000 for id_ in "abc"]
    for value in values:
        push(client, value[0], HOUR, value)
    fall_due(client, *"abc")
    client.zadd(due_of(), {f"nothing{number}": 0 for number in range(skipped)} or {"z": 2**50})
    wait_for(lambda: stuck(server) == 3 + skipped, what="the stuck ones")
    start = len(aof_of(server))
    client.delete("q")
    wait_delivered(client, *values)
    pushed = [command[2:] for command in commands_in(aof_of(server)[start:]) if command[0] == "RPUSH"]
    assert pushed == [[value] for value in values]


def test_cancel_of_many_is_replicated_as_one_change(make_server):
    server = make_server(appendonly="yes")
    client = server.client()
    for id_ in "abc":
        push(client, id_, HOUR)
    start = len(aof_of(server))
    assert client.execute_command("DELAY.CANCEL", "q", "a", "nothing", "b", "a") == 2
    changes = [["ZREM", due_of(), "a", "b"], ["HDEL", value_of(), "a", "b"]]
    assert commands_in(aof_of(server)[start:]) == [["MULTI"], *changes, ["EXEC"]]
    assert client.execute_command("DELAY.CANCEL", "q", "c", "b") == 1
    assert server.dump() == {}


@pytest.mark.parametrize("command", ["FLUSHDB", "FLUSHALL"])
def test_queues_can_be_pushed_to_while_flushed_ones_are_freed(server, some_client, at_once, command):
    pipeline = some_client.pipeline(transaction=False)
    for number in range(fewer(5000)):
        push(pipeline, "a", HOUR, name=f"q{number}")
    pipeline.execute()
    at_once("MULTI", command, f"DELAY.PUSH q1 b {HOUR} v", "DELAY.PUSH q2 c 0 vc", "EXEC")
    wait_delivered(some_client, "vc", name="q2")
    wait_for(lambda: queues(server) == 1, what="one queue to be left")
    assert pending(some_client, "q1") == ["b"]
