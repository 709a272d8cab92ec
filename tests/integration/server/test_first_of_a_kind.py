"""The first session, waiter, token of a server: from then on the module receives the events that it needs.

Each test has its own server, on which there has been nothing of the kind before.
"""

import pytest

from harness import scaled_ms, wait_for
from model.fenced_scene import TOKEN

LONG = 600_000


@pytest.fixture
def server(make_server):
    return make_server(lock_session_grace=scaled_ms(20))


def one(command):
    return [command, "k", "o"]


COMMANDS = ("LOCK.ACQUIRE", "LOCK.FAIR", "LOCK.RWREAD", "LOCK.RWWRITE")
REQUESTS = {command: one(command) for command in COMMANDS} | {"LOCK.MACQUIRE": ["LOCK.MACQUIRE", 2, "k", "j", "o"]}
each_request = pytest.mark.parametrize("request_words", REQUESTS.values(), ids=REQUESTS)


def calls(client, *words):
    assert client.call(*words) in (1, 2)
    return client


def waits(server, *words):
    client = server.actor()
    client.send(*words, "BLOCK", 0)
    return client.wait_blocked()


# ---- the first session ----


def is_free(server, *keys, db=0):
    wait_for(lambda: not server.client(db=db).exists(*keys), 10, "the holds to be released")


@each_request
def test_first_session_is_released_when_its_connection_closes(server, request_words):
    calls(server.actor(), *request_words, "SESSION").kill_socket()
    is_free(server, "k", "j")


@each_request
def test_first_session_after_a_wait_is_released(server, request_words):
    server.control.execute_command("LOCK.ACQUIRE", "k", "x")
    client = waits(server, *request_words, "SESSION")
    server.control.execute_command("LOCK.RELEASE", "k", "x")
    assert client.reply() in (1, 2)
    client.kill_socket()
    is_free(server, "k", "j")


def test_first_session_by_renewal_is_released(server):
    client = calls(server.actor(), "LOCK.ACQUIRE", "k", "o", "PX", LONG)
    calls(client, "LOCK.RENEW", "k", "o", "SESSION").kill_socket()
    is_free(server, "k")


def test_first_session_in_a_transaction_is_released(server):
    client = server.actor()
    for words in (["MULTI"], [*one("LOCK.ACQUIRE"), "SESSION"], ["EXEC"]):
        client.call(*words)
    client.kill_socket()
    is_free(server, "k")


@pytest.mark.parametrize("by", ["acquisition", "renewal", "multi-key"])
def test_first_session_is_released_after_a_swap(server, by):
    client = server.actor()
    if by == "multi-key":
        calls(client, *REQUESTS["LOCK.MACQUIRE"], "SESSION")
    else:
        calls(client, *one("LOCK.ACQUIRE"), *(["SESSION"] if by == "acquisition" else []))
    if by == "renewal":
        calls(client, "LOCK.RENEW", "k", "o", "SESSION")
    server.control.swapdb(0, 1)
    client.kill_socket()
    is_free(server, "k", db=1)


# ---- the first waiter ----

LOSSES = {
    "DEL": "DEL k",
    "RENAME": "RENAME k z",
    "lease end": "PEXPIRE k 1",
    "HDEL": "HDEL k x",
    "FLUSHALL": "FLUSHALL",
    "FLUSHDB": "FLUSHDB",
    "SWAPDB": "SWAPDB 0 1",
}


@each_request
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_first_waiter_is_granted_when_the_lock_is_lost(server, request_words, loss):
    server.control.execute_command("LOCK.ACQUIRE", "k", "x", "PX", LONG)
    client = waits(server, *request_words)
    server.all_searched()
    server.control.execute_command(*loss.split())
    assert client.reply() in (1, 2)


# ---- the first token ----


def in_a_transaction(client, *words):
    client.call("MULTI")
    client.call(*words)
    return client.call("EXEC")[0]


def by_a_script(client, *words):
    return client.call("EVAL", "return redis.call(unpack(ARGV))", 0, *words)


def after_a_wait(client, *words):
    client.call("LOCK.ACQUIRE", "k", "x")
    waiter = waits(client.server, *words)
    client.call("LOCK.RELEASE", "k", "x")
    return waiter.reply()


WAYS = {"directly": lambda client, *words: client.call(*words), "in MULTI": in_a_transaction}
WAYS |= {"by Lua": by_a_script, "after a wait": after_a_wait}


@pytest.mark.parametrize("command", ["LOCK.ACQUIRE", "LOCK.FAIR", "LOCK.RWWRITE"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_first_token_is_smaller_than_those_after_swaps(server, way, command):
    """Two swaps begin another life of the data: the record may be older than the latest token."""
    client = server.actor()
    first = way(client, command, "k", "o", "FENCED")
    assert server.control.hget(TOKEN, "token") == str(first)
    for _ in range(2):
        server.control.swapdb(0, 1)
    assert client.call(command, "k", "o", "FENCED") > first
