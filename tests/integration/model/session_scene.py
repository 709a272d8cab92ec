"""Sessions in tests: how to bind holds to connections, to find out what is bound, and to end connections.

A test file whose sessions end imports `server` from here, instead of the harness's: its grace is short.
"""

import pytest

from harness import scaled_ms, wait_for
from harness.schedule import as_map

LEASE = scaled_ms(300)
GRACE = scaled_ms(60)
LONG = 600_000

COMMANDS = ("LOCK.ACQUIRE", "LOCK.FAIR", "LOCK.RWREAD", "LOCK.RWWRITE")
each_command = pytest.mark.parametrize("command", COMMANDS)


@pytest.fixture
def server(server):
    """With the default lease of 30 s: a lock that becomes free sooner has been released."""
    server.control.config_set("lock.session-grace", GRACE)
    return server


@pytest.fixture
def short_leases(server):
    server.control.config_set("lock.default-lease", LEASE)


@pytest.fixture
def long_grace(server):
    """A grace that is longer than any test."""
    server.control.config_set("lock.session-grace", LONG)


# Queries


def holders(server, key="k", db=0):
    """{(owner, mode): (holds, session)}"""
    with server.client(db=db) as client:
        found = as_map(client.execute_command("LOCK.INFO", key)).get("holders", [])
    holds = map(as_map, found)
    return {(hold["owner"], hold["mode"]): (hold["holds"], hold["session"]) for hold in holds}


def session(server, key="k", db=0):
    """The client to which the only holder's hold is bound."""
    [(_, bound)] = holders(server, key, db).values()
    return bound


def sessions(server):
    """Only for a server of the test's own: on a shared one, other tests leave sessions in their grace."""
    return server.info("lock")["lock_sessions"]


# Waiting


def wait_free(server, *keys, db=0):
    client = server.client(db=db)
    wait_for(lambda: not client.exists(*(keys or ("k",))), 10, "the session's holds to be released")


def wait_noticed(server, key="k", db=0):
    """Waits until the server has noticed that the connection has closed."""
    wait_for(lambda: session(server, key, db) is None, what="the connection's end to be noticed")


def leases_pass(server, number=3):
    end = server.now_ms() + number * LEASE
    wait_for(lambda: server.now_ms() > end, 30, "some leases to pass")


def grace_passes(server):
    server.let_pass(2 * GRACE)


def begin_to_wait(actor, owner, *options, command="LOCK.ACQUIRE", key="k"):
    client = actor(owner)
    client.send(command, key, owner, "BLOCK", 0, *options)
    return client.wait_blocked()


# Ends of connections


def dies_by_reset(client):
    client.kill_socket()


def dies_by_close(client):
    client.close()


def dies_by_client_kill(client):
    assert client.server.control.client_kill_filter(_id=client.client_id) == 1


def dies_by_quit(client):
    assert client.call("QUIT") == "OK"


def dies_by_protocol_error(client):
    client._connection._sock.sendall(b"*1\r\n!\r\n")


WAYS = (dies_by_reset, dies_by_close, dies_by_client_kill, dies_by_quit, dies_by_protocol_error)
each_way_to_die = pytest.mark.parametrize("dies", WAYS)
