"""DELAY.PUSH, DELAY.CANCEL, DELAY.LIST: what they reply, refuse and change."""

import pytest

from harness import code_of, wait_for
from model.delay_scene import HOUR, due_of, fall_due, pending, push, queues, value_of, wait_delivered, wait_nothing_left
from model.mutations import each_way


def shown(client, *words):
    """The reply to DELAY.LIST without the ms left, which are checked to be in range."""
    found = client.execute_command("DELAY.LIST", "q", *words)
    assert all(0 <= left <= 10 * HOUR for _, left, _ in found)
    return [(id_, value) for id_, _, value in found]


# PUSH


def test_push_replies_the_id_and_writes_plain_keys(server, client):
    before = server.now_ms()
    assert push(client, "a", HOUR, "hello") == "a"
    assert client.hgetall(value_of()) == {"a": "hello"}
    assert client.zrange(due_of(), 0, -1) == ["a"]
    assert before + HOUR <= client.zscore(due_of(), "a") <= server.now_ms() + HOUR + 1
    assert client.pttl(due_of()) == client.pttl(value_of()) == -1
    assert client.exists("q") == 0


def test_star_generates_ids_that_grow(client):
    ids = [push(client, "*", HOUR, str(n)) for n in range(50)]
    assert all(isinstance(id_, str) for id_ in ids)
    assert ids == sorted(ids, key=int) == sorted(ids)
    assert len(set(ids)) == 50
    assert client.hgetall(value_of()) == {id_: str(n) for n, id_ in enumerate(ids)}


def test_star_in_one_script_generates_ids_that_grow(some_client):
    script = "local r = {} for i = 1, 200 do r[i] = redis.call('DELAY.PUSH', KEYS[1], '*', 3600000, i) end return r"
    ids = some_client.eval(script, 1, "q")
    assert [int(id_) for id_ in ids] == sorted({int(id_) for id_ in ids})
    assert len(ids) == 200


def test_pending_id_gets_the_new_time_and_value(client):
    push(client, "a", HOUR, "old")
    push(client, "b", 2 * HOUR, "other")
    assert push(client, "a", 3 * HOUR, "new") == "a"
    assert shown(client) == [("b", "other"), ("a", "new")]
    assert client.zcard(due_of()) == client.hlen(value_of()) == 2


def test_pending_id_pushed_to_an_earlier_time_is_delivered_then(server, some_client):
    push(some_client, "a", HOUR, "old")
    push(some_client, "a", 0, "new")
    wait_delivered(some_client, "new")
    wait_nothing_left(server, some_client)


def test_pending_id_pushed_to_a_later_time_is_not_delivered_before(server, some_client, at_once):
    at_once("DELAY.PUSH q a 1 old", f"DELAY.PUSH q a {HOUR} new")
    push(some_client, "b", 2, "b")
    wait_delivered(some_client, "b")
    assert pending(some_client) == ["a"]


def test_id_that_has_been_delivered_can_be_pushed_again(server, some_client):
    for n in (1, 2):
        push(some_client, "a", 0, "v")
        wait_delivered(some_client, *["v"] * n)
    wait_nothing_left(server, some_client)


@pytest.mark.parametrize("value", [b"", b"\0\xff\r\n", b"1", b"x" * 100_000], ids=["empty", "bytes", "number", "long"])
def test_ids_and_values_are_bytes(server, some_resp, value):
    client = server.client(some_resp, decode_responses=False)
    id_ = value or b"i"
    assert push(client, id_, HOUR, value) == id_
    assert client.execute_command("DELAY.LIST", "q")[0][::2] == [id_, value]
    assert client.execute_command("DELAY.CANCEL", "q", id_) == 1
    push(client, id_, 0, value)
    wait_delivered(client, value)


# Bad input

