"""What other clients do to the keys of a read-write lock, and hashes that the module has not written."""

import pytest
from redis.exceptions import ResponseError

from harness import wait_for
from harness.schedule import as_map
from model.rw_lease_scene import LEASES, LESS_SHORT, LONG, LONGER, SHORT, all_agree, end_of, holders, leases
from model.rw_lease_scene import say, takes, until, wait

pytestmark = pytest.mark.usefixtures("no_active_expiry")

__all__ = ["say", "wait"]  # fixtures


def two_readers(server):
    """The lease of a is the shorter one."""
    for owner, ms in (("a", LONG), ("b", LONGER)):
        assert server.control.execute_command("LOCK.RWREAD", "k", owner, "PX", ms) == 1


def pttls(server, key="k"):
    """{"owner mode": pttl}, by LOCK.INFO."""
    found = as_map(server.control.execute_command("LOCK.INFO", key))
    return {f"{one['owner']} {one['mode']}": one["pttl"] for one in map(as_map, found["holders"])}


# The TTL of the lock is set directly: every lease ends with the key


def test_direct_pexpire_sets_every_lease(server, say):
    two_readers(server)
    say("PEXPIRE k 50000")
    assert all(0 < pttl <= 50000 for pttl in pttls(server).values())
    assert say("LOCK.RWREAD k c PX 20000") == 1
    end = leases(server)
    assert end["a"] == end["b"] == end_of(server) > end["c"]
    assert all_agree(server)


def test_direct_pexpire_to_a_later_time_extends_every_lease(server, say):
    say(f"LOCK.RWREAD k a PX {SHORT}")
    old_end = end_of(server)
    say(f"PEXPIRE k {LONG}")
    until(server, old_end)
    assert holders(server) == {"a read": 1}
    assert say("LOCK.RWWRITE k b") is None
    assert say("LOCK.RELEASE k a") == 0
    assert server.control.exists("k") == 0


def test_direct_pexpire_grants_a_writer_when_the_key_expires(server, say, wait):
    two_readers(server)
    writer = wait("w", "RWWRITE")
    say(f"PEXPIRE k {SHORT}")
    end = end_of(server)
    assert writer.reply(timeout=10) == 1
    assert leases(server)["w:write"] - LONG >= end
    assert holders(server) == {"w write": 1}


def test_direct_persist_makes_a_lock_without_a_lease(server, say):
    two_readers(server)
    say("PERSIST k")
    assert pttls(server) == {"a read": -1, "b read": -1}
    assert say("LOCK.RWREAD k c PX 20000") == 1
    assert say("PTTL k") == -1
    assert say("LOCK.RELEASE k c") == 0
    assert say("LOCK.RENEW k a PX 50000") == 1
    assert say("PTTL k") == -1
    assert say("LOCK.RENEW k b PX 40000") == 1
    assert 40000 < say("PTTL k") <= 50000
    assert all_agree(server)


@pytest.mark.parametrize("ms", [20_000, LONG], ids=["shorter", "longer"])
def test_direct_pexpire_stays_for_others_when_one_lease_is_renewed(server, say, ms):
    two_readers(server)
    say("PEXPIRE k 50000")
    end = end_of(server)
    with takes(server, "a", ms):
        assert say(f"LOCK.RENEW k a PX {ms}") == 1
    assert leases(server)["b"] == end
    assert all_agree(server)


@pytest.mark.parametrize("leaves", ["by LOCK.RELEASE", "with its connection"])
def test_direct_pexpireat_stays_for_others_when_one_reader_leaves(server, say, actor, leaves):
    """The new expiry equals the lease of b: without the lease of c the records would seem to be valid again."""
    server.control.config_set("lock.session-grace", SHORT)
    server.control.config_set("lock.default-lease", 2 * LONGER)
    two_readers(server)
    c = actor()
    assert c.call("LOCK.RWREAD", "k", "c", "SESSION") == 1
    end = leases(server)["b"]
    say(f"PEXPIREAT k {end}")
    if leaves == "by LOCK.RELEASE":
        assert c.call("LOCK.RELEASE", "k", "c") == 0
    c.kill_socket()
    wait_for(lambda: not server.control.hexists("k", "c"), 10, "c's hold to be released")
    assert leases(server) == {"a": end, "b": end}
    assert all_agree(server)


def test_pexpireat_in_the_past_frees_the_lock(server, say, wait):
    two_readers(server)
    writer = wait("w", "RWWRITE")
    say("PEXPIREAT k 1")
    assert writer.reply() == 1
    assert set(leases(server)) == {"w:write"}


