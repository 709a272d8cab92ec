"""LOCK.RENEW: a new lease from now on, longer or shorter, for the holds of the owner."""

import pytest
from redis.exceptions import ResponseError

from harness import scaled_ms, wait_for
from model.lock_scene import FOREIGN, HOUR, acquire, end_of, lease


def renew(client, *words):
    return client.execute_command("LOCK.RENEW", *words)


@pytest.mark.parametrize("old", [20000, HOUR], ids=["lengthens", "shortens"])
@pytest.mark.parametrize(
    "words, ms", [(("PX", 25000), 25000), (("ex", 25), 25000), ((), 30000)], ids=["px", "ex", "default"]
)
def test_lease_counts_from_now(server, client, old, words, ms):
    acquire(client, "k", "o", "PX", old)
    with lease(server, ms):
        assert renew(client, "k", "o", *words) == 1


def test_default_lease_can_be_changed_at_run_time(server, client):
    acquire(client, "k", "o")
    client.config_set("lock.default-lease", 4321)
    with lease(server, 4321):
        assert renew(client, "k", "o") == 1


def test_hold_count_is_unchanged_and_replied(client):
    for _ in range(3):
        acquire(client, "k", "o")
    assert renew(client, "k", "o", "PX", HOUR) == 3
    assert client.hgetall("k") == {"o": "3"}


def test_lock_without_lease_gets_one(server, client):
    acquire(client, "k", "o")
    client.persist("k")
    with lease(server, HOUR):
        assert renew(client, "k", "o", "PX", HOUR) == 1


def test_hold_that_redisson_wrote_is_renewed(server, client):
    client.hset("k", "uuid:1", 2)
    with lease(server, HOUR):
        assert renew(client, "k", "uuid:1", "PX", HOUR) == 2


def test_longest_lease_is_accepted(server, client):
    longest = 2**63 - 1 - server.now_ms() - HOUR
    acquire(client, "k", "o")
    with lease(server, longest):
        assert renew(client, "k", "o", "PX", longest) == 1


# Owners without a hold


def assert_not_held(server, client):
    before = server.dump()
    with pytest.raises(ResponseError, match="^NOTHELD "):
        renew(client, "k", "o", "PX", 2 * HOUR)
    assert server.dump() == before


def test_free_lock_is_not_held(server, client):
    assert_not_held(server, client)


def test_lock_of_another_owner_is_not_held(server, client):
    acquire(client, "k", "other")
    assert_not_held(server, client)


def test_lock_in_another_database_is_not_held(server, client):
    acquire(server.client(db=1), "k", "o")
    assert_not_held(server, client)


def test_lock_whose_lease_has_expired_is_not_held(server, client):
    acquire(client, "k", "o", "PX", scaled_ms(30))
    end = end_of(client)
    wait_for(lambda: server.now_ms() > end, what="the lease to expire")
    assert_not_held(server, client)


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_foreign_hash_is_not_held_by_any_owner(server, client, content):
    client.hset("k", mapping=content)
    assert_not_held(server, client)


# While a client waits


def test_waiter_waits_for_the_new_longer_lease(server, actor, at_once):
    acquire(server.control, "k", "o", "PX", HOUR)
    waiter = actor()
    waiter.send("LOCK.ACQUIRE", "k", "w", "BLOCK", 0)
    waiter.wait_blocked()
    renewals = [f"LOCK.RENEW k o PX {ms}" for ms in (scaled_ms(300), HOUR)]
    _, first_end, _ = at_once(renewals[0], "PEXPIRETIME k", renewals[1])
    wait_for(lambda: server.now_ms() > first_end, what="the end of the first lease to pass")
    server.settle()
    assert waiter.is_blocked()
    assert server.control.hgetall("k") == {"o": "1"}


def test_waiter_is_granted_at_the_end_of_the_new_shorter_lease(server, actor):
    acquire(server.control, "k", "o", "PX", HOUR)
    waiter = actor()
    waiter.send("LOCK.ACQUIRE", "k", "w", "BLOCK", 0)
    waiter.wait_blocked()
    end = server.now_ms() + scaled_ms(100)
    renew(server.control, "k", "o", "PX", scaled_ms(100))
    assert waiter.reply() == 1
    assert server.now_ms() >= end
