"""A token only grows for a key, whatever happens in between."""

import pytest
from redis.exceptions import ResponseError

from harness import code_of, scaled_ms, wait_for, wait_for_sync
from model.fenced_scene import COMMANDS, TOKEN, stopped, take

LEASE = scaled_ms(60)


def wait_gone(server, key):
    # Opening the key is what a client that comes back does, too.
    wait_for(lambda: not server.control.exists(key), 30, f"{key} to expire")


BETWEEN = {
    "release": "LOCK.RELEASE k o",
    "force": "LOCK.FORCE k",
    "DEL": "DEL k",
    "UNLINK": "UNLINK k",
    "DEL of the token": f"DEL k {TOKEN}",
    "RENAME": "RENAME k l",
    "RENAME of the token": f"RENAME {TOKEN} l",
    "FLUSHALL": "FLUSHALL",
    "FLUSHDB": "FLUSHDB ASYNC",
    "SWAPDB": "SWAPDB 0 1",
    "overwritten": f"HSET {TOKEN} token 1",
    "overwritten, no number": f"HSET {TOKEN} token abc",
    "overwritten, negative": f"HSET {TOKEN} token -5",
    "overwritten, a fraction": f"HSET {TOKEN} token 1.5",
    "field lost": f"HDEL {TOKEN} token",
    "DEBUG RELOAD": "DEBUG RELOAD",
}


@pytest.mark.parametrize("owner", ["o", "other"])
@pytest.mark.parametrize("between", BETWEEN.values(), ids=BETWEEN)
def test_grows(some_client, between, owner):
    first = take(some_client)
    some_client.execute_command(*between.split())
    some_client.execute_command("LOCK.FORCE", "k")
    second = take(some_client, owner)
    assert second > first
    assert some_client.hgetall(TOKEN) == {"token": str(second), "owner": owner}


def test_grows_across_a_lease_end(client, server):
    first = take(client, "o", "PX", LEASE)
    wait_gone(server, "k")
    assert take(client) > first


def test_grows_when_the_token_has_expired(client, server):
    client.config_set("lock.token-retention", LEASE)
    first = take(client, "o", "PX", 2 * LEASE)
    wait_gone(server, TOKEN)
    assert take(client) > first  # a re-entry, or a new one: the token is lost in any case


def test_tokens_tell_microseconds(client, server):
    """Each is taken in a millisecond of its own: within one they would differ in any case."""
    tokens = []
    for n in range(10):
        tokens.append(take(client, key=f"k{n}"))
        wait_for(lambda: server.now_ms() > tokens[-1] // 1000, what="the next millisecond")
    assert any(token % 1000 for token in tokens)


def test_grows_among_all_commands_and_many_at_once(client):
    tokens = []
    for n in range(100):
        tokens.append(take(client, f"o{n}", command=COMMANDS[n % 3]))
        client.execute_command("LOCK.RELEASE", "k", f"o{n}")
    assert tokens == sorted(set(tokens))


def test_pipelined_ones_are_all_different(server):
    pipe = server.client().pipeline(transaction=False)
    for n in range(500):
        pipe.execute_command("LOCK.ACQUIRE", "k", f"o{n}", "FENCED")
        pipe.execute_command("LOCK.FORCE", "k")
    tokens = pipe.execute()[::2]
    assert tokens == sorted(set(tokens))


def test_grows_from_a_last_one_that_lies_in_the_future(make_server):
    """As a clock that has been set back since may have left it."""
    client = make_server().client()
    future = 4 * 10**15
    client.hset(TOKEN, mapping={"token": future, "owner": "x"})
    assert take(client) == future + 1
    client.execute_command("LOCK.RELEASE", "k", "o")
    assert take(client) == future + 2


def test_largest_number_that_somebody_wrote_down_makes_no_token_negative(make_server):
    """A server of its own: a number of 2^63 - 2 would stay the largest of this process."""
    client = make_server().client()
    client.hset(TOKEN, mapping={"token": 2**63 - 2, "owner": "x"})
    heard = []
    for key in ("k", "k", "l"):
        try:
            heard.append(client.execute_command("LOCK.ACQUIRE", key, f"o{len(heard)}", "FENCED"))
        except ResponseError as error:
            heard.append(code_of(error))
        client.execute_command("LOCK.FORCE", key)
    assert all(token == "ERR" or token > 0 for token in heard), heard
    numbers = [token for token in heard[:2] if token != "ERR"]
    assert numbers == sorted(set(numbers))


# Restarts and failovers


def test_last_one_is_persisted(make_server):
    """By a number that the clock has not reached: it can only come from the AOF."""
    future = 4 * 10**15
    server = make_server(appendonly="yes")
    server.control.hset(TOKEN, mapping={"token": future, "owner": "x"})
    assert take(server.control) == future + 1
    before = server.dump()
    server.kill()
    server.start()
    assert server.dump() == before
    assert take(server.control) == future + 2  # a re-entry, but in another life
    server.control.execute_command("LOCK.FORCE", "k")
    assert take(server.control) == future + 3


def test_grows_across_a_restart_that_loses_everything(make_server):
    server = make_server()
    for n in range(50):
        last = take(server.control, f"o{n}")
        server.control.execute_command("LOCK.FORCE", "k")
    server.kill()
    server.start()
    assert server.control.dbsize() == 0
    assert take(server.control) > last


@pytest.mark.parametrize("missed", ["some writes", "every write"])
def test_grows_when_a_replica_is_promoted_that_missed_the_last_writes(make_server, missed):
    master = make_server()
    replica = master.start_replica()
    known = None
    if missed == "some writes":
        known = str(take(master.control, "before"))
        wait_for_sync(master, replica)
        master.control.execute_command("LOCK.FORCE", "k")
    with stopped(replica):
        # Closed while the replica sleeps: what follows cannot wait for it in a buffer either.
        master.control.client_kill_filter(_type="replica")
        for n in range(20):
            last = take(master.control, f"o{n}")
            master.control.execute_command("LOCK.FORCE", "k")
        master.kill()
    replica.control.execute_command("REPLICAOF", "NO", "ONE")
    assert replica.control.hget(TOKEN, "token") == known
    replica.control.execute_command("LOCK.FORCE", "k")
    assert take(replica.control) > last
