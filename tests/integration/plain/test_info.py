"""LOCK.INFO: the holders and the waiters of a lock, the same by both protocols, and on replicas."""

import pytest

from harness import scaled_ms, wait_for, wait_for_sync
from harness.schedule import as_map
from model.lock_scene import BYTES, FOREIGN, HIGHEST_COUNT, HOUR, acquire, end_of

FIELDS = ["mode", "holders", "waiting", "waiters", "token", "watchers"]
HOLDER_FIELDS = ["owner", "mode", "holds", "pttl", "session", "unconfirmed"]
WAITER_FIELDS = ["owner", "mode", "fair", "client", "waited", "left"]


def info(client, *words):
    """The reply as a dict, its holders and waiters too; checks the names of the fields."""
    reply = client.execute_command("LOCK.INFO", *words)
    if reply is None:
        return None
    found = as_map(reply)
    assert list(found) == FIELDS
    for name, fields in (("holders", HOLDER_FIELDS), ("waiters", WAITER_FIELDS)):
        found[name] = [as_map(entry) for entry in found[name]]
        assert all(list(entry) == fields for entry in found[name])
    return found


@pytest.fixture
def wait_as(actor):
    def wait(owner, *words):
        waiter = actor(owner)
        waiter.send("LOCK.ACQUIRE", "k", owner, *(words or ("BLOCK", 0)))
        return waiter.wait_blocked()

    return wait


def test_free_lock_is_null(client):
    assert info(client, "k") is None


def test_lock_after_its_lease_is_null(server, client):
    acquire(client, "k", "o", "PX", scaled_ms(30))
    end = end_of(client)
    wait_for(lambda: server.now_ms() > end, what="the lease to expire")
    assert info(client, "k") is None


def test_reply_is_a_map_or_its_flat_array(server):
    acquire(server.control, "k", "o")
    sock = server.raw_connection()
    lines = sock.makefile("rb")
    sock.sendall(b"LOCK.INFO k\r\n")
    assert lines.readline() == b"*12\r\n"
    three = server.raw_connection()
    three.sendall(b"HELLO 3\r\nECHO end\r\nLOCK.INFO k\r\n")
    lines = three.makefile("rb")
    list(iter(lines.readline, b"end\r\n"))
    assert lines.readline() == b"%6\r\n"


def test_held_lock_is_shown(server, client):
    acquire(client, "k", "o", "PX", HOUR)
    acquire(client, "k", "o")
    end = end_of(client)
    longest = end - server.now_ms()
    found = info(client, "k")
    pttl = found["holders"][0].pop("pttl")
    assert end - server.now_ms() <= pttl <= longest
    assert found == {
        "mode": "exclusive",
        "holders": [{"owner": "o", "mode": "exclusive", "holds": 2, "session": None, "unconfirmed": None}],
        "waiting": 0,
        "waiters": [],
        "token": None,
        "watchers": 0,
    }


def test_numbers_are_integers(client, wait_as):
    acquire(client, "k", "o")
    wait_as("w", "BLOCK", HOUR)
    found = info(client, "k")
    numbers = [found["waiting"], found["holders"][0]["holds"], found["holders"][0]["pttl"]]
    numbers += [found["waiters"][0][name] for name in ("fair", "client", "waited", "left")]
    assert [type(number) for number in numbers] == [int] * 7


def test_pttl_of_a_lock_without_lease_is_minus_1(client):
    acquire(client, "k", "o")
    client.persist("k")
    assert info(client, "k")["holders"][0]["pttl"] == -1


def test_highest_hold_count_is_shown(client):
    client.hset("k", "o", HIGHEST_COUNT)
    assert info(client, "k")["holders"][0]["holds"] == HIGHEST_COUNT


def test_holder_that_redisson_wrote_is_shown(client):
    client.hset("k", "uuid:1", 2)
    assert info(client, "k")["holders"] == [
        {"owner": "uuid:1", "mode": "exclusive", "holds": 2, "pttl": -1, "session": None, "unconfirmed": None}
    ]


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_foreign_hash_has_no_known_holders(client, content):
    client.hset("k", mapping=content)
    assert info(client, "k") == {
        "mode": "exclusive",
        "holders": [],
        "waiting": 0,
        "waiters": [],
        "token": None,
        "watchers": 0,
    }