BAD = {
    "negative": ("DELAY.PUSH q a -1 v", "ERR"),
    "no number": ("DELAY.PUSH q a x v", "ERR"),
    "fraction": ("DELAY.PUSH q a 1.5 v", "ERR"),
    "exponent": ("DELAY.PUSH q a 1e3 v", "ERR"),
    "above 64 bits": ("DELAY.PUSH q a 9223372036854775808 v", "ERR"),
    "overflows": ("DELAY.PUSH q a 9223372036854775807 v", "ERR"),
    "more than a score can represent": (f"DELAY.PUSH q a {2**53} v", "ERR"),
    "no value": ("DELAY.PUSH q a 1", "ERR"),
    "two values": ("DELAY.PUSH q a 1 v w", "ERR"),
    "nothing": ("DELAY.PUSH", "ERR"),
    "cancel no id": ("DELAY.CANCEL q", "ERR"),
    "list nothing": ("DELAY.LIST", "ERR"),
    "count of nothing": ("DELAY.LIST q COUNT", "ERR"),
    "count no number": ("DELAY.LIST q COUNT x", "ERR"),
    "count negative": ("DELAY.LIST q COUNT -1", "ERR"),
    "count twice": ("DELAY.LIST q COUNT 1 COUNT 1", "ERR"),
    "unknown option": ("DELAY.LIST q LIMIT 1", "ERR"),
}


@pytest.mark.parametrize("command, code", BAD.values(), ids=BAD)
def test_bad_input_changes_nothing(server, resp, actor, command, code):
    client = actor()
    push(server.control, "a", HOUR)
    before = server.dump(), queues(server)
    assert code_of(client.attempt(*command.split())) == code
    assert (server.dump(), queues(server)) == before


def test_empty_id_changes_nothing(server, resp, actor):
    assert code_of(actor().attempt("DELAY.PUSH", "q", "", 1, "v")) == "ERR"
    assert server.dump() == {}
    assert queues(server) == 0


def test_value_over_the_servers_limit_changes_nothing(server):
    server.control.config_set("proto-max-bulk-len", 1024 * 1024)
    sock = server.raw_connection()
    # The server replies the error after the length, and closes the connection.
    sock.sendall(b"*5\r\n$10\r\nDELAY.PUSH\r\n$1\r\nq\r\n$1\r\na\r\n$1\r\n0\r\n$1048577\r\n")
    assert b"invalid bulk length" in sock.makefile("rb").readline()
    assert server.dump() == {}


def test_longest_time_is_accepted(server, client):
    longest = 2**53 - server.now_ms() - HOUR
    assert push(client, "a", longest) == "a"
    assert client.execute_command("DELAY.LIST", "q")[0][1] > longest - HOUR
    server.settle(20)
    assert pending(client) == ["a"]


@pytest.mark.parametrize("command", ["DELAY.PUSH q a 1 v", "DELAY.CANCEL q a", "DELAY.LIST q"])
@pytest.mark.parametrize("key", [due_of(), value_of()])
def test_key_of_another_type_is_refused(server, resp, actor, command, key):
    server.control.set(key, "x")
    before = server.dump()
    assert code_of(actor().attempt(*command.split())) == "WRONGTYPE"
    assert server.dump() == before
    assert queues(server) == 0


def test_push_fails_without_memory(server, resp, actor):
    client = actor()
    push(server.control, "a", HOUR)
    before = server.dump()
    server.control.config_set("maxmemory", 1)
    assert code_of(client.attempt("DELAY.PUSH", "q", "b", 0, "v")) == "OOM"
    assert server.dump() == before
    assert client.call("DELAY.LIST", "q")[0][0] == "a"
    assert client.call("DELAY.CANCEL", "q", "a") == 1


def test_replica_refuses_to_push_and_lists(server, resp, actor):
    push(server.control, "a", HOUR)
    server.control.replicaof("127.0.0.1", 1)
    client = actor()
    assert code_of(client.attempt("DELAY.PUSH", "q", "b", 0, "v")) == "READONLY"
    assert code_of(client.attempt("DELAY.CANCEL", "q", "a")) == "READONLY"
    assert client.call("DELAY.LIST", "q")[0][0] == "a"


# CANCEL


def test_cancel_replies_how_many_were_pending(server, client):
    for id_ in "abcd":
        push(client, id_, HOUR)
    assert client.execute_command("DELAY.CANCEL", "q", "a", "x", "c", "a") == 2
    assert pending(client) == ["b", "d"]
    assert client.hkeys(value_of()) == ["b", "d"]
    assert client.execute_command("DELAY.CANCEL", "q", "x") == 0
    assert client.execute_command("DELAY.CANCEL", "nothing", "x") == 0


