"""Permits whose leases have expired are free; they are removed when they are needed or a client waits."""

import pytest

from harness import scaled, wait_for
from model.semaphore_scene import LEASES, LONG, permits_of

MANY = 10_000


@pytest.fixture
def server(clock, make_server):
    return make_server()


@pytest.fixture
def now_it_is(clock, server):
    """now_it_is(ms): moves the clocks to this time after the start of the test; what is due then has happened."""
    return lambda ms: clock.advance(server, ms / 1000)


def take(server, owner, limit, permits=1, lease=LONG):
    words = ("LOCK.SEMAPHORE", "k", owner, limit, "PERMITS", permits, "PX", lease)
    return server.control.execute_command(*words)


def room_for(server, permits, taken):
    """Asserts that exactly `taken` permits are held."""
    assert take(server, "probe", taken + permits - 1, permits, 9 * LONG) is None
    assert take(server, "probe", taken + permits, permits, 9 * LONG) == permits
    assert server.control.execute_command("LOCK.RELEASE", "k", "probe", "PERMITS", permits) == 0


def fill(server, count, lease):
    pipeline = server.control.pipeline(transaction=False)
    for number in range(count):
        pipeline.execute_command("LOCK.SEMAPHORE", "k", f"o{number}", MANY, "PX", lease)
    assert pipeline.execute() == [1] * count


