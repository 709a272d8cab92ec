"""LOCK.ACQUIRE: which owner acquires the lock, with which hold count and lease, and what is in the key then."""

import pytest

from harness import scaled_ms, wait_for
from model.lock_scene import BYTES, FOREIGN, HIGHEST_COUNT, HOUR, acquire, end_of, lease


# Which owner acquires it


def test_free_lock_is_acquired(client):
    assert acquire(client, "k", "o") == 1
    assert client.hgetall("k") == {"o": "1"}


def test_held_lock_is_refused_to_another_owner(server, client):
    acquire(client, "k", "o", "PX", HOUR)
    before = server.dump()
    assert acquire(client, "k", "other", "PX", 2 * HOUR) is None
    assert server.dump() == before


def test_reentry_counts_the_holds(client):
    assert [acquire(client, "k", "o") for _ in range(3)] == [1, 2, 3]
    assert client.hgetall("k") == {"o": "3"}


def test_any_connection_may_reenter_for_the_owner(server, client):
    acquire(client, "k", "o")
    assert acquire(server.client(), "k", "o") == 2


def test_lock_is_free_after_its_lease(server, client):
    acquire(client, "k", "o", "PX", scaled_ms(30))
    end = end_of(client)
    wait_for(lambda: server.now_ms() > end, what="the lease to expire")
    assert acquire(client, "k", "other", "PX", HOUR) == 1
    assert client.hgetall("k") == {"other": "1"}


def test_free_lock_is_acquired_without_a_wait_by_a_blocking_request(client):
    assert acquire(client, "k", "o", "BLOCK", 0) == 1
    assert acquire(client, "k", "o", "BLOCK", 1) == 2


def test_not_acquired_is_the_null_of_each_protocol(server):
    server.control.execute_command("LOCK.ACQUIRE", "k", "o")
    sock = server.raw_connection()
    lines = sock.makefile("rb")
    sock.sendall(b"LOCK.ACQUIRE k other\r\n")
    assert lines.readline() == b"$-1\r\n"
    sock.sendall(b"HELLO 3\r\nLOCK.ACQUIRE k other\r\nECHO end\r\n")
    received = iter(lines.readline, b"end\r\n")
    assert list(received)[-2:] == [b"_\r\n", b"$3\r\n"]


def test_same_key_in_two_databases_is_two_locks(server, client):
    elsewhere = server.client(db=5)
    assert acquire(client, "k", "o") == 1
    assert acquire(elsewhere, "k", "other") == 1
    assert (client.hgetall("k"), elsewhere.hgetall("k")) == ({"o": "1"}, {"other": "1"})


def test_hand_off_is_within_one_database(server, actor):
    for db in (0, 5):
        acquire(server.client(db=db), "k", "o")
    here, there = actor("here"), actor("there", db=5)
    for waiter in (here, there):
        waiter.send("LOCK.ACQUIRE", "k", "w", "BLOCK", 0)
        waiter.wait_blocked()
    assert server.client(db=5).execute_command("LOCK.RELEASE", "k", "o") == 0
    assert there.reply() == 1
    server.settle()
    assert here.is_blocked() and not here.has_reply()
    assert server.client(db=0).hgetall("k") == {"o": "1"}


# Leases


@pytest.mark.parametrize(
    "words, ms",
    [(("PX", 12345), 12345), (("EX", 77), 77000), ((), 30000)],
    ids=["px", "ex", "default"],
)
def test_lease_counts_from_now(server, client, words, ms):
    with lease(server, ms):
        assert acquire(client, "k", "o", *words) == 1


def test_default_lease_can_be_changed_at_run_time(server, client):
    client.config_set("lock.default-lease", 4321)
    with lease(server, 4321):
        acquire(client, "k", "o")
    client.config_set("lock.default-lease", HOUR)
    with lease(server, HOUR):
        assert acquire(client, "k", "o") == 2


