"""How redis-py represents error replies: code_of(), is_transient() and _CODES of lock_so/errors.py depend on it."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from redis._parsers.base import BaseParser

from harness import errors
from lock_so.errors import code_of, is_transient
from seen import wait_waiters


@pytest.fixture(autouse=True)
def redis_py_texts(monkeypatch):
    """Errors as redis-py creates them; the harness patches it to keep the whole text."""
    monkeypatch.setattr(BaseParser, "parse_error", classmethod(errors._parse))


def error_of(client, *words):
    with pytest.raises(redis.ResponseError) as caught:
        client.execute_command(*words)
    return code_of(caught.value), is_transient(caught.value)


@pytest.mark.parametrize("protocol", [2, 3])
def test_codes(server, protocol):
    with redis.Redis(port=server.port, protocol=protocol) as client, ThreadPoolExecutor(1) as pool:
        client.set("text", 1)
        assert error_of(client, "LOCK.RELEASE", "k", "o") == ("NOTHELD", False)
        assert error_of(client, "LOCK.ACQUIRE", "k", "o", "NONSENSE") == ("ERR", False)
        assert error_of(client, "LOCK.ACQUIRE", "text", "o") == ("WRONGTYPE", False)
        client.config_set("maxmemory", 1)
        assert error_of(client, "LOCK.ACQUIRE", "k", "o") == ("OOM", False)
        client.config_set("maxmemory", 0)
        client.execute_command("LOCK.ACQUIRE", "k", "holder", "PX", 600000)
        wait = pool.submit(error_of, client, "LOCK.ACQUIRE", "k", "o", "BLOCK", 4000)
        wait_waiters(server, "k", "o")
        client.replicaof("127.0.0.1", server.port)
        assert wait.result(20) == ("UNBLOCKED", True)
        assert error_of(client, "LOCK.ACQUIRE", "k", "o") == ("READONLY", True)
        client.replicaof("NO", "ONE")
