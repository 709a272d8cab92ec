"""Lists of any name, in any database: the keys of their queues, from which they are found again."""

import pytest
import redis

from harness import wait_for
from model.delay_scene import (
    HOUR,
    delivered,
    due_of,
    fall_due,
    pending,
    push,
    queues,
    value_of,
    wait_delivered,
    wait_nothing_left,
)

NAMES = {
    "plain": b"q",
    "tag": b"{x}",
    "tag within": b"a{b}c",
    "two tags": b"{a}{b}",
    "braces the wrong way round": b"}{",
    "closing brace": b"a}b",
    "opening brace": b"a{b",
    "no tag": b"{}",
    "no tag and a name": b"{}x",
    "tag of a brace": b"{{}}",
    "empty": b"",
    "binary": b"\0\xff\r\n{\0}",
    "like a key of a queue": b"delay:due:{x}",
    "long": b"x" * 5000,
}
each_name = pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)


@pytest.fixture
def client(server, some_resp):
    return server.client(some_resp, decode_responses=False)


@each_name
def test_element_is_delivered_to_that_list_and_leaves_nothing(server, client, name):
    push(client, "a", 0, name=name)
    wait_delivered(client, b"va", name=name)
    wait_nothing_left(server, client, name)
    assert client.keys() == [name]


@each_name
def test_keys_are_named_after_the_list(server, client, name):
    push(client, "a", HOUR, name=name)
    assert sorted(client.keys()) == sorted([due_of(name), value_of(name)])
    assert pending(client, name) == [b"a"]
    assert client.execute_command("DELAY.CANCEL", name, "a") == 1
    assert client.keys() == []
    wait_for(lambda: queues(server) == 0, what="all queues to be gone from memory")


@each_name
def test_change_by_another_client_is_noticed(server, client, name):
    push(client, "a", HOUR, name=name)
    fall_due(client, "a", name=name)
    wait_delivered(client, b"va", name=name)
    wait_nothing_left(server, client, name)


@each_name
def test_queue_is_found_again_by_its_keys(server, client, name):
    push(client, "a", HOUR, name=name)
    client.execute_command("DEBUG", "RELOAD")
    fall_due(client, "a", name=name)
    wait_delivered(client, b"va", name=name)
    wait_nothing_left(server, client, name)
    assert client.keys() == [name]


@pytest.mark.parametrize("first, second", [(b"x", b"{x}"), (b"{x}", b"x")])
def test_lists_with_the_same_queue_keys_use_them_one_at_a_time(server, client, first, second):
    push(client, "a", HOUR, name=first)
    with pytest.raises(redis.ResponseError, match="elements of another list are pending under these keys"):
        push(client, "b", HOUR, name=second)
    assert client.execute_command("DELAY.LIST", second) == []
    assert client.execute_command("DELAY.CANCEL", second, "a") == 0
    fall_due(client, "a", name=first)
    wait_delivered(client, b"va", name=first)
    wait_nothing_left(server, client, first)
    assert delivered(client, second) == []


@pytest.mark.parametrize("name", [b"x", b"{x}"])
def test_name_of_another_list_without_elements_is_ignored(server, client, name):
    client.hset(value_of(name), "", "another-owner")  # as after another client's ZREM of all pending elements
    push(client, "a", 0, name=name)
    wait_delivered(client, b"va", name=name)
    wait_nothing_left(server, client, name)


def test_lists_with_the_same_queue_keys_can_use_them_in_turn(server, client):
    for name in (b"x", b"{x}", b"x"):
        push(client, "a", 0, name, name)
        wait_nothing_left(server, client, name)
    assert [delivered(client, name) for name in (b"x", b"{x}")] == [[b"x", b"x"], [b"{x}"]]


# Databases


def test_each_database_has_its_own_queues(server, client):
    clients = {db: server.client(db=db) for db in (0, 3, 15)}
    for db, one in clients.items():
        push(one, "a", HOUR, f"of {db}")
    assert queues(server) == 3
    for db in (3, 15, 0):
        fall_due(clients[db], "a")
        wait_delivered(clients[db], f"of {db}")
    for db, one in clients.items():
        wait_nothing_left(server, one)
        assert delivered(one) == [f"of {db}"]


def test_queues_of_all_databases_are_found_again(server, client):
    clients = {db: server.client(db=db) for db in (1, 15, 0)}
    for one in clients.values():
        push(one, "a", HOUR)
    client.execute_command("DEBUG", "RELOAD")
    wait_for(lambda: queues(server) == 3, what="all to be found again")
    for one in clients.values():
        fall_due(one, "a")
        wait_delivered(one, "va")


def test_consumer_in_another_database_is_not_woken(server):
    actor = server.actor(db=5)
    actor.send("BLPOP", "q", 0)
    actor.wait_blocked()
    push(server.client(db=4), "a", 0)
    wait_for(lambda: server.client(db=4).exists("q"), what="the delivery")
    assert actor.is_blocked()
    push(server.client(db=5), "a", 0)
    assert actor.reply() == ["q", "va"]
