"""Fields and members that another client has written into the keys of a read-write lock cause no grant."""

import pytest

from model.rw_lease_scene import LEASES, LONG, end_of, holders, say

__all__ = ["say"]  # a fixture


@pytest.fixture
def readers(say):
    for owner in ("a", "b"):
        assert say(f"LOCK.RWREAD k {owner} PX {LONG}") == 1


@pytest.mark.usefixtures("readers")
def test_no_reader_is_granted_next_to_a_writer_written_directly(server, say):
    say("HSET k w:write 1")
    assert say("LOCK.RWREAD k c") is None
    assert say("LOCK.RWREAD k a") is None
    assert say("LOCK.RELEASE k w WRITE") == 0
    assert say("LOCK.RWREAD k c") == 1
    assert holders(server) == {"a read": 1, "b read": 1, "c read": 1}


def test_no_reader_is_granted_next_to_a_writer_with_mode_read(say):
    say(f"LOCK.RWWRITE k w PX {LONG}")
    say("HSET k mode read")
    for kind in ("RWREAD", "RWWRITE", "ACQUIRE"):
        assert say(f"LOCK.{kind} k a") is None
    assert say("LOCK.RELEASE k w WRITE") == 0
    assert say("LOCK.RWREAD k a") == 1


@pytest.mark.usefixtures("readers")
@pytest.mark.parametrize("member", ["mode", "mode:write", ":write", "x:write:write", "n" * 513])
def test_expired_lease_without_a_hold_ends_no_hold(server, say, member):
    server.control.zadd(LEASES, {member: 1})
    assert say("LOCK.RWWRITE k w") is None
    assert server.control.hget("k", "mode") == "read"
    assert holders(server) == {"a read": 1, "b read": 1}
    assert say("LOCK.RWREAD k c") == 1


@pytest.mark.usefixtures("readers")
@pytest.mark.parametrize("field", ["mode:write", ":write", "x:write:write", "", "n" * 513])
def test_field_that_is_no_owner_holds_the_lock_until_force(server, say, field):
    server.control.hset("k", field, 1)
    assert say("LOCK.RWREAD k c") is None
    assert holders(server) == {"a read": 1, "b read": 1}
    assert say("LOCK.GUARD k a ECHO done") == "done"
    assert say("LOCK.RELEASE k a") == say("LOCK.RELEASE k b") == 0
    assert say("LOCK.RWWRITE k c") is None
    assert say("LOCK.FORCE k") == 1
    assert say("LOCK.RWWRITE k c") == 1


@pytest.mark.parametrize("name", ["mode", "o:write"])
def test_plain_hold_of_a_reserved_name_has_no_owner(server, say, name):
    say(f"HSET k {name} 3")
    assert holders(server) == {}
    assert say("LOCK.ACQUIRE k a") is None
    assert say("LOCK.FORCE k") == 1


def test_hold_without_a_lease_among_many_expired_ones_counts(server, say):
    """The number of leases equals the number of holds, because there is a lease without a hold."""
    say(f"LOCK.RWREAD k a PX {LONG}")
    server.control.hset("k", mapping={f"d{number}": 1 for number in range(70)} | {"x": 1})
    expired = {f"d{number}": 1 for number in range(70)}
    server.control.zadd(LEASES, expired | {"junk": 1, "a": end_of(server)})
    assert say("LOCK.RWWRITE k a") is None
    assert holders(server) == {"a read": 1, "x read": 1}
