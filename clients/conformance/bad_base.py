"""What the parts of the bad runner share: the fault, how it answers, and its connections."""

import contextlib
import json
import socket
import sys
import threading

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

FAULT = sys.argv[1]
LOST = (redis.ConnectionError, redis.TimeoutError)
_writing = threading.Lock()


class Failure(Exception):
    def __init__(self, code, text=""):
        super().__init__(code)
        self.code, self.text = code, text


_CODES = {"DEADLOCK": "deadlock", "NOREPLICAS": "no_replicas", "unknown": "module_missing"}


def refusal(error, port, named=""):
    """The failure for an error reply of the server with this port."""
    code, text = _CODES.get(str(error).partition(" ")[0], "refused"), str(error)
    if code == "module_missing":
        text = "unknown command" if FAULT == "no_hint" else f"unknown command: is lock.so loaded on 127.0.0.1:{port}?"
    return Failure(code, named + text)


def write(message):
    with _writing:
        print(json.dumps(message), flush=True)


def log(text):
    print(text, file=sys.stderr, flush=True)


def connection_to(port, timeout=None):
    times = {"socket_timeout": timeout, "socket_connect_timeout": timeout or 1}
    return redis.Redis(port=port, protocol=3, max_connections=1, retry=Retry(NoBackoff(), 0), **times)


def interrupt(link):
    """Ends what waits for a reply on this client's connections."""
    for connection in list(link.connection_pool._in_use_connections if link else ()):
        if connection._sock:
            with contextlib.suppress(OSError):  # it is closed already
                connection._sock.shutdown(socket.SHUT_RDWR)