@pytest.mark.parametrize("words", [("PX", 1000), ("EX", 1), ()], ids=["px", "ex", "default"])
def test_reentry_does_not_shorten_the_lease(client, words):
    acquire(client, "k", "o", "PX", HOUR)
    end = end_of(client)
    assert acquire(client, "k", "o", *words) == 2
    assert end_of(client) == end


@pytest.mark.parametrize(
    "words, ms", [(("PX", HOUR), HOUR), (("EX", 3600), HOUR), ((), 30000)], ids=["px", "ex", "default"]
)
def test_reentry_lengthens_the_lease(server, client, words, ms):
    acquire(client, "k", "o", "PX", 20000)
    with lease(server, ms):
        assert acquire(client, "k", "o", *words) == 2


def test_reentry_gives_no_lease_to_a_lock_without_one(client):
    acquire(client, "k", "o")
    client.persist("k")
    assert acquire(client, "k", "o", "PX", 1000) == 2
    assert end_of(client) == -1


def test_longest_lease_is_accepted(server, client):
    # An hour below the first value that overflows, because time passes meanwhile.
    longest = 2**63 - 1 - server.now_ms() - HOUR
    with lease(server, longest):
        assert acquire(client, "k", "o", "PX", longest) == 1
    with lease(server, longest // 1000 * 1000, "l"):
        assert acquire(client, "l", "o", "EX", longest // 1000) == 1


def test_options_may_be_in_any_order_and_case(server, client):
    with lease(server, 50000):
        assert acquire(client, "k", "o", "bLoCk", 5, "pX", 50000) == 1
    with lease(server, 60000):
        assert acquire(client, "k", "o", "ex", 60, "block", 5) == 2


# Names


@pytest.mark.parametrize("name", BYTES.values(), ids=BYTES)
def test_owners_and_keys_may_be_any_bytes(server, resp, name):
    client = server.client(resp, decode_responses=False)
    assert acquire(client, name, name) == 1
    assert acquire(client, name, name) == 2
    assert acquire(client, name, name + b"x" if len(name) < 512 else b"x") is None
    assert client.hgetall(name) == {name: b"2"}
    assert [client.execute_command("LOCK.RELEASE", name, name) for _ in range(2)] == [1, 0]
    assert client.dbsize() == 0


def test_empty_key_is_a_key(client):
    assert acquire(client, "", "o") == 1
    assert client.hgetall("") == {"o": "1"}


# Keys that another client wrote


def test_redissons_lock_is_a_lock(client):
    redisson = "285475da-9152-4c83-822a-67ee2f116a79:52"
    client.hset("k", redisson, 2)
    client.pexpire("k", HOUR)
    assert acquire(client, "k", "o") is None
    assert acquire(client, "k", redisson) == 3
    assert client.hgetall("k") == {redisson: "3"}


def test_hold_count_stops_at_its_limit(server, client):
    client.hset("k", "o", HIGHEST_COUNT - 1)
    client.pexpire("k", HOUR)
    assert acquire(client, "k", "o") == HIGHEST_COUNT
    before = server.dump()
    with pytest.raises(Exception, match="^ERR hold count"):
        acquire(client, "k", "o", "PX", 2 * HOUR)
    assert server.dump() == before
    assert acquire(client, "k", "other") is None
    assert client.execute_command("LOCK.RELEASE", "k", "o") == HIGHEST_COUNT - 1


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_foreign_hash_is_held_by_another_owner(server, client, content):
    client.hset("k", mapping=content)
    before = server.dump()
    assert acquire(client, "k", "o") is None
    assert acquire(client, "k", "p") is None
    assert server.dump() == before


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_foreign_hash_is_waited_for(server, actor, content):
    server.control.hset("k", mapping=content)
    waiter = actor()
    waiter.send("LOCK.ACQUIRE", "k", "o", "BLOCK", 0)
    waiter.wait_blocked()
    server.control.delete("k")
    assert waiter.reply() == 1
    assert server.control.hgetall("k") == {"o": "1"}
