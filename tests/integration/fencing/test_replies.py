"""FENCED: a token instead of the count, for grants at once, after a wait, and as a re-entry."""

import pytest
from redis.exceptions import ResponseError

from harness import scaled_ms
from model.fenced_scene import TOKEN, begin_to_wait, each_command, take
from model.lock_scene import HOUR

LEASE = scaled_ms(60)


# At once


@each_command
def test_reply_is_a_token_and_not_the_count(client, server, command):
    before = server.now_ms()
    token = take(client, command=command)
    assert before * 1000 <= token <= server.now_ms() * 1000 + 999
    assert client.hgetall(TOKEN) == {"token": str(token), "owner": "o"}


@each_command
def test_option_may_be_at_any_place_and_in_any_case(client, command):
    tokens = [
        client.execute_command(command, "k1", "o", "fenced", "PX", HOUR, "BLOCK", 0),
        client.execute_command(command, "k2", "o", "PX", HOUR, "FeNcEd", "BLOCK", 0),
        client.execute_command(command, "k3", "o", "EX", 60, "BLOCK", 0, "FENCED"),
    ]
    assert min(tokens) > 10**15
    assert client.pttl("k2") > HOUR - 60_000


SYNTAX = {
    "RWREAD": "LOCK.RWREAD k o FENCED",
    "RWREAD, blocking": "LOCK.RWREAD k o BLOCK 0 FENCED PX 1000",
    "twice": "LOCK.ACQUIRE k o FENCED FENCED",
    "twice, not adjacent": "LOCK.FAIR k o FENCED PX 1000 fenced",
    "twice, write": "LOCK.RWWRITE k o FENCED BLOCK 0 FENCED",
    "in the place of a number": "LOCK.ACQUIRE k o PX FENCED",
    "RENEW": "LOCK.RENEW k o FENCED",
    "RENEW PX": "LOCK.RENEW k o PX 1000 FENCED",
    "RELEASE": "LOCK.RELEASE k o FENCED",
}


@pytest.mark.parametrize("command", SYNTAX.values(), ids=SYNTAX)
def test_option_is_a_syntax_error_where_it_does_not_belong(client, server, command):
    with pytest.raises(ResponseError, match="^ERR "):
        client.execute_command(*command.split())
    assert server.dump() == {}


@each_command
def test_acquisition_that_fails_makes_no_token(client, command):
    client.execute_command("LOCK.ACQUIRE", "k", "other")
    for block in ((), ("BLOCK", 1)):
        assert client.execute_command(command, "k", "o", "FENCED", *block) is None
    assert client.exists(TOKEN) == 0


def test_hold_count_that_would_overflow_makes_no_token(client, server):
    client.hset("k", "o", 2**31 - 1)
    before = server.dump()
    with pytest.raises(ResponseError, match="^ERR "):
        take(client)
    assert server.dump() == before


def test_unfenced_acquisitions_neither_make_nor_change_a_token(client, server):
    client.execute_command("LOCK.ACQUIRE", "k", "o")
    assert client.exists(TOKEN) == 0
    take(client)
    before = server.dump()[0, TOKEN.encode()]
    assert client.execute_command("LOCK.ACQUIRE", "k", "o") == 3
    assert client.execute_command("LOCK.FORCE", "k") == 1
    assert client.execute_command("LOCK.FAIR", "k", "other") == 1
    assert server.dump()[0, TOKEN.encode()] == before


# Waiters


@each_command
def test_waiters_receive_growing_tokens(client, server, actor, command):
    tokens = [take(client, "o0", command=command)]
    waiters = [begin_to_wait(actor, f"o{n}", "FENCED", command=command) for n in range(1, 5)]
    for n, waiter in enumerate(waiters):
        assert client.execute_command("LOCK.RELEASE", "k", f"o{n}") == 0
        tokens.append(waiter.reply())
        assert client.hgetall(TOKEN) == {"token": str(tokens[-1]), "owner": f"o{n + 1}"}
    assert tokens == sorted(set(tokens)) and tokens[0] > 10**15


@each_command
def test_waiter_granted_by_the_lease_timer_receives_a_token(client, actor, command):
    first = take(client, "o", command=command)
    waiter = begin_to_wait(actor, "w", "FENCED", command=command)
    client.execute_command("LOCK.RENEW", "k", "o", "PX", LEASE)
    assert waiter.reply() > first


def test_waiter_without_the_option_receives_the_count(client, actor):
    first = take(client)
    waiter = begin_to_wait(actor, "w")
    client.execute_command("LOCK.RELEASE", "k", "o")
    assert waiter.reply() == 1
    assert client.hgetall(TOKEN) == {"token": str(first), "owner": "o"}


def test_waiter_granted_by_reentry_receives_its_owners_token(client, actor):
    client.execute_command("LOCK.ACQUIRE", "k", "other")
    one = begin_to_wait(actor, "w", "FENCED")
    two = actor("w again")
    two.send("LOCK.ACQUIRE", "k", "w", "FENCED", "BLOCK", 0)
    two.wait_blocked()
    client.execute_command("LOCK.RELEASE", "k", "other")
    token = one.reply()
    assert token > 10**15
    assert two.reply() == token
    assert client.hgetall("k") == {"w": "2"}


def test_waiter_receives_a_larger_token_if_the_key_has_another_type(client, actor):
    first = take(client)
    waiter = begin_to_wait(actor, "w", "FENCED")
    client.set(TOKEN, "no hash")
    client.execute_command("LOCK.RELEASE", "k", "o")
    assert waiter.reply() > first
    assert client.get(TOKEN) == "no hash"


# Re-entry


@each_command
def test_reentry_by_the_owner_of_the_last_token_keeps_it(client, command):
    token = take(client, command=command)
    assert take(client, command=command) == token
    assert client.execute_command(command, "k", "o") == 3
    assert take(client, command=command) == token
    assert client.hgetall(TOKEN) == {"token": str(token), "owner": "o"}


def test_reentry_of_a_hold_without_a_token_makes_one(client):
    assert client.execute_command("LOCK.ACQUIRE", "k", "o") == 1
    token = take(client)
    assert token > 10**15
    assert take(client) == token


@pytest.mark.parametrize("loss", [f"DEL {TOKEN}", f"HSET {TOKEN} owner other", f"HDEL {TOKEN} owner"])
def test_reentry_makes_a_new_token_if_the_last_may_be_anothers(client, loss):
    token = take(client)
    client.execute_command(*loss.split())
    assert take(client) > token


def test_reentry_by_the_owner_of_an_older_token_makes_a_new_one(client):
    first = take(client, "a")
    client.execute_command("LOCK.RELEASE", "k", "a")
    second = take(client, "b")
    client.execute_command("LOCK.RELEASE", "k", "b")
    assert client.execute_command("LOCK.ACQUIRE", "k", "a") == 1
    assert take(client, "a") > second > first


def test_owner_of_the_last_token_receives_a_new_one_after_a_release(client):
    first = take(client)
    client.execute_command("LOCK.RELEASE", "k", "o")
    assert take(client) > first
