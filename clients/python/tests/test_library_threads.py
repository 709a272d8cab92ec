"""What docs/clients/python.md says of redis-py with threads, against the library itself, without our package."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis
from redis._parsers.base import BaseParser
from redis.backoff import NoBackoff
from redis.retry import Retry

from harness import errors, scaled, wait_for
from seen import KEEPALIVE, SILENT, calls, held, holds, info, keepalive_of, wait_calls, wait_free, wait_waiters, waiters
from wire import Wire

ONCE = Retry(NoBackoff(), 0)


@pytest.fixture
def client(server):
    with redis.Redis(port=server.port) as found:
        yield found


@pytest.fixture
def pool():
    with ThreadPoolExecutor(8) as found:
        yield found


@pytest.fixture
def its_own_texts(monkeypatch):
    """Errors as redis-py makes them; the harness keeps their whole text."""
    monkeypatch.setattr(BaseParser, "parse_error", classmethod(errors._parse))


def acquire(client, key, owner, *options):
    return client.execute_command("LOCK.ACQUIRE", key, owner, "PX", 600000, *options)


def release(client, key, owner):
    return client.execute_command("LOCK.RELEASE", key, owner)


# ---- Time-outs and retries ----


def test_defaults(client):
    connection = client.connection_pool.make_connection()
    assert (connection.socket_timeout, connection.retry.get_retries()) == (5, 10)
    assert client.connection_pool.max_connections == 100


def test_a_time_out_is_sent_again(server, pool):
    """Each time at the end of the queue, eleven times in all; then nothing of it waits any more."""
    with held(server, "k"), redis.Redis(port=server.port, socket_timeout=scaled(0.2), **SILENT) as client:
        wait = pool.submit(acquire, client, "k", "early", "BLOCK", 60000)
        wait_for(lambda: "early" in waiters(server, "k"), 20)
        late = server.actor("late")
        late.send("LOCK.ACQUIRE", "k", "late", "BLOCK", 0)
        wait_waiters(server, "k", "late", "early")
        with pytest.raises(redis.TimeoutError):
            wait.result(60)
        wait_waiters(server, "k", "late")
        wait_calls(server, "lock.acquire", 1 + 1 + 11)
        late.close()


def test_a_time_out_without_retries(server):
    with held(server, "k"), redis.Redis(port=server.port, socket_timeout=scaled(0.2), retry=ONCE, **SILENT) as client:
        with pytest.raises(redis.TimeoutError):
            acquire(client, "k", "o", "BLOCK", 60000)
        wait_calls(server, "lock.acquire", 2)
        wait_waiters(server, "k")


def test_a_longer_time_out(server):
    with held(server, "k"), redis.Redis(port=server.port, socket_timeout=None) as client:
        assert acquire(client, "k", "o", "BLOCK", 50) is None
        assert calls(server, "lock.acquire") == 2


def test_keepalive(client):
    """So that no time-out at all is bearable."""
    connection = client.connection_pool.get_connection()
    assert keepalive_of(connection._sock) == KEEPALIVE
    client.connection_pool.release(connection)


def test_a_lost_answer_is_a_second_hold(server):
    with Wire(server.port) as wire, redis.Redis(port=wire.port) as client:
        wire.cut("LOCK.ACQUIRE", reply=0)
        assert acquire(client, "k", "o") == 2
        assert release(client, "k", "o") == 1
        assert holds(server, "k") == {"o": 1}

        wire.cut("LOCK.ACQUIRE", reply=0)
        assert acquire(client, "l", "o", "ONCE") == 1
        assert holds(server, "l") == {"o": 1}

        wire.cut("LOCK.RELEASE", reply=0)
        with pytest.raises(redis.ResponseError, match="^NOTHELD"):
            release(client, "l", "o")
        assert info(server, "l") is None


def test_a_lost_answer_without_retries(server):
    with Wire(server.port) as wire, redis.Redis(port=wire.port, retry=ONCE) as client:
        wire.cut("LOCK.ACQUIRE", reply=0)
        with pytest.raises(redis.ConnectionError):
            acquire(client, "k", "o")
        assert holds(server, "k") == {"o": 1}


# ---- Giving up ----


def test_cancel_on_another_connection(server, client, pool):
    with held(server, "k"):
        wait = pool.submit(acquire, client, "k", "o", "BLOCK", 4000, "ONCE")
        wait_waiters(server, "k", "o")
        assert client.execute_command("LOCK.CANCEL", "k", "o", "RELEASE") == 1
        assert wait.result(20) is None


def test_a_future_given_up_is_a_ghost(server, pool):
    """Neither its time-out nor cancel() ends the wait; then the lock is held by nobody who knows."""
    with held(server, "k") as give, redis.Redis(port=server.port, socket_timeout=60) as client:
        wait = pool.submit(acquire, client, "k", "o", "BLOCK", 0, "ONCE")
        wait_waiters(server, "k", "o")
        with pytest.raises(TimeoutError):
            wait.result(0.01)
        assert not wait.cancel() and waiters(server, "k") == ["o"]
        give()
        wait_for(lambda: holds(server, "k") == {"o": 1}, 20)
        assert client.execute_command("LOCK.CANCEL", "k", "o", "RELEASE") == 2
        assert info(server, "k") is None


# A shell has what it runs in the background ignore Ctrl-C; so does all that is started from there.
PROGRAM = """
import signal

