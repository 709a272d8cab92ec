"""redis-py connections that send what a test sends and nothing more."""

import redis
from redis.backoff import NoBackoff
from redis.connection import Connection
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from . import errors  # noqa: F401  (whole error texts, for every connection)
from .waiting import scaled

HOST = "127.0.0.1"


def _options(protocol, options):
    # No retry: a command that is sent twice is another test. No CLIENT SETINFO, no keepalive: nothing
    # is sent that the test does not send. The time limit only keeps a lost reply from hanging the run.
    defaults = dict(
        host=HOST,
        protocol=protocol,
        decode_responses=True,
        driver_info=None,
        socket_timeout=scaled(30),
        socket_keepalive=False,
        retry=Retry(NoBackoff(), 0),
    )
    return {**defaults, **options}


def new_client(port, protocol=2, **options):
    """A redis.Redis with a connection pool of its own."""
    options = _options(protocol, options)
    options.setdefault("maint_notifications_config", MaintNotificationsConfig(enabled=False))
    return redis.Redis(port=port, **options)


def raw_reply(client, *words):
    """The reply to a command of a redis.Redis as unparsed bytes, to compare with a later reply."""
    end = b"the end of the reply"
    connection = client.connection_pool.get_connection()
    try:
        connection.send_packed_command(connection.pack_commands([words, ("ECHO", end)]))
        received = b""
        while not received.endswith(b"\r\n" + end + b"\r\n"):
            more = connection._sock.recv(65536)
            assert more, f"the connection was closed after {words}"
            received += more
        return received
    finally:
        client.connection_pool.release(connection)


def new_connection(port, protocol=2, **options):
    """One connected redis-py Connection: commands and replies can be handled separately."""
    connection = Connection(port=port, **_options(protocol, options))
    connection.connect()
    return connection
