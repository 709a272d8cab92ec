"""The leases of readers and writers: each hold has its own lease, which expires independently.

The active expiry of the server is switched off, so that only the module can notice the end of a lease.
"""

import pytest
from redis.exceptions import ResponseError

from harness import scaled_ms, wait_for
from harness.schedule import as_map
from model.rw_lease_scene import LEASES, LESS_SHORT, LONG, LONGER, SHORT, all_agree, end_of, holders, leases, say, takes
from model.rw_lease_scene import until, wait

pytestmark = pytest.mark.usefixtures("no_active_expiry")

__all__ = ["say", "wait"]  # fixtures

SOON_MS = 3000


# The records of leases


def test_each_hold_has_its_own_lease_and_the_key_has_the_last_one(server, say):
    for command, field, ms in (
        ("LOCK.RWREAD k a PX 50000", "a", 50000),
        ("LOCK.RWREAD k b EX 90", "b", 90000),
        ("LOCK.RWREAD k c", "c", 30000),
    ):
        with takes(server, field, ms):
            assert say(command) == 1
        assert all_agree(server)
    assert server.control.hgetall("k") == {"mode": "read", "a": "1", "b": "1", "c": "1"}


def test_read_hold_of_a_writer_has_its_own_lease(server, say):
    with takes(server, "a:write", 50000):
        say("LOCK.RWWRITE k a PX 50000")
    with takes(server, "a", 20000):
        say("LOCK.RWREAD k a PX 20000")
    assert all_agree(server)
    assert server.control.hgetall("k") == {"mode": "write", "a:write": "1", "a": "1"}


@pytest.mark.parametrize("kind, field", [("RWREAD", "a"), ("RWWRITE", "a:write")])
def test_reentry_lengthens_its_own_lease_and_never_shortens_it(server, say, kind, field):
    with takes(server, field, LONG):
        say(f"LOCK.{kind} k a PX {LONG}")
    before = leases(server)
    assert say(f"LOCK.{kind} k a PX 1000") == 2
    assert leases(server) == before
    with takes(server, field, LONGER):
        assert say(f"LOCK.{kind} k a PX {LONGER}") == 3
    assert all_agree(server)


def test_renewal_of_one_reader_does_not_change_the_lease_of_another(server, say):
    say(f"LOCK.RWREAD k a PX {LONG}")
    a = leases(server)["a"]
    say("LOCK.RWREAD k b PX 50000")
    with takes(server, "b", 20000):
        assert say("LOCK.RENEW k b PX 20000") == 1
    with takes(server, "b", LONGER):
        assert say(f"LOCK.RENEW k b PX {LONGER}") == 1
    assert leases(server)["a"] == a
    assert all_agree(server)


def test_renewal_may_shorten_the_last_lease_and_the_key_with_it(server, say):
    say(f"LOCK.RWREAD k a PX {LONG}")
    say("LOCK.RWREAD k b PX 50000")
    with takes(server, "a", 20000):
        say("LOCK.RENEW k a PX 20000")
    assert end_of(server) == leases(server)["b"]
    assert all_agree(server)


def test_renewal_applies_to_read_and_write_holds_of_the_owner(server, say):
    say("LOCK.RWWRITE k a PX 50000")
    say("LOCK.RWREAD k a PX 20000")
    say("LOCK.RWREAD k a PX 20000")
    with takes(server, "a", 70000), takes(server, "a:write", 70000):
        assert say("LOCK.RENEW k a PX 70000") == 3
    assert all_agree(server)


def test_release_of_the_last_lease_shortens_the_key(server, say):
    say("LOCK.RWREAD k a PX 50000")
    say(f"LOCK.RWREAD k b PX {LONG}")
    say("LOCK.RELEASE k b")
    assert list(leases(server)) == ["a"]
    assert all_agree(server)


def test_release_of_one_of_two_holds_does_not_change_the_lease(server, say):
    say("LOCK.RWREAD k a PX 50000")
    say("LOCK.RWREAD k a PX 60000")
    before = leases(server)
    assert say("LOCK.RELEASE k a") == 1
    assert leases(server) == before


