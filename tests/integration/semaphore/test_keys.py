"""The key is the truth: what another client writes to it changes the semaphore, whatever sum the module remembers."""

import pytest

from harness import scaled_ms, wait_for
from model.semaphore_scene import LEASES, LONG, permits_of

SHORT = scaled_ms(100)


def take(server, owner, limit, permits=1, *more):
    return server.control.execute_command("LOCK.SEMAPHORE", "k", owner, limit, "PERMITS", permits, "PX", LONG, *more)


def room_for(server, permits, taken):
    """Asserts that exactly `taken` permits are held."""
    assert take(server, "probe", taken + permits - 1, permits) is None
    assert take(server, "probe", taken + permits, permits) == permits
    assert server.control.execute_command("LOCK.RELEASE", "k", "probe", "PERMITS", permits) == 0


@pytest.fixture(params=[3, 40], ids=["few", "many"])
def owners(server, request):
    """Few or many owners with two permits each; the module knows the sum."""
    for number in range(request.param):
        assert take(server, f"o{number}", 1000, 2) == 2
    room_for(server, 1, 2 * request.param)
    return request.param


def test_key_has_a_mode_and_a_field_for_each_owner(server):
    take(server, "a", 5, 2)
    take(server, "b", 5)
    assert server.control.hgetall("k") == {"mode": "semaphore", "a": "2", "b": "1"}
    assert set(server.control.zrange(LEASES, 0, -1)) == {"a", "b"}


DIRECT_CHANGES = {
    "HDEL": (["HDEL k o0"], -2),
    "HINCRBY": (["HINCRBY k o0 5"], 5),
    "HINCRBY down": (["HINCRBY k o0 -1"], -1),
    "HSET": (["HSET k o0 7"], 5),
    "HSET of another owner": (["HSET k new 3"], 3),
    "as many fields as before": (["HDEL k o0", "HSET k new 9"], 7),
    "in a script": (["EVAL return{redis.call('HINCRBY','k','o0',4)} 0"], 4),
    "leases": ([f"DEL {LEASES}"], 0),
    "TTL": (["PEXPIRE k 500000"], 0),
    "away and back": (["RENAME k x", "RENAME x k"], 0),
    "copied over": (["HSET x mode semaphore a 1 b 1", "COPY x k REPLACE"], None),
    "another in its place": (["DEL k", "HSET k mode semaphore a 5"], None),
    "to another database and back": (["SWAPDB 0 1", "SWAPDB 0 1"], 0),
}


@pytest.mark.parametrize("commands, change", DIRECT_CHANGES.values(), ids=DIRECT_CHANGES)
def test_sum_follows_direct_changes_of_the_key(server, owners, commands, change):
    for command in commands:
        server.control.execute_command(*command.split())
    fields = server.control.hgetall("k")
    taken = sum(int(count) for field, count in fields.items() if field != "mode")
    assert change is None or taken == 2 * owners + change
    room_for(server, 1, taken)
    room_for(server, 3, taken)


def test_sums_of_swapped_databases_are_not_confused(server, owners):
    other = server.client(db=1)
    for number in range(owners):
        other.execute_command("LOCK.SEMAPHORE", "k", f"o{number}", 1000, "PERMITS", 5, "PX", LONG)
    server.control.execute_command("SWAPDB", 0, 1)
    room_for(server, 1, 5 * owners)


def test_sum_is_correct_after_a_flush(server, owners):
    server.control.flushall()
    for number in range(owners):
        take(server, f"p{number}", 1000, 1)
    room_for(server, 1, owners)


@pytest.mark.parametrize("value", ["x", "0", "-1", str(2**31), "1.5", ""])
def test_value_that_is_no_number_counts_as_all_permits(server, owners, value):
    server.control.hset("k", "o0", value)
    assert take(server, "a", 2**31 - 1) is None
    assert take(server, "o0", 2**31 - 1) is None
    server.control.hdel("k", "o0")
    room_for(server, 1, 2 * (owners - 1))


def test_semaphore_with_only_a_mode_is_free(server):
    take(server, "a", 1)
    server.control.hdel("k", "a")
    assert server.control.execute_command("LOCK.INFO", "k") is None
    assert server.control.execute_command("LOCK.FORCE", "k") == 0
    assert take(server, "b", 1) == 1


def test_direct_change_grants_a_waiter(server, actor, owners):
    taken, waiter = 2 * owners, actor("w")
    waiter.send("LOCK.SEMAPHORE", "k", "w", taken, "PERMITS", 2, "BLOCK", 0)
    waiter.wait_blocked()
    server.control.hincrby("k", "o1", -1)
    server.settle()
    assert not waiter.has_reply()
    server.control.hincrby("k", "o2", -1)
    assert waiter.reply() == 2
    assert sum(permits_of(server).values()) == taken


# Leases that expire


def test_release_and_renew_after_the_lease_are_refused(server):
    take(server, "b", 9)
    server.control.execute_command("LOCK.SEMAPHORE", "k", "a", 9, "PX", SHORT)
    wait_for(lambda: "a" not in permits_of(server), what="the lease to expire")
    a = server.actor("a")
    for words in ("RELEASE k a", "RENEW k a", "GUARD k a EXISTS k"):
        assert str(a.attempt(*f"LOCK.{words}".split())).startswith("NOTHELD")
    assert take(server, "a", 9, 4) == 4


def test_owner_has_one_lease_that_is_never_shortened(server):
    control = server.control
    control.execute_command("LOCK.SEMAPHORE", "k", "a", 9, "PX", LONG)
    control.execute_command("LOCK.SEMAPHORE", "k", "b", 9, "PX", LONG)
    end = control.zscore(LEASES, "a")
    control.execute_command("LOCK.SEMAPHORE", "k", "a", 9, "PX", 1000)
    assert control.zscore(LEASES, "a") == end
    control.execute_command("LOCK.SEMAPHORE", "k", "a", 9, "PX", 2 * LONG)
    assert control.zscore(LEASES, "a") > end
    assert control.execute_command("PEXPIRETIME", "k") == control.zscore(LEASES, "a")