@pytest.mark.parametrize("others", [1, 40])
def test_permits_whose_lease_has_expired_are_free(server, now_it_is, others):
    for number in range(others):
        take(server, f"o{number}", 1000, 2)
    for number in range(100):
        assert take(server, f"short{number}", 1000, lease=LONG // 2) == 1
    room_for(server, 1, 2 * others + 100)
    now_it_is(LONG * 3 // 4)
    assert permits_of(server).keys() == {f"o{number}" for number in range(others)}
    room_for(server, 1, 2 * others)
    room_for(server, 90, 2 * others)


def test_lease_of_a_hold_that_was_removed_directly_expires(server, now_it_is):
    """Its lease is still in the sorted set, and is processed when there are not enough permits."""
    take(server, "stays", 9, lease=9 * LONG)
    take(server, "gone", 9)
    take(server, "other", 9)
    server.control.hdel("k", "gone")
    now_it_is(2 * LONG)
    room_for(server, 8, 1)
    assert server.control.zrange(LEASES, 0, -1) == ["stays"]


def test_expired_permits_do_not_accumulate(server, now_it_is):
    """Owners that never return, with a limit that is never reached."""
    take(server, "stays", MANY, lease=99 * LONG)
    for day in range(5):
        for number in range(60):
            take(server, f"{day}-{number}", MANY, lease=LONG)
        now_it_is((day + 1) * 2 * LONG)
    assert server.control.hlen("k") < 150


def test_thousands_of_leases_that_expire_at_once_grant_the_waiters(server, actor, now_it_is):
    """As many expired holds are removed as are needed, and the rest in time slices."""
    fill(server, 5_000, LONG // 2)
    take(server, "stays", MANY, lease=2 * LONG)
    one, all_but_one = actor("one"), actor("all")
    one.send("LOCK.SEMAPHORE", "k", "one", 5_001, "PX", 2 * LONG, "BLOCK", 0)
    one.wait_blocked()
    all_but_one.send("LOCK.SEMAPHORE", "k", "all", 5_001, "PERMITS", 4_999, "PX", 2 * LONG, "BLOCK", 0)
    all_but_one.wait_blocked()
    now_it_is(LONG)
    assert one.reply(timeout=scaled(20)) == 1
    assert all_but_one.reply(timeout=scaled(20)) == 4_999
    assert server.control.hgetall("k") == {"mode": "semaphore", "stays": "1", "one": "1", "all": "4999"}


@pytest.mark.parametrize("expired", [300, 3000])
def test_waiter_of_another_kind_is_granted_when_all_have_ended(server, actor, now_it_is, expired):
    fill(server, expired, LONG // 2)
    take(server, "last", MANY)
    plain = actor("plain")
    plain.send("LOCK.ACQUIRE", "k", "plain", "PX", 9 * LONG, "BLOCK", 0)
    plain.wait_blocked()
    now_it_is(LONG * 3 // 4)
    wait_for(lambda: server.control.hlen("k") == 2, scaled(20), "the expired holds to be removed")
    assert not plain.has_reply()
    assert server.control.execute_command("LOCK.RELEASE", "k", "last") == 0
    assert plain.reply() == 1


# ---- expired permits are removed for every kind of request ----

OTHERS = ("LOCK.ACQUIRE k", "LOCK.FAIR k", "LOCK.RWREAD k", "LOCK.RWWRITE k", "LOCK.MACQUIRE 1 k")


def one_expires_and_one_is_removed_directly(server):
    """The lease of a ends before the key, which expires with the lease of b. Returns a function that removes b."""
    take(server, "a", 2, lease=LONG)
    take(server, "b", 2, lease=9 * LONG)
    return lambda: server.control.hdel("k", "b")


@pytest.mark.parametrize("request_text", [*OTHERS, "LOCK.SEMAPHORE k"])
def test_waiter_is_granted_when_the_last_remaining_hold_expires(server, actor, now_it_is, request_text):
    remove_b, waiter = one_expires_and_one_is_removed_directly(server), actor("w")
    limit = "2 PERMITS 2" if "SEMAPHORE" in request_text else ""
    waiter.send(*f"{request_text} w {limit} PX {9 * LONG} BLOCK 0".split())
    waiter.wait_blocked()
    assert remove_b() == 1
    server.settle()
    assert not waiter.has_reply()
    now_it_is(2 * LONG)
    assert waiter.reply() == (2 if limit else 1)
    assert not server.control.hexists("k", "a")


@pytest.mark.parametrize("request_text", OTHERS)
def test_request_is_granted_when_the_last_remaining_hold_has_expired(clock, server, request_text):
    remove_b = one_expires_and_one_is_removed_directly(server)
    clock.step_for(server, 2 * LONG / 1000)
    assert remove_b() == 1
    assert server.control.execute_command(*request_text.split(), "o") == 1
    assert not server.control.hexists("k", "a")


def test_reserve_of_the_head_begins_when_the_last_hold_expires(server, actor, now_it_is):
    server.control.config_set("lock.fair-reserve", 4 * LONG)
    remove_b, gone, behind = one_expires_and_one_is_removed_directly(server), actor("gone"), actor("behind")
    for one in (gone, behind):
        one.send("LOCK.FAIR", "k", one.name, "PX", 9 * LONG, "BLOCK", 0)
        one.wait_blocked()
    gone.kill_socket()
    wait_for(lambda: server.info("lock")["lock_waiters"] == 1, what="the connection to close")
    assert remove_b() == 1
    now_it_is(2 * LONG)
    wait_for(lambda: not server.control.exists("k"), what="the expired hold to be removed")
    server.settle()
    assert not behind.has_reply()
    now_it_is(8 * LONG)
    assert behind.reply() == 1


def test_request_by_once_that_removes_an_expired_hold_grants_the_waiter(clock, server, actor):
    """In the same step: the timer of the expired lease has not fired yet."""
    take(server, "a", 2, lease=LONG)
    take(server, "b", 2, lease=9 * LONG)
    waiter = actor("w")
    waiter.send("LOCK.SEMAPHORE", "k", "w", 2, "PX", 9 * LONG, "BLOCK", 0)
    waiter.wait_blocked()
    clock.step(2 * LONG / 1000)
    transaction = server.control.pipeline(transaction=True)
    transaction.execute_command("LOCK.SEMAPHORE", "k", "b", 2, "PX", 9 * LONG, "ONCE")
    transaction.hgetall("k")
    assert transaction.execute() == [1, {"mode": "semaphore", "b": "1", "w": "1"}]
    assert waiter.reply() == 1


@pytest.mark.parametrize("request_text", OTHERS)
def test_refused_request_of_another_kind_removes_no_expired_holds(clock, server, request_text):
    """One live hold is enough: the expired ones are not checked."""
    fill(server, 1_000, LONG // 2)
    take(server, "last", MANY)
    clock.step_for(server, LONG * 3 / 4 / 1000)
    assert server.control.execute_command(*request_text.split(), "o") is None
    assert server.control.hlen("k") == 1_002  # with the mode
    assert server.control.execute_command("LOCK.RELEASE", "k", "last") == 0
    assert server.control.execute_command(*request_text.split(), "o") == 1