@pytest.mark.parametrize("kind, field", [("RWREAD", "a"), ("RWWRITE", "a:write")])
def test_lease_of_an_only_hold_is_the_ttl_of_the_key(server, say, kind, field):
    say(f"LOCK.{kind} k a PX 50000")
    assert leases(server) == {field: end_of(server)} and not say(f"EXISTS {LEASES}")
    with takes(server, field, 70000):
        say("LOCK.RENEW k a PX 70000")
    assert not say(f"EXISTS {LEASES}")
    say("LOCK.RWREAD k a PX 60000" if field == "a" else "LOCK.RWREAD k a PX 40000")
    assert bool(say(f"EXISTS {LEASES}")) == (field != "a")


def test_second_hold_keeps_the_lease_of_the_first(server, say):
    say("LOCK.RWREAD k a PX 50000")
    first = end_of(server)
    with takes(server, "b", LONG):
        say(f"LOCK.RWREAD k b PX {LONG}")
    assert leases(server)["a"] == first
    assert all_agree(server)


@pytest.mark.parametrize("end", ["LOCK.RELEASE k a", "LOCK.FORCE k"])
@pytest.mark.parametrize("kind", ["RWREAD", "RWWRITE"])
def test_no_side_key_is_left_when_the_lock_is_free(server, say, kind, end):
    say(f"LOCK.{kind} k a")
    say(end)
    assert server.control.dbsize() == 0


def test_longest_lease_is_accepted(server, say):
    longest = 2**63 - 1 - server.now_ms() - 3_600_000
    assert say(f"LOCK.RWREAD k a PX {longest}") == 1
    assert say("LOCK.RWREAD k b PX 50000") == 1
    assert holders(server) == {"a read": 1, "b read": 1}
    assert end_of(server) == end_of(server, LEASES)
    say("LOCK.RELEASE k a")
    assert all_agree(server)


# A lease expires


def test_lease_of_each_reader_expires_independently(server, say):
    say(f"LOCK.RWREAD k a PX {SHORT}")
    say(f"LOCK.RWREAD k b PX {LONG}")
    say(f"LOCK.RWREAD k c PX {LONGER}")
    until(server, leases(server)["a"])
    assert holders(server) == {"b read": 1, "c read": 1}
    with pytest.raises(ResponseError, match="^NOTHELD "):
        say("LOCK.RELEASE k a")
    with pytest.raises(ResponseError, match="^NOTHELD "):
        say("LOCK.RENEW k a")
    assert say("LOCK.RWWRITE k a") is None
    # The first command that writes has removed it from the keys too.
    assert set(leases(server)) == {"b", "c"}
    assert server.control.hgetall("k") == {"mode": "read", "b": "1", "c": "1"}
    assert all_agree(server)


def test_end_of_the_last_lease_frees_the_lock_and_leaves_no_key(server, say):
    say(f"LOCK.RWREAD k a PX {SHORT // 2}")
    say(f"LOCK.RWREAD k b PX {SHORT}")
    until(server, end_of(server))
    assert say("LOCK.INFO k") is None
    assert server.control.exists("k", LEASES) == 0
    assert say("LOCK.RWWRITE k c") == 1
    assert set(leases(server)) == {"c:write"}


def test_expired_reader_does_not_prevent_an_upgrade(server, say):
    say(f"LOCK.RWREAD k dead PX {SHORT}")
    say(f"LOCK.RWREAD k a PX {LONG}")
    assert say("LOCK.RWWRITE k a") is None
    until(server, leases(server)["dead"])
    assert say("LOCK.RWWRITE k a") == 1


def test_reentry_after_the_lease_has_expired_is_a_first_hold(server, say):
    say(f"LOCK.RWREAD k a PX {SHORT}")
    say(f"LOCK.RWREAD k a PX {SHORT}")
    say(f"LOCK.RWREAD k b PX {LONG}")
    until(server, leases(server)["a"])
    assert say("LOCK.RWREAD k a") == 1


def assert_granted_after(server, waiter, field, end_ms):
    """Asserts that the waiter is granted not before that end, and soon after it."""
    assert waiter.reply(timeout=10) == 1
    granted_ms = leases(server)[field] - LONG
    assert end_ms <= granted_ms <= end_ms + scaled_ms(SOON_MS)


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "b", "a")], ids=["in order", "in reverse order"])
def test_writer_is_granted_when_the_last_lease_expires(server, say, wait, order):
    for number, owner in enumerate(order, 1):
        say(f"LOCK.RWREAD k {owner} PX {SHORT * number}")
    last = end_of(server)
    writer = wait("w", "RWWRITE")
    assert_granted_after(server, writer, "w:write", last)
    assert holders(server) == {"w write": 1}
    assert set(leases(server)) == {"w:write"}
    assert all_agree(server)


