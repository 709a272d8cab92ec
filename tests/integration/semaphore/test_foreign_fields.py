"""Fields, members and TTLs that another client has written into the keys of a semaphore cause no grant."""

import pytest
from redis.exceptions import ResponseError

from model.semaphore_scene import LEASES, LONG, permits_of


def take(server, owner, limit=2):
    return server.control.execute_command("LOCK.SEMAPHORE", "k", owner, limit, "PX", LONG)


@pytest.fixture
def full(server):
    assert take(server, "o1") == take(server, "o2") == 1


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("member", ["mode", "mode:write", "o1:write", ":write", "", "n" * 513])
@pytest.mark.parametrize("score", ["1", "-inf", "inf"])
def test_lease_without_a_hold_grants_no_third_owner(server, member, score):
    server.control.execute_command("ZADD", LEASES, score, member)
    assert take(server, "o3") is None
    assert permits_of(server) == {"o1": 1, "o2": 1}


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("score", ["-inf", "-1", "0"])
def test_score_that_is_no_time_ends_no_lease(server, score):
    server.control.execute_command("ZADD", LEASES, score, "o1")
    assert take(server, "o3") is None
    assert permits_of(server) == {"o1": 1, "o2": 1}


@pytest.mark.parametrize("field", ["o1:write", "mode:write", ":write", "", "n" * 513])
def test_field_that_is_no_owner_counts_as_all_permits_until_force(server, field):
    assert take(server, "o1", 9) == 1
    server.control.hset("k", field, 1)
    assert take(server, "o2", 9) is None
    assert server.control.execute_command("LOCK.RELEASE", "k", "o1") == 0
    assert take(server, "o2", 9) is None
    assert server.control.execute_command("LOCK.FORCE", "k") == 1
    assert take(server, "o2", 9) == 1


def test_field_whose_own_ttl_has_passed_is_no_permit(server):
    if isinstance(server.actor().attempt("HPEXPIRE", "none", 1, "FIELDS", 1, "f"), ResponseError):
        pytest.skip("fields have no TTLs of their own on this server")
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    try:
        assert take(server, "o1") == take(server, "o2") == 1
        assert take(server, "o3") is None  # the sum is known from here on
        server.control.execute_command("HPEXPIRE", "k", 30, "FIELDS", 1, "o1")
        assert take(server, "o3") is None
        server.let_pass(31)
        assert server.control.hlen("k") == 3, "the server has removed it"
        assert take(server, "o3") == 1
        assert take(server, "o4") is None
    finally:
        server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 1)