import redis

signal.signal(signal.SIGINT, signal.default_int_handler)
client = redis.Redis(port={port}, socket_timeout=60)
try:
    client.execute_command("LOCK.ACQUIRE", "k", "o", "BLOCK", 0)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    input()
"""


def is_asleep(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def test_an_interrupt_ends_the_wait(server):
    """While the program lives: redis-py closes the connection."""
    with held(server, "k"):
        words = [sys.executable, "-B", "-c", PROGRAM.format(port=server.port)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            wait_waiters(server, "k", "o")
            wait_for(lambda: is_asleep(process.pid), 20, "it to listen for the answer")
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "interrupted\n"
            wait_waiters(server, "k")
            assert process.poll() is None
            process.communicate("\n", timeout=60)


# ---- Connections ----


def test_a_full_pool(server, pool):
    """The release is refused at once, and never sent."""
    with redis.Redis(port=server.port, max_connections=2) as client:
        assert acquire(client, "k", "holder") == 1
        waits = [pool.submit(acquire, client, "k", owner, "BLOCK", 4000) for owner in "ab"]
        wait_for(lambda: len(waiters(server, "k")) == 2, 20)
        with pytest.raises(redis.exceptions.MaxConnectionsError):
            release(client, "k", "holder")
        assert calls(server, "lock.release") == 0
        for owner in "ab":
            server.control.execute_command("LOCK.CANCEL", "k", owner)
        assert [wait.result(20) for wait in waits] == [None, None]
        assert release(client, "k", "holder") == 0


def test_a_blocking_pool_that_is_full(server, pool):
    default = redis.BlockingConnectionPool()
    assert (default.max_connections, default.timeout) == (50, 20)
    connections = redis.BlockingConnectionPool(port=server.port, max_connections=1, timeout=0.1)
    with held(server, "k"), redis.Redis.from_pool(connections) as client:
        wait = pool.submit(acquire, client, "k", "o", "BLOCK", 4000)
        wait_waiters(server, "k", "o")
        with pytest.raises(redis.ConnectionError):
            client.ping()
        server.control.execute_command("LOCK.CANCEL", "k", "o")
        assert wait.result(20) is None


def test_a_single_connection_is_stalled(server, client, pool):
    with held(server, "k") as give, client.client() as single:
        wait = pool.submit(acquire, single, "k", "o", "BLOCK", 0)
        wait_waiters(server, "k", "o")
        before = calls(server, "ping")
        ping = pool.submit(single.ping)
        client.ping()  # which is not stalled: another connection of the pool
        assert calls(server, "ping") == before + 1 and not ping.done()
        give()
        assert wait.result(20) == 1 and ping.result(20)
        assert release(client, "k", "o") == 0


def test_a_session_and_the_pool(servers):
    """A connection that goes back to the pool is anybody's: whose time is over there ends the session."""
    server = servers.make(lock_session_grace=0)
    with redis.Redis(port=server.port, socket_timeout=scaled(2), retry=ONCE) as client:
        assert client.execute_command("LOCK.ACQUIRE", "k", "o", "SESSION") == 1
        assert info(server, "k")["holders"][0]["session"] == client.client_id()
        with pytest.raises(redis.TimeoutError):
            client.execute_command("BLPOP", "list", 0)
        wait_free(server, "k")


def test_a_session_and_a_silent_reconnect(servers):
    server = servers.make(lock_session_grace=0)
    with redis.Redis(port=server.port, single_connection_client=True) as session:
        assert session.execute_command("LOCK.ACQUIRE", "k", "o", "SESSION") == 1
        first = session.client_id()
        server.control.client_kill_filter(_id=first)
        wait_free(server, "k")
        assert session.ping() and session.client_id() != first
        with pytest.raises(redis.ResponseError, match="^NOTHELD"):
            session.execute_command("LOCK.RENEW", "k", "o", "SESSION")


