"""The connection is cut at every byte of request and reply, and redis-py retries the command: there is one hold."""

import threading

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from harness import wait_for
from harness.connect import new_client
from harness.proxy import Proxy
from model.once_scene import (
    answer,
    asks,
    assert_held_once,
    wait_drained,
    each_kind,
    keeps_out,
    lets_in,
)

# As many as redis-py 8 makes by default, without its pauses.
RETRIES = 10


@pytest.fixture
def proxy(server):
    with Proxy(server.port) as proxy:
        yield proxy


def packed(words):
    """How many bytes redis-py sends for a command."""
    return len(b"".join(redis.connection.Connection().pack_command(*words)))


def retrying(proxy):
    return new_client(proxy.port, retry=Retry(NoBackoff(), RETRIES))


def cuts(words, reply=b":1\r\n"):
    requests = [{"request": count} for count in range(1, packed(words) + 1)]
    return requests + [{"reply": count} for count in range(len(reply) + 1)]


def test_redis_py_retries_a_command_by_default(server, proxy):
    """Otherwise this file would show nothing."""
    client = new_client(proxy.port, retry=redis.Redis().get_retry())
    proxy.cut(reply=0)
    assert client.execute_command("INCR", "times") == 2
    wait_for(proxy.has_cut, what="the cut")


@each_kind()
def test_one_hold_when_granted_without_a_wait(server, proxy, kind):
    words = asks(kind, "BLOCK", 0)
    for cut in cuts(words):
        client = retrying(proxy)
        proxy.cut(**cut)
        assert client.execute_command(*words) == answer(kind), cut
        wait_for(proxy.has_cut, what=f"the cut by {cut}")
        wait_drained(server)
        assert_held_once(server, kind)
        client.close()


def retried_without_reply(server, proxy, *options):
    client = retrying(proxy)
    proxy.cut(reply=0)
    return client.execute_command("LOCK.ACQUIRE", "k", "o", *options)


def test_without_once_there_are_two_holds(server, proxy):
    assert retried_without_reply(server, proxy) == 2
    assert server.control.execute_command("LOCK.FORCE", "k") == 1
    assert retried_without_reply(server, proxy, "ONCE") == 1


@each_kind()
def test_one_hold_when_granted_after_a_wait(server, proxy, kind):
    """The request is cut, or the reply; the server may have written the reply to a connection that nobody reads."""
    words = asks(kind, "BLOCK", 0)
    for cut in cuts(words):
        assert server.control.execute_command(*keeps_out(kind)) is not None
        client, replies = retrying(proxy), []
        proxy.cut(**cut)
        thread = threading.Thread(target=lambda: replies.append(client.execute_command(*words)))  # noqa: B023
        thread.start()
        # The waiter is the first request or, if that was cut, the second.
        wait_for(lambda: ("reply" in cut or proxy.has_cut()) and server.info("lock")["lock_waiters"] == 1)  # noqa: B023
        assert server.control.execute_command(*lets_in(kind).split()) == 0
        thread.join()
        assert replies == [answer(kind)], cut
        wait_for(proxy.has_cut, what=f"the cut by {cut}")
        wait_drained(server)
        assert_held_once(server, kind)
        client.close()


@pytest.mark.parametrize("command", ["LOCK.ACQUIRE", "LOCK.FAIR", "LOCK.RWWRITE"])
def test_token_is_that_of_the_hold(server, proxy, command):
    words = (command, "k", "o", "ONCE", "FENCED")
    last = 0
    for cut in cuts(words, b":1795303484430593\r\n"):
        client = retrying(proxy)
        proxy.cut(**cut)
        token = client.execute_command(*words)
        assert token > last, cut
        assert int(server.control.hget("lock:token:{k}", "token")) == token
        last = token
        assert server.control.execute_command("LOCK.FORCE", "k") == 1
        client.close()


def test_session_is_bound_to_the_new_connection(server, proxy):
    words = asks("plain", "SESSION")
    for cut in cuts(words)[:-1]:  # with the last cut the whole reply arrives: there is no retry
        client = retrying(proxy)
        proxy.cut(**cut)
        assert client.execute_command(*words) == 1, cut
        client_id = client.client_id()
        wait_for(lambda: session(server) == client_id, what="the session to be bound again")  # noqa: B023
        wait_drained(server)
        assert session(server) == client_id
        assert_held_once(server, "plain")
        client.close()


def session(server):
    info = server.control.execute_command("LOCK.INFO", "k")
    (holder,) = info[info.index("holders") + 1]
    return holder[holder.index("session") + 1]
