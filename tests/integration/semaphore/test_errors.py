"""Requests for permits that are refused: bad arguments, other types, no memory, replicas, MULTI, Lua."""

import pytest
from redis.exceptions import ResponseError

from harness import code_of, wait_for_sync
from harness.schedule import as_map
from model.bad_arguments import NO_LEASE, NO_OWNER, OTHER_TYPES
from model.semaphore_scene import LEASES, LONG, permits_of


def assert_refused(server, client, words, text):
    before = server.dump()
    with pytest.raises(ResponseError) as refused:
        client.execute_command(*words)
    assert str(refused.value).startswith(text)
    assert server.dump() == before


LIMIT = "ERR limit is not an integer from 1 to 2147483647"
PERMITS = "ERR permits is not an integer from 1 to 2147483647"
NO_NUMBER = {name: value for name, value in NO_LEASE.items() if value != str(2**63 - 1)} | {"2^31": str(2**31)}


@pytest.mark.parametrize("held", [False, True], ids=["free", "held"])
@pytest.mark.parametrize("value", NO_NUMBER.values(), ids=NO_NUMBER)
def test_limit_and_permits_must_be_numbers(server, some_client, value, held):
    if held:
        some_client.execute_command("LOCK.SEMAPHORE", "k", "a", 5, "PX", LONG)
    assert_refused(server, some_client, ("LOCK.SEMAPHORE", "k", "a", value), LIMIT)
    assert_refused(server, some_client, ("LOCK.SEMAPHORE", "k", "a", 5, "PERMITS", value), PERMITS)
    assert_refused(server, some_client, ("LOCK.RELEASE", "k", "a", "PERMITS", value), PERMITS)


@pytest.mark.parametrize("held", [False, True], ids=["free", "held"])
def test_more_permits_than_the_limit_is_an_error(server, some_client, held):
    if held:
        some_client.execute_command("LOCK.SEMAPHORE", "k", "a", 5, "PX", LONG)
    for blocks in ((), ("BLOCK", 0)):
        words = ("LOCK.SEMAPHORE", "k", "a", 3, "PERMITS", 4, *blocks)
        assert_refused(server, some_client, words, "ERR more permits than the limit")


SYNTAX = {
    "permits twice": "5 PERMITS 1 PERMITS 1",
    "no permits": "5 PERMITS",
    "a limit at the end": "PERMITS 1 5",
    "two limits": "5 5",
    "fenced": "5 FENCED",
    "an option of RELEASE": "5 READ",
    "two leases": "5 PX 1000 SESSION",
    "an option of LOCK.INFO": "5 COUNT 1",
}


@pytest.mark.parametrize("words", SYNTAX.values(), ids=SYNTAX)
def test_bad_syntax_is_refused(server, some_client, words):
    assert_refused(server, some_client, ("LOCK.SEMAPHORE", "k", "a", *words.split()), "ERR syntax error")


@pytest.mark.parametrize("words", ["k", "k a"])
def test_wrong_number_of_arguments_is_refused(server, some_client, words):
    assert_refused(server, some_client, ("LOCK.SEMAPHORE", *words.split()), "ERR wrong number of arguments")


@pytest.mark.parametrize("words", ["READ PERMITS 1", "PERMITS 1 WRITE", "PERMITS 1 PERMITS 1", "PERMITS"])
def test_release_accepts_one_option(server, some_client, words):
    some_client.execute_command("LOCK.SEMAPHORE", "k", "a", 5, "PX", LONG)
    assert_refused(server, some_client, ("LOCK.RELEASE", "k", "a", *words.split()), "ERR syntax error")


@pytest.mark.parametrize("owner, text", NO_OWNER.values(), ids=NO_OWNER)
def test_bad_owner_is_refused(server, some_client, owner, text):
    assert_refused(server, some_client, ("LOCK.SEMAPHORE", "k", owner, 5), text)


def test_options_may_be_in_any_order_and_case(client):
    assert client.execute_command("lock.semaphore", "k", "a", 5, "bLock", 0, "eX", 60, "perMits", 2) == 2


def test_largest_numbers_are_accepted(server, client):
    most = 2**31 - 1
    assert client.execute_command("LOCK.SEMAPHORE", "k", "a", most, "PERMITS", most - 1) == most - 1
    assert client.execute_command("LOCK.SEMAPHORE", "k", "b", most, "PERMITS", 2) is None
    assert client.execute_command("LOCK.SEMAPHORE", "k", "b", most) == 1
    assert client.execute_command("LOCK.SEMAPHORE", "k", "a", most) is None
    assert client.execute_command("LOCK.RELEASE", "k", "a", "PERMITS", most - 1) == 0