# The lock is removed, its leases are not


@pytest.mark.parametrize("removal", ["DEL k", "UNLINK k", "RENAME k elsewhere", "MOVE k 1", "SET k x EX 1"])
def test_next_lock_ignores_the_leases_of_the_previous_one(server, say, removal):
    say(f"LOCK.RWREAD k a PX {LONGER}")
    say(f"LOCK.RWREAD k b PX {SHORT}")
    old_end = leases(server)["b"]
    say(removal)
    say("SELECT 0")  # Valkey 8.1 leaves the client of MOVE in the other database.
    say("DEL k")
    assert say(f"LOCK.RWREAD k b PX {LONG}") == 1
    assert set(leases(server)) == {"b"}
    assert all_agree(server)
    until(server, old_end)
    assert holders(server) == {"b read": 1}
    assert say("LOCK.RWREAD k c PX 1000") == 1
    assert holders(server) == {"b read": 1, "c read": 1}


def test_stale_leases_expire_with_their_lock_at_the_latest(server, say):
    say("LOCK.RWREAD k a PX 50000")
    say("LOCK.RWREAD k b PX 40000")
    end = end_of(server)
    say("DEL k")
    assert end_of(server, LEASES) == end


def test_plain_lock_after_del_ignores_old_leases(server, say):
    say(f"LOCK.RWWRITE k a PX {SHORT}")
    end = end_of(server)
    say("DEL k")
    assert say(f"LOCK.ACQUIRE k b PX {LONG}") == 1
    until(server, end)
    assert holders(server) == {"b exclusive": 1}


def test_renamed_lock_is_held_under_its_new_name_until_the_key_expires(server, say):
    say(f"LOCK.RWREAD k a PX {SHORT}")
    say(f"LOCK.RWREAD k b PX {LONG}")
    end = leases(server)["a"]
    say("RENAME k l")
    assert holders(server, "k") == {}
    assert holders(server, "l") == {"a read": 1, "b read": 1}
    until(server, end)
    # The lease of a has the old name: all leases end with the key.
    assert say("LOCK.RWWRITE l b") is None
    assert say("LOCK.RELEASE l a") == 0
    assert say("LOCK.RWWRITE l b") == 1


def test_lock_renamed_onto_another_ignores_the_leases_of_that(server, say):
    say(f"LOCK.RWREAD k a PX {LONG}")
    say(f"LOCK.RWREAD l b PX {SHORT}")
    end = end_of(server, "l")
    say("RENAME k l")
    until(server, end)
    assert holders(server, "l") == {"a read": 1}
    assert say("LOCK.RENEW l a PX 50000") == 1
    assert say("LOCK.RWREAD l c PX 20000") == 1
    assert set(server.control.zrange("lock:lease:{l}", 0, -1)) == {"a", "c"}
    assert end_of(server, "l") == end_of(server, "lock:lease:{l}")


def test_side_key_uses_the_hash_tag_of_the_name(server, say):
    for owner in "op":
        say(f"LOCK.RWREAD a{{tag}}b {owner}")
        say(f"LOCK.RWREAD a}}b {owner}")
        say(f"LOCK.RWREAD {{}}x {owner}")
    names = {"lock:lease:a{tag}b", "lock:lease:{a}b}", "lock:lease:{{}x}"}
    assert names <= set(server.control.keys("lock:*"))


def moved(server, late_ms, *names):
    """Moves these keys as MIGRATE does: they end later by the time that this takes."""
    for name in names:
        content, end = server.client(decode_responses=False).dump(name), end_of(server, name)
        server.control.delete(name)
        server.control.restore(name, end + late_ms, content, absttl=True)


@pytest.mark.parametrize("first", ["k", LEASES])
def test_leases_are_kept_when_a_lock_has_been_moved(server, say, first):
    say(f"LOCK.RWREAD k a PX {LONG}")
    say(f"LOCK.RWREAD k b PX {SHORT}")
    before = leases(server)
    moved(server, 7, first)
    moved(server, 9, *({"k", LEASES} - {first}))
    until(server, before["b"])
    assert holders(server) == {"a read": 1}
    with pytest.raises(ResponseError, match="^NOTHELD "):
        say("LOCK.RELEASE k b")
    assert say("LOCK.RWREAD k c PX 50000") == 1
    assert leases(server) == {"a": before["a"], "c": leases(server)["c"]}
    with takes(server, "a", 20000):
        say("LOCK.RENEW k a PX 20000")
    assert all_agree(server)