def test_cancel_of_the_last_element_removes_the_keys(server, client):
    push(client, "b", HOUR)
    assert client.execute_command("DELAY.CANCEL", "q", "b") == 1
    assert client.exists(due_of(), value_of()) == 0


def test_cancelled_element_is_not_delivered(server, some_client, at_once):
    assert at_once("DELAY.PUSH q a 1 va", "DELAY.PUSH q b 1 vb", "DELAY.CANCEL q a") == ["a", "b", 1]
    wait_delivered(some_client, "vb")
    wait_nothing_left(server, some_client)


# LIST


def test_list_is_in_order_of_time_and_has_COUNT_elements(client):
    for hours, id_ in ((5, "e"), (1, "a"), (3, "c"), (2, "b"), (4, "d")):
        push(client, id_, hours * HOUR)
    assert shown(client) == [(id_, f"v{id_}") for id_ in "abcde"]
    assert shown(client, "COUNT", 2) == [("a", "va"), ("b", "vb")]
    assert shown(client, "count", "100") == shown(client)
    lefts = [left for _, left, _ in client.execute_command("DELAY.LIST", "q")]
    assert all((n - 1) * HOUR < left <= n * HOUR for n, left in enumerate(lefts, 1))


def test_list_shows_ten_elements_without_COUNT(client):
    for n in range(12):
        push(client, f"{n:02}", HOUR + n * 1000)
    assert pending(client, count=12) == [f"{n:02}" for n in range(12)]
    assert [id_ for id_, _ in shown(client)] == [f"{n:02}" for n in range(10)]


def test_list_of_nothing_is_empty(client):
    assert client.execute_command("DELAY.LIST", "q") == []


def test_overdue_element_has_no_ms_left(server, client):
    client.set("q", "no list")
    push(client, "a", 0)
    fall_due(client, "a")
    assert client.execute_command("DELAY.LIST", "q") == [["a", 0, "va"]]


def test_element_without_a_value_is_listed_with_null(client):
    push(client, "a", HOUR)
    client.hdel(value_of(), "a")
    assert shown(client) == [("a", None)]


# MULTI, Lua


@each_way
def test_commands_work_in_multi_and_lua(server, some_resp, actor, say):
    replies = say(actor(), f"DELAY.PUSH q a {HOUR} va", "DELAY.PUSH q b 0 vb", "DELAY.CANCEL q a", "DELAY.LIST q")
    assert [*replies[:3], [[id_, value] for id_, _, value in replies[3]]] == ["a", "b", 1, [["b", "vb"]]]
    wait_delivered(server.control, "vb")
    wait_nothing_left(server, server.control)


def test_discarded_push_changes_nothing(server, actor):
    client = actor()
    for words in (("MULTI",), ("DELAY.PUSH", "q", "a", 0, "v"), ("DISCARD",)):
        client.call(*words)
    assert queues(server) == 0 and server.dump() == {}


@pytest.mark.parametrize("watched", [due_of(), value_of()])
@pytest.mark.parametrize("command", ["DELAY.PUSH q b 3600000 v", "DELAY.CANCEL q a"])
def test_WATCH_of_the_queues_keys_sees_its_changes(server, actor, watched, command):
    push(server.control, "a", HOUR)
    client = actor()
    client.call("WATCH", watched)
    server.control.execute_command(*command.split())
    client.call("MULTI")
    client.call("PING")
    assert client.call("EXEC") is None


def test_WATCH_of_the_list_sees_a_delivery(server, actor):
    client = actor()
    client.call("WATCH", "q")
    push(server.control, "a", 0)
    wait_for(lambda: server.control.exists("q"), what="the delivery")
    client.call("MULTI")
    client.call("PING")
    assert client.call("EXEC") is None


def test_guard_may_push(server, actor):
    holder = actor()
    assert holder.call("LOCK.ACQUIRE", "{q}lock", "o") == 1
    assert holder.call("LOCK.GUARD", "{q}lock", "o", "DELAY.PUSH", "{q}", "a", 0, "v") == "a"
    wait_delivered(server.control, "v", name="{q}")
