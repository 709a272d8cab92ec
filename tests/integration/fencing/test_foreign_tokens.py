"""A token that another client has written counts only for its own lock, and never makes the next token smaller."""

import pytest
from redis.exceptions import ResponseError

from model.fenced_scene import TOKEN, begin_to_wait, take

LONG = ("EX", 600)
HUGE = 2**62 - 1
LARGEST = 2**63 - 2
NO_TOKEN = "^ERR no larger fencing token is left for this lock$"


@pytest.fixture
def own(make_server):
    """A server of the test's own: the process keeps the tokens that it has given in memory."""
    return make_server()


@pytest.fixture
def client(own):
    return own.control


def now_us(client):
    seconds, micros = client.time()
    return seconds * 10**6 + micros


def write(client, token, owner="x"):
    client.hset(TOKEN, mapping={"token": token, "owner": owner})


def test_huge_token_changes_no_other_lock(client):
    write(client, HUGE)
    assert take(client) == HUGE + 1
    assert take(client, key="other") <= now_us(client)


@pytest.mark.parametrize("how", ["AOF", "RDB"])
def test_tokens_of_other_locks_grow_after_a_huge_one_and_a_restart(make_server, how):
    server = make_server(appendonly="yes" if how == "AOF" else "no")
    write(server.control, HUGE)
    first = take(server.control), take(server.control, key="other")
    for key in ("k", "other"):
        server.control.execute_command("LOCK.FORCE", key)
    server.restart(save=how == "RDB")
    second = take(server.control), take(server.control, key="other")
    assert second[0] > first[0] and second[1] > first[1]
    assert second[1] <= now_us(server.control)


LATER = ("HSET {} token 5", "DEL {}", "HSET {} token x", "FLUSHALL", f"HSET {{}} token {2**63 - 1}")


@pytest.mark.parametrize("later", LATER)
def test_next_token_is_larger_than_the_last_whatever_is_written(client, later):
    write(client, HUGE)
    first = take(client)
    client.execute_command("LOCK.FORCE", "k")
    client.execute_command(*later.format(TOKEN).split())
    assert take(client, "other") > first


def test_reentry_does_not_keep_a_token_that_was_not_given(client):
    first = take(client, "o", *LONG)
    client.hincrby(TOKEN, "token", -1)
    assert take(client, "o", *LONG) > first


def test_reentry_keeps_a_token_ahead_of_the_clock(client):
    write(client, HUGE)
    assert take(client, "o", *LONG) == take(client, "o", *LONG) == HUGE + 1


def test_there_is_no_token_after_the_largest(client):
    write(client, LARGEST)
    with pytest.raises(ResponseError, match=NO_TOKEN):
        take(client)
    assert client.exists("k") == 0
    assert client.execute_command("LOCK.ACQUIRE", "k", "o") == 1
    client.execute_command("LOCK.FORCE", "k")
    client.delete(TOKEN)
    assert take(client) <= now_us(client)


def test_waiter_receives_no_token_after_the_largest(own, client):
    client.execute_command("LOCK.ACQUIRE", "k", "o")
    fenced, plain = begin_to_wait(own.actor, "a", "FENCED"), begin_to_wait(own.actor, "b")
    write(client, LARGEST)
    client.execute_command("LOCK.RELEASE", "k", "o")
    with pytest.raises(ResponseError, match=NO_TOKEN):
        fenced.reply()
    assert plain.reply() == 1