def test_last_lease_of_a_moved_lock_ends_in_time(server, say, wait):
    say(f"LOCK.RWREAD k a PX {SHORT}")
    say(f"LOCK.RWREAD k b PX {LESS_SHORT}")
    last = leases(server)["b"]
    moved(server, 5000, "k", LEASES)
    writer = wait("w", "RWWRITE")
    assert writer.reply(timeout=10) == 1
    assert leases(server)["w:write"] - LONG < last + 3000


@pytest.mark.parametrize("late_ms", [-1, 20_000])
def test_leases_of_a_restored_lock_with_another_ttl_end_with_the_key(server, say, late_ms):
    two_readers(server)
    moved(server, late_ms, "k", LEASES)
    end = end_of(server)
    say("LOCK.RWREAD k c PX 1000")
    assert [leases(server)[owner] for owner in "ab"] == [end, end]


# The leases are removed, the lock is not


@pytest.mark.parametrize("change", [f"{words} {LEASES}" for words in ("DEL", "ZPOPMIN", "ZPOPMAX")])
def test_lease_without_its_record_ends_with_the_key(server, say, change):
    two_readers(server)
    key_end = end_of(server)
    say(change)
    assert holders(server) == {"a read": 1, "b read": 1}
    assert end_of(server) == key_end
    assert say("LOCK.RWWRITE k c") is None
    assert say("LOCK.RWREAD k a PX 1000") == 2
    assert say("LOCK.RWREAD k c PX 20000") == 1
    assert end_of(server) == key_end
    assert say("LOCK.RELEASE k a") == 1
    assert [say(f"LOCK.RELEASE k {owner}") for owner in "abc"] == [0, 0, 0]
    assert server.control.dbsize() == 0


def test_lease_key_of_another_type_is_not_changed(server, say, wait):
    two_readers(server)
    say(f"SET {LEASES} x")
    for refused in ("LOCK.RWREAD k c", "LOCK.RWWRITE k c", "LOCK.RWREAD k a"):
        with pytest.raises(ResponseError, match="^WRONGTYPE "):
            say(refused)
    assert say("LOCK.ACQUIRE k c") is None
    assert holders(server) == {"a read": 1, "b read": 1}
    assert say("LOCK.RELEASE k a") == 0
    assert say("LOCK.FORCE k") == 1
    assert say("EXISTS k") == 0
    assert say(f"GET {LEASES}") == "x"
    with pytest.raises(ResponseError, match="^WRONGTYPE "):
        say("LOCK.RWREAD k c")
    assert say("LOCK.ACQUIRE k c") == 1


def test_renew_never_succeeds_without_a_new_lease(server, say):
    say("LOCK.RWREAD k a PX 50000")
    say(f"SET {LEASES} x")
    try:
        assert say(f"LOCK.RENEW k a PX {LONG}") == 1
    except ResponseError as error:
        assert str(error).startswith("WRONGTYPE ")
    else:
        assert say("PTTL k") > 50000


def test_waiter_is_granted_although_its_lease_cannot_be_written(server, say, wait):
    say(f"LOCK.RWWRITE k a PX {LONG}")
    reader = wait("b", "RWREAD")
    say(f"SET {LEASES} x")
    say("LOCK.RELEASE k a")
    assert reader.reply() == 1
    assert LONG - 10_000 < say("PTTL k") <= LONG
    assert holders(server) == {"b read": 1}


# Fields written directly


def test_direct_hdel_removes_a_hold(server, say, wait):
    two_readers(server)
    upgrade = wait("a", "RWWRITE")
    say("HDEL k b")
    assert upgrade.reply() == 1
    assert holders(server) == {"a read": 1, "a write": 1}
    assert say("LOCK.RELEASE k a WRITE") == 0
    assert say("LOCK.RELEASE k a") == 0
    assert server.control.dbsize() == 0


def test_lease_of_a_hold_removed_by_hdel_is_not_counted_when_it_ends(server, say):
    say(f"LOCK.RWREAD k a PX {SHORT}")
    say(f"LOCK.RWREAD k b PX {LONG}")
    before, end = server.info("lock")["lock_lease_ends"], leases(server)["a"]
    say("HDEL k a")
    until(server, end)
    assert say("LOCK.RWREAD k b") == 2
    assert set(leases(server)) == {"b"}
    assert server.info("lock")["lock_lease_ends"] == before