def test_writer_waits_only_for_readers_that_have_not_expired(server, say, wait):
    say(f"LOCK.RWREAD k dead PX {LESS_SHORT}")
    say(f"LOCK.RWREAD k a PX {LONG}")
    end = leases(server)["dead"]
    writer = wait("w", "RWWRITE")
    say("LOCK.RELEASE k a")
    assert_granted_after(server, writer, "w:write", end)


def test_upgrade_is_granted_when_the_lease_of_the_other_reader_expires(server, say, wait):
    say(f"LOCK.RWREAD k a PX {LONG}")
    say(f"LOCK.RWREAD k b PX {LONG}")
    upgrade = wait("a", "RWWRITE")
    end = server.now_ms() + SHORT
    say(f"LOCK.RENEW k b PX {SHORT}")
    assert_granted_after(server, upgrade, "a:write", end)
    assert holders(server) == {"a read": 1, "a write": 1}


def test_renewal_by_a_reader_keeps_the_writer_waiting(server, say, wait, at_once):
    say(f"LOCK.RWREAD k a PX {LONG}")
    writer = wait("w", "RWWRITE")
    _, old_end, _ = at_once(f"LOCK.RENEW k a PX {LESS_SHORT}", "PEXPIRETIME k", f"LOCK.RENEW k a PX {LONG}")
    until(server, old_end)
    server.settle(20)
    assert not writer.has_reply() and writer.is_blocked()
    # A shorter lease again: it is granted sooner.
    _, end = at_once(f"LOCK.RENEW k a PX {SHORT}", "PEXPIRETIME k")
    assert_granted_after(server, writer, "w:write", end)


def test_reader_that_reenters_delays_the_writer_no_longer_than_its_lease(server, say, wait, at_once):
    say(f"LOCK.RWREAD k a PX {LONG}")
    writer = wait("w", "RWWRITE")
    end = server.now_ms() + LESS_SHORT
    at_once(f"LOCK.RENEW k a PX {SHORT}", f"LOCK.RWREAD k a PX {LESS_SHORT}")
    assert_granted_after(server, writer, "w:write", end)


def test_readers_are_granted_when_the_lease_of_a_downgrading_writer_ends(server, say, wait, at_once):
    say(f"LOCK.RWWRITE k a PX {LONG}")
    readers = [wait("b", "RWREAD"), wait("c", "RWREAD")]
    writer = wait("w", "RWWRITE")
    end = server.now_ms() + SHORT
    at_once(f"LOCK.RENEW k a PX {SHORT}", f"LOCK.RWREAD k a PX {LONG}")
    for owner, reader in zip("bc", readers, strict=True):
        assert_granted_after(server, reader, owner, end)
    assert holders(server) == {"a read": 1, "b read": 1, "c read": 1}
    assert server.control.hget("k", "mode") == "read"
    assert set(leases(server)) == {"a", "b", "c"}
    assert not writer.has_reply() and writer.is_blocked()


def test_writer_that_reads_is_a_reader_after_its_write_lease_expires(server, say):
    say(f"LOCK.RWWRITE k a PX {SHORT}")
    say(f"LOCK.RWREAD k a PX {LONG}")
    until(server, leases(server)["a:write"])
    assert as_map(say("LOCK.INFO k"))["mode"] == "read"
    assert holders(server) == {"a read": 1}
    assert say("LOCK.RWREAD k b") == 1
    assert server.control.hget("k", "mode") == "read"


def test_writer_remains_the_writer_when_its_read_lease_expires(server, say):
    say(f"LOCK.RWWRITE k a PX {LONG}")
    say(f"LOCK.RWREAD k a PX {SHORT}")
    until(server, leases(server)["a"])
    assert say("LOCK.RWREAD k b") is None
    assert holders(server) == {"a write": 1}
    assert server.control.hgetall("k") == {"mode": "write", "a:write": "1"}
    assert all_agree(server)