@pytest.mark.parametrize("name", BYTES.values(), ids=BYTES)
def test_owners_may_be_any_bytes(server, resp, name):
    client = server.client(resp, decode_responses=False)
    acquire(client, name, name)
    waiter = server.actor()
    waiter.send("LOCK.ACQUIRE", name, b"w" + name[:511], "BLOCK", 0)
    waiter.wait_blocked()
    reply = as_map(client.execute_command("LOCK.INFO", name))
    assert as_map(reply[b"holders"][0])[b"owner"] == name
    assert as_map(reply[b"waiters"][0])[b"owner"] == b"w" + name[:511]


# Waiters


def test_waiter_without_a_timeout_is_shown(server, client, wait_as):
    acquire(client, "k", "o")
    waiter = wait_as("w")
    before = server.now_ms()
    found = info(client, "k")
    waited = found["waiters"][0].pop("waited")
    assert found["waiting"] == 1
    assert found["waiters"] == [
        {"owner": "w", "mode": "exclusive", "fair": 0, "client": waiter.client_id, "left": None}
    ]
    assert 0 <= waited
    wait_for(lambda: info(client, "k")["waiters"][0]["waited"] >= waited + 5, what="the wait to grow")
    assert server.now_ms() >= before + 5


def test_waiter_with_a_timeout_shows_the_time_left(server, client, wait_as):
    acquire(client, "k", "o")
    wait_as("w", "BLOCK", HOUR)
    waiter = info(client, "k")["waiters"][0]
    assert waiter["waited"] + waiter["left"] == HOUR


def test_waiters_are_shown_in_order_of_arrival(client, wait_as):
    acquire(client, "k", "o")
    owners = [f"w{i}" for i in range(5)]
    clients = [wait_as(owner).client_id for owner in owners]
    found = info(client, "k")
    assert [waiter["owner"] for waiter in found["waiters"]] == owners
    assert [waiter["client"] for waiter in found["waiters"]] == clients
    client.execute_command("LOCK.RELEASE", "k", "o")
    found = info(client, "k")
    assert found["holders"][0]["owner"] == "w0"
    assert [waiter["owner"] for waiter in found["waiters"]] == owners[1:]


@pytest.mark.parametrize(
    "words, shown",
    [((), 10), (("COUNT", 0), 0), (("count", 3), 3), (("COUNT", 12), 12), (("COUNT", 2**63 - 1), 12)],
    ids=["default", "none", "some", "all", "highest"],
)
def test_count_limits_the_waiters_that_are_shown_not_their_number(client, wait_as, words, shown):
    acquire(client, "k", "o")
    owners = [f"w{i}" for i in range(12)]
    for owner in owners:
        wait_as(owner)
    found = info(client, "k", *words)
    assert found["waiting"] == 12
    assert [waiter["owner"] for waiter in found["waiters"]] == owners[:shown]


def test_waiters_of_other_keys_and_databases_are_not_shown(server, client, wait_as):
    acquire(client, "k", "o")
    acquire(client, "l", "o")
    acquire(server.client(db=2), "k", "o")
    wait_as("w")
    assert info(client, "l")["waiting"] == 0
    assert info(server.client(db=2), "k")["waiting"] == 0


# It changes nothing


def test_nothing_is_changed(server, client, wait_as):
    acquire(client, "k", "o")
    wait_as("w")
    before, changes = server.dump(), server.info("persistence")["rdb_changes_since_last_save"]
    info(client, "k")
    info(client, "free")
    assert server.dump() == before
    assert server.info("persistence")["rdb_changes_since_last_save"] == changes


def test_replica_shows_holders_only(make_server, resp):
    master = make_server()
    replica = master.start_replica()
    acquire(master.control, "k", "o", "PX", HOUR)
    acquire(master.control, "short", "o", "PX", scaled_ms(30))
    waiter = master.actor()
    waiter.send("LOCK.ACQUIRE", "k", "w", "BLOCK", 0)
    waiter.wait_blocked()
    wait_for_sync(master, replica)
    reader = replica.client(resp)
    # Waits are in the memory of the master: a replica shows holders only.
    found = info(reader, "k", "COUNT", 5)
    assert found["mode"] == "exclusive"
    assert [holder["owner"] for holder in found["holders"]] == ["o"]
    assert 0 < found["holders"][0]["pttl"] <= HOUR
    assert (found["waiting"], found["waiters"]) == (0, [])
    wait_for(lambda: info(reader, "short") is None, what="the short lease to expire on the replica")