@pytest.mark.parametrize("key", ["k", LEASES])
@pytest.mark.parametrize("make", OTHER_TYPES.values(), ids=OTHER_TYPES)
def test_key_of_another_type_is_refused(server, some_client, make, key):
    if key == LEASES and make.startswith("ZADD"):
        pytest.skip("that is its type")
    word, _, *rest = make.split()
    some_client.execute_command(word, key, *rest)
    assert_refused(server, some_client, ("LOCK.SEMAPHORE", "k", "a", 5), "WRONGTYPE")


def test_without_memory_acquiring_is_refused_and_releasing_is_not(make_server):
    server = make_server(maxmemory="1gb")
    client = server.control
    assert client.execute_command("LOCK.SEMAPHORE", "k", "a", 5, "PERMITS", 2) == 2
    client.config_set("maxmemory", 1)
    with pytest.raises(ResponseError) as refused:
        client.execute_command("LOCK.SEMAPHORE", "k", "b", 5)
    assert code_of(refused.value) == "OOM"
    assert client.execute_command("LOCK.RELEASE", "k", "a") == 1
    assert client.execute_command("LOCK.RENEW", "k", "a") == 1


def test_replica_replies_readonly(make_server):
    server = make_server()
    replica = server.start_replica()
    server.control.execute_command("LOCK.SEMAPHORE", "k", "a", 5, "PERMITS", 2, "PX", LONG)
    wait_for_sync(server, replica)
    for words in (("LOCK.SEMAPHORE", "k", "b", 5), ("LOCK.RELEASE", "k", "a")):
        with pytest.raises(ResponseError) as refused:
            replica.control.execute_command(*words)
        assert code_of(refused.value) == "READONLY"
    assert permits_of(replica) == {"a": 2}


def test_requests_do_not_block_in_multi_and_lua(server, client):
    assert client.execute_command("LOCK.SEMAPHORE", "k", "a", 1) == 1
    transaction = client.pipeline(transaction=True)
    transaction.execute_command("LOCK.SEMAPHORE", "k", "b", 1, "BLOCK", 0)
    transaction.execute_command("LOCK.RELEASE", "k", "a")
    transaction.execute_command("LOCK.SEMAPHORE", "k", "b", 1, "BLOCK", 0)
    assert transaction.execute() == [None, 0, 1]
    assert not client.eval("return redis.call('LOCK.SEMAPHORE', KEYS[1], 'c', 1, 'BLOCK', 0)", 1, "k")
    assert permits_of(server) == {"b": 1}


def test_guard_runs_for_an_owner_of_permits(client):
    client.execute_command("LOCK.SEMAPHORE", "k", "a", 5, "PERMITS", 2)
    assert client.execute_command("LOCK.GUARD", "k", "a", "INCR", "n") == 1
    with pytest.raises(ResponseError, match="^NOTHELD"):
        client.execute_command("LOCK.GUARD", "k", "b", "INCR", "n")
    assert client.get("n") in ("1", b"1")


def test_info_shows_permits_and_requests_of_waiters(server, actor, client):
    a, b = actor("a"), actor("b")
    assert a.call("LOCK.SEMAPHORE", "k", "oa", 7, "PERMITS", 6, "PX", LONG) == 6
    b.send("LOCK.SEMAPHORE", "k", "ob", 7, "PERMITS", 3, "BLOCK", 0)
    b.wait_blocked()
    info = as_map(client.execute_command("LOCK.INFO", "k"))
    (holder,), (waiter,) = (list(map(as_map, info[name])) for name in ("holders", "waiters"))
    assert info["mode"] == "semaphore" and info["token"] is None
    assert (holder["owner"], holder["mode"], holder["holds"], holder["session"]) == ("oa", "semaphore", 6, None)
    assert 0 < holder["pttl"] <= LONG
    del waiter["waited"]
    expected = {"owner": "ob", "mode": "semaphore", "fair": 0, "client": b.client_id, "left": None}
    assert waiter == expected | {"permits": 3, "limit": 7}
    assert a.call("LOCK.RELEASE", "k", "oa", "PERMITS", 2) == 4
    assert b.reply() == 3
