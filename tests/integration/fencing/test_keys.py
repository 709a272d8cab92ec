"""The key of a lock's last token: its expiry, its name, its type, its slot, and how LOCK.INFO shows the token."""

import pytest
from redis.exceptions import ResponseError

from harness import code_of, wait_for, wait_for_sync
from harness.schedule import as_map
from model.fenced_scene import COMMANDS, TOKEN, each_command, take
from model.lock_scene import HOUR
from model.mutations import in_multi


def shown(client, key="k"):
    return as_map(client.execute_command("LOCK.INFO", key))["token"]


def test_key_expires_one_retention_after_the_last_use(client, server):
    day = 24 * HOUR
    take(client)
    assert day - 60_000 < client.pttl(TOKEN) <= day
    client.config_set("lock.token-retention", 2 * day)
    assert client.pttl(TOKEN) <= day
    take(client)  # a re-entry is a use
    assert 2 * day - 60_000 < client.pttl(TOKEN) <= 2 * day
    client.config_set("lock.token-retention", HOUR)
    client.execute_command("LOCK.FORCE", "k")
    assert client.pttl(TOKEN) > day
    take(client, "other")
    assert HOUR - 60_000 < client.pttl(TOKEN) <= HOUR


def test_key_remains_after_the_release(client):
    token = take(client)
    client.execute_command("LOCK.RELEASE", "k", "o")
    assert client.keys("*") == [TOKEN]
    assert client.hget(TOKEN, "token") == str(token)


@pytest.mark.parametrize("before", [(), ("o",)], ids=["first", "next"])
def test_WATCH_of_the_key_sees_a_new_token(client, actor, before):
    for owner in before:
        take(client, owner)
        client.execute_command("LOCK.RELEASE", "k", owner)
    watcher = actor()
    watcher.call("WATCH", TOKEN)
    take(client, "other")
    assert in_multi(watcher, "ECHO done") is None


def test_key_is_in_the_database_of_the_lock(server, resp):
    one, two = server.client(resp, db=1), server.client(resp, db=2)
    tokens = [take(one), take(two)]
    assert tokens[0] < tokens[1]
    assert [client.hget(TOKEN, "token") for client in (one, two)] == [str(token) for token in tokens]


@pytest.mark.parametrize("name", ["k", "{t}k", "a{t}b", "a}b", "{}k", "a b\r\n"])
def test_key_is_named_after_the_lock(server, name):
    side = "lock:token:" + (name if "{t}" in name else "{" + name + "}")
    take(server.control, key=name)
    assert server.control.exists(side) == 1


def test_binary_owner_is_kept_completely(server):
    client, owner = server.client(decode_responses=False), b"\x00\xff\r\n o"
    token = client.execute_command("LOCK.ACQUIRE", "k", owner, "FENCED")
    assert client.hget(TOKEN, "owner") == owner
    assert client.execute_command("LOCK.ACQUIRE", "k", owner, "FENCED") == token


@pytest.mark.parametrize("other", ["SET", "RPUSH", "SADD"])
@each_command
def test_token_key_of_another_type_is_refused(client, server, command, other):
    client.execute_command(other, TOKEN, "x")
    before = server.dump()
    for owner in ("o", "p"):
        with pytest.raises(ResponseError, match="^WRONGTYPE "):
            take(client, owner, "BLOCK", 0, command=command)
    assert server.dump() == before
    assert server.info("lock")["lock_waiters"] == 0
    assert client.execute_command(command, "k", "o") == 1
    with pytest.raises(ResponseError, match="^WRONGTYPE "):
        take(client, command=command)
    assert client.execute_command(command, "k", "o") == 2


@each_command
def test_lock_key_of_another_type_makes_no_token(client, command):
    client.set("k", "x")
    with pytest.raises(ResponseError, match="^WRONGTYPE "):
        take(client, command=command)
    assert client.exists(TOKEN) == 0


# LOCK.INFO


def test_LOCK_INFO_shows_the_last_token(client):
    client.execute_command("LOCK.ACQUIRE", "k", "o")
    assert shown(client) is None
    token = take(client)
    assert shown(client) == token
    client.execute_command("LOCK.FORCE", "k")
    assert client.execute_command("LOCK.INFO", "k") is None
    client.execute_command("LOCK.ACQUIRE", "k", "other")
    assert shown(client) == token
    client.delete(TOKEN)
    assert shown(client) is None
    client.set(TOKEN, "x")
    assert shown(client) is None


@pytest.mark.parametrize("written", [-1, -(2**63), 0, 2**63 - 1, 2**63, "1.5", "x", ""])
def test_LOCK_INFO_shows_no_token_for_an_invalid_number(client, written):
    client.execute_command("LOCK.ACQUIRE", "k", "o")
    client.hset(TOKEN, mapping={"token": written, "owner": "o"})
    assert shown(client) is None
    assert take(client) > 10**15
    assert client.hget(TOKEN, "token") == str(shown(client))


@pytest.mark.parametrize("written", [1, 2**53 + 1, 2**62 - 1, 2**62, 2**63 - 2])
def test_LOCK_INFO_shows_a_valid_number_as_the_token(client, written):
    client.execute_command("LOCK.ACQUIRE", "k", "o")
    client.hset(TOKEN, mapping={"token": written, "owner": "o"})
    assert shown(client) == written


def test_LOCK_INFO_shows_the_token_on_a_replica(server, resp):
    replica = server.start_replica()
    token = take(server.control)
    wait_for_sync(server, replica)
    assert shown(replica.client(resp)) == token
    with pytest.raises(ResponseError, match="^READONLY "):
        take(replica.client(resp))


# A cluster


@pytest.fixture
def cluster(make_server):
    """One node that serves every slot."""
    server = make_server(cluster_enabled="yes")
    server.control.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    wait_for(lambda: "cluster_state:ok" in server.actor().call("CLUSTER", "INFO"), 20, "the cluster to be up")
    return server


def test_name_without_side_keys_in_its_slot_is_refused_in_a_cluster(cluster):
    client = cluster.actor()
    for command in COMMANDS:
        for block in ((), ("BLOCK", 0)):
            assert code_of(client.attempt(command, "a}b", "o", "FENCED", *block)) == "ERR"
    assert client.call("DBSIZE") == 0
    assert client.call("LOCK.ACQUIRE", "a}b", "o") == 1
    assert client.call("LOCK.INFO", "a}b")


def test_token_is_in_the_locks_slot(cluster):
    client = cluster.actor()
    for name in ("k", "{t}k", "k{t}"):
        assert client.call("LOCK.ACQUIRE", name, "o", "FENCED") > 10**15
        side = next(key for key in client.call("KEYS", "lock:token:*") if name in key)
        assert client.call("CLUSTER", "KEYSLOT", side) == client.call("CLUSTER", "KEYSLOT", name)
        client.call("DEL", side)