def test_direct_hset_makes_a_hold_that_ends_with_the_key(server, say):
    say(f"LOCK.RWREAD k a PX {SHORT}")
    say(f"LOCK.RWREAD k b PX {LONG}")
    end = leases(server)["a"]
    say("HSET k c 2")
    until(server, end)
    assert holders(server) == {"b read": 1, "c read": 2}
    assert say("LOCK.RELEASE k c") == 1
    assert say("LOCK.RELEASE k b") == 0
    assert say("LOCK.RWWRITE k b") is None
    assert say("LOCK.RELEASE k c") == 0
    assert server.control.dbsize() == 0


def test_lock_that_is_written_directly_is_a_lock(server, say):
    say("HSET k mode write a:write 1 a 2")
    assert holders(server) == {"a write": 1, "a read": 2}
    assert say("LOCK.RWREAD k b") is None
    assert say("LOCK.RWREAD k a") == 3
    assert say("LOCK.RELEASE k a WRITE") == 0
    assert say("HGET k mode") == "read"
    assert say("LOCK.RWREAD k b") == 1


def test_waiting_owner_that_is_written_directly_is_granted_by_reentry(server, say, wait):
    say(f"LOCK.RWWRITE k x PX {LONG}")
    wait("w", "RWWRITE")
    reader = wait("a", "RWREAD")
    server.control.pipeline().delete("k").hset("k", mapping={"mode": "read", "a": "1"}).execute()
    assert reader.reply() == 2


# Hashes that the module has not written

FOREIGN = {
    "unknown mode": {"mode": "banana", "a": "1"},
    "mode in capitals": {"mode": "READ", "a": "1"},
    "empty mode": {"mode": "", "a": "1"},
    "unknown mode, a writer": {"mode": "banana", "a:write": "1"},
    "no count": {"mode": "read", "a": "x"},
    "count 0": {"mode": "write", "a:write": "0"},
    "only an unknown mode": {"mode": "banana"},  # only a known mode: test_leftovers.py
    "no mode": {"a": "1", "b": "1"},
}
foreign = pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)


@foreign
def test_foreign_hash_is_held_by_an_unknown_owner_until_force(server, say, content):
    server.control.hset("k", mapping=content)
    before = server.dump()
    for kind in ("RWREAD", "RWWRITE", "ACQUIRE", "FAIR"):
        assert say(f"LOCK.{kind} k a") is None
    for kind in ("RWWRITE", "ACQUIRE"):
        assert say(f"LOCK.{kind} k other") is None
    for refused in ("RELEASE k a", "RELEASE k a READ", "RELEASE k a WRITE", "RENEW k a", "RENEW k other"):
        with pytest.raises(ResponseError, match="^NOTHELD "):
            say(f"LOCK.{refused}")
    assert say("LOCK.INFO k") is not None
    assert server.dump() == before
    assert say("LOCK.FORCE k") == 1
    assert say("LOCK.RWREAD k a") == 1


@foreign
@pytest.mark.parametrize("removal", ["DEL k", "LOCK.FORCE k", f"PEXPIRE k {SHORT}"])
def test_foreign_hash_is_waited_for(server, say, wait, content, removal):
    server.control.hset("k", mapping=content)
    readers = [wait("a", "RWWRITE"), wait("other", "RWREAD")]
    say(removal)
    assert readers[0].reply(timeout=10) == 1
    say("LOCK.RELEASE k a")
    assert readers[1].reply() == 1


def test_hold_that_cannot_be_read_lasts_as_long_as_its_key(server, say):
    server.control.hset("k", mapping={"mode": "read", "a": "x"})
    if say("LOCK.RWREAD k b PX 1000") == 1:
        assert say("PTTL k") == -1
        say("LOCK.RELEASE k b")
    assert server.control.hgetall("k") == {"mode": "read", "a": "x"}
    assert say("PTTL k") == -1


def test_hold_count_stops_at_its_limit(server, say):
    server.control.hset("k", mapping={"mode": "read", "a": 2**31 - 1})
    before = server.dump()
    with pytest.raises(ResponseError, match="^ERR hold count"):
        say("LOCK.RWREAD k a")
    assert server.dump() == before
    assert say("LOCK.RELEASE k a") == 2**31 - 2


def test_field_names_are_those_of_redisson(server, say):
    # The owner in Redisson is uuid:thread, the same as here.
    say("LOCK.RWWRITE k 285475da:52")
    assert server.control.hgetall("k") == {"mode": "write", "285475da:52:write": "1"}
    assert say("LOCK.RELEASE k 285475da:52") == 0