def test_end_of_a_writers_short_read_is_noticed_while_a_client_waits(server, say, wait):
    say(f"LOCK.RWWRITE k a PX {LONG}")
    wait("b", "RWREAD")
    say(f"LOCK.RWREAD k a PX {SHORT}")
    until(server, leases(server)["a"])
    wait_for(lambda: set(leases(server)) == {"a:write"}, what="the end of the read lease to be noticed")


def test_lease_of_a_waiter_counts_from_its_grant(server, say, wait):
    say(f"LOCK.RWWRITE k a PX {LONG}")
    reader = wait("b", "RWREAD")
    with takes(server, "b", LONG):
        say("LOCK.RELEASE k a")
        assert reader.reply() == 1


def test_expired_leases_are_counted_and_send_events(server, say, wait):
    server.control.config_set("notify-keyspace-events", "Ed")
    subscriber = server.client().pubsub(ignore_subscribe_messages=True)
    subscriber.psubscribe("__keyevent@0__:lock.*")
    wait_for(lambda: server.control.pubsub_numpat() == 1, what="the subscription")
    before = server.info("lock")["lock_lease_ends"]
    say(f"LOCK.RWREAD k a PX {SHORT}")
    say(f"LOCK.RWREAD k b PX {LESS_SHORT}")
    writer = wait("w", "RWWRITE")
    assert writer.reply(timeout=10) == 1
    events = []

    def have_all_events():
        while message := subscriber.get_message():
            events.append(message["channel"].rpartition(".")[2])
        return len(events) >= 5

    wait_for(have_all_events, what="the events")
    assert events == ["granted", "granted", "expired", "expired", "granted"]
    assert server.info("lock")["lock_lease_ends"] == before + 2


@pytest.mark.parametrize("lease", [2**53 + 1, 2**60 + 1, 2**62 + 1, 2**63 - 1 - 4 * 10**15])
def test_lease_beyond_the_precision_of_a_score_keeps_other_leases(server, say, lease):
    """A score is a double: the expiry of the key must be rounded in the same way, or no lease would be valid."""
    assert say(f"LOCK.RWREAD k b PX {SHORT}") == 1
    assert say(f"LOCK.RWREAD k a PX {lease}") == 1
    wait_for(lambda: holders(server) == {"a read": 1}, what="the lease of b to expire")
    assert say("LOCK.RELEASE k a") == 0
    assert say("LOCK.RWWRITE k w") == 1


def test_renewal_beyond_the_precision_of_a_score_keeps_other_leases(server, say):
    assert say(f"LOCK.RWREAD k b PX {SHORT}") == 1
    assert say("LOCK.RWREAD k a") == 1
    assert say(f"LOCK.RENEW k a PX {2**62 + 1}") == 1
    wait_for(lambda: holders(server) == {"a read": 1}, what="the lease of b to expire")


def test_mode_is_that_of_the_holders(say):
    assert say(f"LOCK.RWWRITE k a PX {LONG}") == 1
    assert as_map(say("LOCK.INFO k"))["mode"] == "write"
    say(f"LOCK.RWREAD k a PX {LONG}")
    assert as_map(say("LOCK.INFO k"))["mode"] == "write"
    say("HDEL k a:write")  # directly: the key still has the mode `write`
    assert say("HGET k mode") == "write"
    assert as_map(say("LOCK.INFO k"))["mode"] == "read"


@pytest.mark.parametrize("request_text", ["LOCK.RWREAD k c", "LOCK.RWREAD k b"])
def test_request_before_the_lease_timer_runs_grants_the_waiting_reader(server, actor, request_text):
    """The request is read in the event-loop iteration in which the lease has expired, before the timer of the lock."""
    waiter = actor("b")
    server.control.execute_command("LOCK.RWWRITE", "k", "a", "PX", scaled_ms(300))
    waiter.send("LOCK.RWREAD", "k", "b", "PX", LONG, "BLOCK", 0)
    waiter.wait_blocked()
    with server.control.pipeline(transaction=False) as pipeline:
        pipeline.execute_command("DEBUG", "SLEEP", scaled_ms(350) / 1000)
        pipeline.execute_command(*request_text.split(), "PX", LONG)
        assert pipeline.execute()[1] > 0
    assert waiter.reply() > 0
