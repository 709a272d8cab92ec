"""The tokens of a key only grow, whatever happens in between."""

import pytest
from redis.exceptions import ResponseError

from harness import code_of, scaled_ms, wait_for, wait_for_sync
from model.fenced_scene import COMMANDS, TOKEN, stopped, take

LEASE = scaled_ms(60)


def wait_gone(server, key):
    # A client that returns opens the key, too.
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
def test_token_grows_whatever_happens_in_between(some_client, between, owner):
    first = take(some_client)
    some_client.execute_command(*between.split())
    some_client.execute_command("LOCK.FORCE", "k")
    second = take(some_client, owner)
    assert second > first
    assert some_client.hgetall(TOKEN) == {"token": str(second), "owner": owner}


def test_token_grows_after_a_lease_end(client, server):
    first = take(client, "o", "PX", LEASE)
    wait_gone(server, "k")
    assert take(client) > first


def test_token_grows_after_the_last_token_has_expired(client, server):
    client.config_set("lock.token-retention", LEASE)
    first = take(client, "o", "PX", 2 * LEASE)
    wait_gone(server, TOKEN)
    assert take(client) > first  # a re-entry, or a new hold: the token is lost in both cases


def test_tokens_have_microseconds(client, server):
    """Each is given in another millisecond: within one they would differ anyway."""
    tokens = []
    for n in range(10):
        tokens.append(take(client, key=f"k{n}"))
        wait_for(lambda: server.now_ms() > tokens[-1] // 1000, what="the next millisecond")
    assert any(token % 1000 for token in tokens)


def test_tokens_grow_in_many_acquisitions_by_all_commands(client):
    tokens = []
    for n in range(100):
        tokens.append(take(client, f"o{n}", command=COMMANDS[n % 3]))
        client.execute_command("LOCK.RELEASE", "k", f"o{n}")
    assert tokens == sorted(set(tokens))


def test_tokens_in_a_pipeline_are_all_different(server):
    pipe = server.client().pipeline(transaction=False)
    for n in range(500):
        pipe.execute_command("LOCK.ACQUIRE", "k", f"o{n}", "FENCED")
        pipe.execute_command("LOCK.FORCE", "k")
    tokens = pipe.execute()[::2]
    assert tokens == sorted(set(tokens))


def test_token_grows_from_one_in_the_future(make_server):
    """Such a token is left by a clock that has been set back since."""
    client = make_server().client()
    future = 4 * 10**15
    client.hset(TOKEN, mapping={"token": future, "owner": "x"})
    assert take(client) == future + 1
    client.execute_command("LOCK.RELEASE", "k", "o")
    assert take(client) == future + 2


def test_token_is_never_negative_after_the_largest_number(make_server):
    """A server of its own: 2^63 - 2 would remain the largest number of this process."""
    client = make_server().client()
    client.hset(TOKEN, mapping={"token": 2**63 - 2, "owner": "x"})
    replies = []
    for key in ("k", "k", "l"):
        try:
            replies.append(client.execute_command("LOCK.ACQUIRE", key, f"o{len(replies)}", "FENCED"))
        except ResponseError as error:
            replies.append(code_of(error))
        client.execute_command("LOCK.FORCE", key)
    assert all(token == "ERR" or token > 0 for token in replies), replies
    numbers = [token for token in replies[:2] if token != "ERR"]
    assert numbers == sorted(set(numbers))


# Restarts and failovers


def test_last_token_is_persisted(make_server):
    """With a number that the clock has not reached: it can only be from the AOF."""
    future = 4 * 10**15
    server = make_server(appendonly="yes")
    server.control.hset(TOKEN, mapping={"token": future, "owner": "x"})
    assert take(server.control) == future + 1
    before = server.dump()
    server.kill()
    server.start()
    assert server.dump() == before
    assert take(server.control) == future + 2  # a re-entry, but after a restart
    server.control.execute_command("LOCK.FORCE", "k")
    assert take(server.control) == future + 3


def test_token_grows_after_a_restart_that_loses_all_data(make_server):
    server = make_server()
    for n in range(50):
        last = take(server.control, f"o{n}")
        server.control.execute_command("LOCK.FORCE", "k")
    server.kill()
    server.start()
    assert server.control.dbsize() == 0
    assert take(server.control) > last


@pytest.mark.parametrize("missed", ["some writes", "every write"])
def test_token_grows_on_a_promoted_replica_that_missed_writes(make_server, missed):
    master = make_server()
    replica = master.start_replica()
    known = None
    if missed == "some writes":
        known = str(take(master.control, "before"))
        wait_for_sync(master, replica)
        master.control.execute_command("LOCK.FORCE", "k")
    with stopped(replica):
        # Closed while the replica is stopped: so that no later write waits for it in a buffer.
        master.control.client_kill_filter(_type="replica")
        for n in range(20):
            last = take(master.control, f"o{n}")
            master.control.execute_command("LOCK.FORCE", "k")
        master.kill()
    replica.control.execute_command("REPLICAOF", "NO", "ONE")
    assert replica.control.hget(TOKEN, "token") == known
    replica.control.execute_command("LOCK.FORCE", "k")
    assert take(replica.control) > last
