"""LOCK.FORCE frees a lock, whoever holds it; LOCK.CANCEL ends the waits of an owner."""

import pytest

from harness import scaled_ms, wait_for
from model.lock_scene import FOREIGN, HOUR, acquire, end_of


def force(client, key="k"):
    return client.execute_command("LOCK.FORCE", key)


def cancel(client, owner, key="k"):
    return client.execute_command("LOCK.CANCEL", key, owner)


@pytest.fixture
def wait_as(server, actor):
    """wait_as("w"): a client that waits as `w` for `k`, without a timeout."""

    def wait(owner, **options):
        waiter = actor(owner, **options)
        waiter.send("LOCK.ACQUIRE", "k", owner, "BLOCK", 0)
        return waiter.wait_blocked()

    return wait


# LOCK.FORCE


def test_forced_lock_is_free(client):
    acquire(client, "k", "o")
    assert force(client) == 1
    assert client.dbsize() == 0
    assert acquire(client, "k", "other") == 1


def test_all_holds_are_forced(client):
    acquire(client, "k", "o")
    acquire(client, "k", "o")
    assert force(client) == 1
    assert client.dbsize() == 0


def test_free_lock_is_not_forced(client):
    assert force(client) == 0
    assert client.dbsize() == 0


def test_lock_after_its_lease_is_not_forced(server, client):
    acquire(client, "k", "o", "PX", scaled_ms(30))
    end = end_of(client)
    wait_for(lambda: server.now_ms() > end, what="the lease to expire")
    assert force(client) == 0


def test_lock_of_another_database_is_not_forced(server, client):
    acquire(client, "k", "o")
    assert force(server.client(db=1)) == 0
    assert client.hgetall("k") == {"o": "1"}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_foreign_hash_is_forced(client, content):
    client.hset("k", mapping=content)
    assert force(client) == 1
    assert client.dbsize() == 0


def test_forced_lock_is_handed_off(server, client, wait_as):
    acquire(client, "k", "o", "PX", HOUR)
    first, second = wait_as("w1"), wait_as("w2")
    assert force(client) == 1
    assert client.hgetall("k") == {"w1": "1"}
    assert first.reply() == 1
    assert force(client) == 1
    assert second.reply() == 1
    assert force(client) == 1
    assert client.dbsize() == 0


def test_forced_foreign_hash_is_handed_off(client, wait_as):
    client.hset("k", mapping={"mode": "read", "o": 1})
    waiter = wait_as("w")
    assert force(client) == 1
    assert waiter.reply() == 1


# LOCK.CANCEL


def test_cancelled_wait_gets_null(server, client, wait_as):
    acquire(client, "k", "o")
    waiter = wait_as("w")
    before = server.dump()
    assert cancel(client, "w") == 1
    assert waiter.reply() is None
    assert cancel(client, "w") == 0
    assert server.dump() == before
    assert server.info("lock")["lock_waiters"] == 0


def test_client_of_a_cancelled_wait_may_continue(client, wait_as):
    acquire(client, "k", "o")
    waiter = wait_as("w")
    cancel(client, "w")
    assert waiter.reply() is None
    client.execute_command("LOCK.RELEASE", "k", "o")
    assert waiter.call("LOCK.ACQUIRE", "k", "w") == 1


def test_all_waits_of_the_owner_are_cancelled(server, client, wait_as):
    acquire(client, "k", "o")
    cancelled = [wait_as("w") for _ in range(3)]
    other = wait_as("other")
    assert cancel(client, "w") == 1
    assert [waiter.reply() for waiter in cancelled] == [None, None, None]
    server.settle()
    assert other.is_blocked()
    assert client.execute_command("LOCK.RELEASE", "k", "o") == 0
    assert other.reply() == 1


@pytest.mark.parametrize("position", [0, 1, 2], ids=["first", "middle", "last"])
def test_other_waiters_keep_their_order(client, wait_as, position):
    acquire(client, "k", "o")
    waiters = {owner: wait_as(owner) for owner in ("w0", "w1", "w2")}
    assert cancel(client, f"w{position}") == 1
    assert waiters.pop(f"w{position}").reply() is None
    holder = "o"
    for owner, waiter in waiters.items():
        client.execute_command("LOCK.RELEASE", "k", holder)
        assert waiter.reply() == 1
        holder = owner


def test_cancel_without_a_wait_changes_nothing(client):
    assert cancel(client, "w") == 0
    acquire(client, "k", "o")
    assert cancel(client, "o") == 0
    assert cancel(client, "w") == 0
    assert client.hgetall("k") == {"o": "1"}


@pytest.mark.parametrize(
    "key, owner, db",
    [("other", "w", 0), ("k", "w", 1), ("k", "W", 0), ("k", "w\0", 0), ("k", "o", 0)],
    ids=["key", "database", "case", "bytes", "holder"],
)
def test_wait_of_another_owner_or_key_continues(server, client, wait_as, key, owner, db):
    acquire(client, "k", "o")
    waiter = wait_as("w")
    assert cancel(server.client(db=db), owner, key) == 0
    server.settle()
    assert waiter.is_blocked()


def test_owner_with_zero_bytes_is_cancelled(server, client, actor):
    acquire(client, "k", "o")
    waiter = actor()
    waiter.send("LOCK.ACQUIRE", "k", b"\0w\0", "BLOCK", 0)
    waiter.wait_blocked()
    assert cancel(client, b"\0w") == 0
    assert cancel(client, b"\0w\0") == 1
    assert waiter.reply() is None


def test_wait_is_cancelled_although_the_key_is_no_lock_any_more(server, client, wait_as):
    acquire(client, "k", "o")
    waiter = wait_as("w")
    client.set("k", "a text")
    assert cancel(client, "w") == 1
    assert waiter.reply() is None
    assert client.get("k") == "a text"
