"""LOCK.RELEASE: releases one hold; the last one frees the lock and hands it off."""

import pytest
from redis.exceptions import ResponseError

from harness import scaled_ms, wait_for
from model.lock_scene import FOREIGN, HIGHEST_COUNT, HOUR, acquire, end_of, lease


def release(client, key="k", owner="o"):
    return client.execute_command("LOCK.RELEASE", key, owner)


def assert_not_held(server, client, owner="o"):
    before = server.dump()
    with pytest.raises(ResponseError, match="^NOTHELD "):
        release(client, "k", owner)
    assert server.dump() == before


def test_only_hold_frees_the_lock(client):
    acquire(client, "k", "o")
    assert release(client) == 0
    assert client.dbsize() == 0


def test_each_release_releases_one_hold(client):
    for _ in range(3):
        acquire(client, "k", "o")
    assert release(client) == 2
    assert client.hgetall("k") == {"o": "2"}
    assert [release(client), release(client)] == [1, 0]
    assert client.dbsize() == 0


def test_lease_of_the_remaining_holds_is_unchanged(client):
    acquire(client, "k", "o", "PX", HOUR)
    acquire(client, "k", "o")
    end = end_of(client)
    assert release(client) == 1
    assert end_of(client) == end


def test_lock_without_lease_is_released(client):
    acquire(client, "k", "o")
    acquire(client, "k", "o")
    client.persist("k")
    assert release(client) == 1
    assert end_of(client) == -1
    assert release(client) == 0
    assert client.dbsize() == 0


def test_any_connection_may_release_for_the_owner(server, client):
    acquire(client, "k", "o")
    assert release(server.client()) == 0


def test_released_lock_is_free_for_all(client):
    acquire(client, "k", "o")
    release(client)
    assert acquire(client, "k", "other") == 1


def test_same_key_in_another_database_is_another_lock(server, client):
    acquire(client, "k", "o")
    assert_not_held(server, server.client(db=3))
    acquire(server.client(db=3), "k", "o")
    assert release(server.client(db=3)) == 0
    assert client.hgetall("k") == {"o": "1"}


# Owners without a hold


def test_free_lock_is_not_held(server, client):
    assert_not_held(server, client)


def test_lock_of_another_owner_is_not_held(server, client):
    acquire(client, "k", "other")
    assert_not_held(server, client)


def test_released_lock_is_not_held(server, client):
    acquire(client, "k", "o")
    release(client)
    assert_not_held(server, client)


def test_forced_lock_is_not_held(server, client):
    acquire(client, "k", "o")
    client.execute_command("LOCK.FORCE", "k")
    assert_not_held(server, client)


def test_deleted_lock_is_not_held(server, client):
    acquire(client, "k", "o")
    client.delete("k")
    assert_not_held(server, client)


def test_lock_whose_lease_has_expired_is_not_held(server, client):
    acquire(client, "k", "o", "PX", scaled_ms(30))
    end = end_of(client)
    wait_for(lambda: server.now_ms() > end, what="the lease to expire")
    assert_not_held(server, client)


def test_owner_that_only_waits_holds_nothing(server, client, actor):
    acquire(client, "k", "other")
    waiter = actor()
    waiter.send("LOCK.ACQUIRE", "k", "o", "BLOCK", 0)
    waiter.wait_blocked()
    assert_not_held(server, client)
    assert waiter.is_blocked()


@pytest.mark.parametrize(
    "held, other",
    [(b"own", b"owner"), (b"owner", b"own"), (b"o", b"O"), (b"o\0a", b"o\0b"), (b"o", b"o\0"), (b"1", b"01")],
)
def test_owner_with_a_similar_name_holds_nothing(server, resp, held, other):
    client = server.client(resp, decode_responses=False)
    acquire(client, "k", held)
    assert_not_held(server, client, other)


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_foreign_hash_is_not_held_by_any_owner(server, client, content):
    client.hset("k", mapping=content)
    assert_not_held(server, client)


# Holds that another client wrote


def test_holds_that_redisson_wrote_are_released(client):
    client.hset("k", "uuid:1", 2)
    client.pexpire("k", HOUR)
    assert release(client, "k", "uuid:1") == 1
    assert client.hgetall("k") == {"uuid:1": "1"}
    assert release(client, "k", "uuid:1") == 0
    assert client.dbsize() == 0


def test_release_from_the_highest_hold_count(client):
    client.hset("k", "o", HIGHEST_COUNT)
    assert release(client) == HIGHEST_COUNT - 1


# Handing off


@pytest.fixture
def waiter(server, actor):
    """A client that waits as `w`, with its own lease, for the lock that `o` holds twice."""
    for _ in range(2):
        acquire(server.control, "k", "o")
    waiter = actor("waiter")
    waiter.send("LOCK.ACQUIRE", "k", "w", "PX", HOUR, "BLOCK", 0)
    return waiter.wait_blocked()


def test_release_of_one_of_several_holds_grants_nothing(server, resp, waiter):
    assert release(server.control) == 1
    server.settle()
    assert waiter.is_blocked()


def test_last_release_hands_the_lock_to_the_waiter(server, resp, waiter):
    release(server.control)
    with lease(server, HOUR):
        assert release(server.control) == 0
        assert server.control.hgetall("k") == {"w": "1"}
    assert waiter.reply() == 1
    assert release(server.control, "k", "w") == 0


def test_no_command_is_executed_between_release_and_grant(server, waiter):
    # All in one packet: the server reads the next command before it sleeps.
    sock = server.raw_connection()
    sock.sendall(b"LOCK.RELEASE k o\r\nLOCK.RELEASE k o\r\nLOCK.ACQUIRE k o\r\nLOCK.ACQUIRE k third\r\n")
    lines = sock.makefile("rb")
    assert [lines.readline() for _ in range(4)] == [b":1\r\n", b":0\r\n", b"$-1\r\n", b"$-1\r\n"]
    assert waiter.reply() == 1