def test_a_session_without_retries(servers):
    server = servers.make(lock_session_grace=0)
    with redis.Redis(port=server.port, single_connection_client=True, retry=ONCE) as session:
        assert session.execute_command("LOCK.ACQUIRE", "k", "o", "SESSION") == 1
        first = session.client_id()
        server.control.client_kill_filter(_id=first)
        with pytest.raises(redis.ConnectionError):
            session.ping()
        assert session.client_id() != first


def test_a_session_comes_back_within_its_grace(servers):
    server = servers.make(lock_session_grace=60000)
    with redis.Redis(port=server.port, single_connection_client=True) as session:
        assert session.execute_command("LOCK.ACQUIRE", "k", "o", "SESSION") == 1
        server.control.client_kill_filter(_id=session.client_id())
        assert session.execute_command("LOCK.RENEW", "k", "o", "SESSION") == 1
        assert info(server, "k")["holders"][0]["session"] == session.client_id()
        assert release(session, "k", "o") == 0


# ---- Replies ----


def test_lock_info(server):
    with redis.Redis(port=server.port, decode_responses=True) as client:
        assert client.execute_command("LOCK.INFO", "k") is None
        assert acquire(client, "k", "o") == 1
        found = client.execute_command("LOCK.INFO", "k")
        assert found.items() >= {"mode": "exclusive", "waiting": 0, "waiters": [], "token": None, "watchers": 0}.items()
        (holder,) = found["holders"]
        assert holder.items() >= {"owner": "o", "mode": "exclusive", "holds": 1, "session": None}.items()
    with redis.Redis(port=server.port) as client:
        assert client.execute_command("LOCK.INFO", "k")[b"holders"][0][b"owner"] == b"o"
    with redis.Redis(port=server.port, protocol=2) as client:
        flat = client.execute_command("LOCK.INFO", "k")
        assert flat[:3:2] == [b"mode", b"holders"] and flat[3][0][:2] == [b"owner", b"o"]
        assert client.execute_command("LOCK.INFO", "free") is None


@pytest.mark.parametrize("protocol", [2, 3])
def test_answers(server, protocol):
    with redis.Redis(port=server.port, protocol=protocol) as client:
        assert isinstance(acquire(client, "k", "o", "FENCED"), int)
        assert acquire(client, "k", "other") is None and acquire(client, "k", "other", "BLOCK", 10) is None
        assert client.execute_command("LOCK.WATCH", "k", "o") is None
        assert release(client, "k", "o") == 0
        assert client.execute_command("LOCK.WATCH", "k", "o") == b"LOST"
    with redis.Redis(port=server.port, protocol=protocol, decode_responses=True) as client:
        assert client.execute_command("LOCK.WATCH", "k", "o") == "LOST"


def error_of(call, *args):
    with pytest.raises(redis.ResponseError) as caught:
        call(*args)
    return type(caught.value), str(caught.value)


@pytest.mark.parametrize("protocol", [2, 3])
def test_errors(server, protocol, its_own_texts):
    client = redis.Redis(port=server.port, protocol=protocol)
    said = client.execute_command
    plain = redis.ResponseError
    kind, text = error_of(release, client, "k", "o")
    assert kind is plain and text.startswith("NOTHELD ")
    kind, text = error_of(said, "LOCK.ACQUIRE", "k", "o", "NONSENSE")
    assert kind is plain and text == "syntax error"  # without its ERR
    client.set("text", 1)
    kind, text = error_of(acquire, client, "text", "o")
    assert kind is plain and text.startswith("WRONGTYPE ")
    client.config_set("maxmemory", 1)
    kind, text = error_of(acquire, client, "k", "o")
    assert kind is redis.OutOfMemoryError and "OOM" not in text
    client.config_set("maxmemory", 0)
    client.replicaof("127.0.0.1", server.port)
    kind, text = error_of(acquire, client, "k", "o")
    assert kind is redis.ReadOnlyError and "READONLY" not in text
    client.replicaof("NO", "ONE")
    client.close()


def test_a_wait_on_what_becomes_a_replica(server, client, pool, its_own_texts):
    with held(server, "k"):
        wait = pool.submit(error_of, acquire, client, "k", "o", "BLOCK", 4000)
        wait_waiters(server, "k", "o")
        server.control.replicaof("127.0.0.1", server.port)
        kind, text = wait.result(20)
        assert kind is redis.ResponseError and text.startswith("UNBLOCKED ")
        server.control.replicaof("NO", "ONE")
