"""Fields and members that another client has written into the keys of a read-write lock let nobody in."""

import pytest

from model.rw_lease_scene import LEASES, LONG, holders, say

__all__ = ["say"]  # a fixture


@pytest.fixture
def readers(say):
    for owner in ("a", "b"):
        assert say(f"LOCK.RWREAD k {owner} PX {LONG}") == 1


@pytest.mark.usefixtures("readers")
def test_no_reader_beside_a_writer_that_is_written_there(server, say):
    say("HSET k w:write 1")
    assert say("LOCK.RWREAD k c") is None
    assert say("LOCK.RWREAD k a") is None
    assert say("LOCK.RELEASE k w WRITE") == 0
    assert say("LOCK.RWREAD k c") == 1
    assert holders(server) == {"a read": 1, "b read": 1, "c read": 1}


def test_no_reader_beside_a_writer_whose_mode_says_read(say):
    say(f"LOCK.RWWRITE k w PX {LONG}")
    say("HSET k mode read")
    for kind in ("RWREAD", "RWWRITE", "ACQUIRE"):
        assert say(f"LOCK.{kind} k a") is None
    assert say("LOCK.RELEASE k w WRITE") == 0
    assert say("LOCK.RWREAD k a") == 1


@pytest.mark.usefixtures("readers")
@pytest.mark.parametrize("member", ["mode", "mode:write", ":write", "x:write:write", "n" * 513])
def test_lease_of_nobody_ends_nothing(server, say, member):
    server.control.zadd(LEASES, {member: 1})
    assert say("LOCK.RWWRITE k w") is None
    assert server.control.hget("k", "mode") == "read"
    assert holders(server) == {"a read": 1, "b read": 1}
    assert say("LOCK.RWREAD k c") == 1


@pytest.mark.usefixtures("readers")
@pytest.mark.parametrize("field", ["mode:write", ":write", "x:write:write", "", "n" * 513])
def test_field_of_nobody_holds_the_lock_until_FORCE(server, say, field):
    server.control.hset("k", field, 1)
    assert say("LOCK.RWREAD k c") is None
    assert holders(server) == {"a read": 1, "b read": 1}
    assert say("LOCK.GUARD k a ECHO done") == "done"
    assert say("LOCK.RELEASE k a") == say("LOCK.RELEASE k b") == 0
    assert say("LOCK.RWWRITE k c") is None
    assert say("LOCK.FORCE k") == 1
    assert say("LOCK.RWWRITE k c") == 1


@pytest.mark.parametrize("name", ["mode", "o:write"])
def test_plain_hold_of_a_reserved_name_is_nobodys(server, say, name):
    say(f"HSET k {name} 3")
    assert holders(server) == {}
    assert say("LOCK.ACQUIRE k a") is None
    assert say("LOCK.FORCE k") == 1


def test_hold_without_a_lease_among_many_dead_is_seen(server, say):
    """Leases without holds make up for it in number."""
    say(f"LOCK.RWREAD k a PX {LONG}")
    server.control.hset("k", mapping={f"d{number}": 1 for number in range(70)} | {"x": 1})
    server.control.zadd(LEASES, {f"d{number}": 1 for number in range(70)} | {"junk": 1})
    assert say("LOCK.RWWRITE k a") is None
    assert holders(server) == {"a read": 1, "x read": 1}
