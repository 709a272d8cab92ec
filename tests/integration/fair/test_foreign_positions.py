"""Positions that another client has written for names that cannot be owners."""

import pytest

from harness.schedule import as_map


@pytest.mark.parametrize("member", ["mode", "o:write", "", "n" * 513])
def test_position_of_an_invalid_owner_is_removed(make_server, member):
    server = make_server(appendonly="yes", lock_fair_reserve=600_000)
    server.control.zadd("lock:queue:{k}", {member: 1})
    server.control.zadd("lock:timeout:{k}", {member: "inf"})
    server.restart()
    assert server.control.execute_command("LOCK.FAIR", "k", "o") == 1
    assert server.control.keys("lock:*") == []


def test_positions_of_owners_are_kept_next_to_invalid_ones(make_server):
    server = make_server(appendonly="yes", lock_fair_reserve=600_000)
    server.control.zadd("lock:queue:{k}", {"mode": 1, "o": 2, "p:write": 3})
    server.restart()
    shown = as_map(server.control.execute_command("LOCK.INFO", "k"))["waiters"]
    assert [as_map(one)["owner"] for one in shown] == ["o"]
    assert server.control.execute_command("LOCK.FAIR", "k", "other") is None
    assert server.control.zrange("lock:queue:{k}", 0, -1) == ["o"]
    assert server.control.execute_command("LOCK.FAIR", "k", "o") == 1
