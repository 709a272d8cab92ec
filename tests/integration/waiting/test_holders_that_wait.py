"""A waiting owner that becomes a holder through a change of the key alone is granted its wait (rule 2).

RENAME, SWAPDB and RESTORE bring the holds of another key; none of them is a command of the module.
"""

import pytest

from model.crowd import Crowd

LONG = 600_000


def waits(actor, name, command, owner):
    one = actor(name)
    one.send(*command.split(), owner, "PX", LONG, "BLOCK", 0)
    return one.wait_blocked()


def rename(server):
    server.control.rename("src", "k")


def restore(server):
    value = server.control.execute_command("DUMP", "src", **{"NEVER_DECODE": True})
    server.control.execute_command("RESTORE", "k", LONG, value, "REPLACE")


def swap(server):
    server.client().move("src", 1)  # a separate client: on Valkey 8.1 it is in the other database after MOVE
    server.client(db=1).rename("src", "k")
    server.control.execute_command("SWAPDB", 0, 1)


WAYS = {"RENAME": rename, "RESTORE": restore, "SWAPDB": swap}


def several_holders(server, actor, bring, count):
    """Some of `count` holders wait, behind a writer, for the lock that their lock becomes."""
    call = server.control.execute_command
    for number in range(count):
        assert call("LOCK.RWREAD", "src", f"r{number}", "PX", LONG) == 1
    assert call("LOCK.RWWRITE", "k", "x", "PX", LONG) == 1
    writer = waits(actor, "w", "LOCK.RWWRITE k", "w")
    other = waits(actor, "s", "LOCK.RWREAD k", "stranger")
    waiting = [waits(actor, f"a{number}", "LOCK.RWREAD k", f"r{number}") for number in range(0, count, max(1, count // 5))]
    bring(server)
    for one in waiting:
        assert one.reply() == 2
    assert writer.is_blocked() and other.is_blocked(), "a waiter without a hold was granted"


@pytest.mark.parametrize("way", WAYS)
def test_two_holders_that_wait_are_granted(server, actor, way):
    several_holders(server, actor, WAYS[way], 2)


@pytest.mark.parametrize("way", WAYS)
def test_some_of_many_holders_that_wait_are_granted(server, actor, way):
    """More holders than are checked one by one."""
    several_holders(server, actor, WAYS[way], 150)


@pytest.mark.parametrize("count", [1, 62, 63, 64, 65, 66, 300])
def test_all_holders_that_wait_are_granted(server, actor, count):
    """With up to 64 fields in the hash the holders are checked, with more fields the waiters."""
    call = server.control.execute_command
    for number in range(count):
        assert call("LOCK.RWREAD", "src", f"r{number}", "PX", LONG) == 1
    assert call("LOCK.RWWRITE", "k", "x", "PX", LONG) == 1
    writer = waits(actor, "w", "LOCK.RWWRITE k", "w")
    crowd = Crowd(server, *(f"LOCK.RWREAD k r{number} PX {LONG} BLOCK 0" for number in range(count)), ahead=1)
    rename(server)
    assert set(crowd.replies()) == {b":2\r\n"}
    assert server.control.hgetall("k") == {"mode": "read", **{f"r{number}": "2" for number in range(count)}}
    assert writer.is_blocked()


def test_holders_that_wait_are_found_a_second_time(server, actor):
    """A later holder may be at a position that the first check has passed already."""
    call = server.control.execute_command
    assert call("LOCK.RWWRITE", "k", "x", "PX", LONG) == 1
    writer = waits(actor, "w", "LOCK.RWWRITE k", "w")
    for time in range(2):
        for number in range(100):
            assert call("LOCK.RWREAD", "src", f"r{time}-{number}", "PX", LONG) == 1
        one = waits(actor, f"a{time}", "LOCK.RWREAD k", f"r{time}-0")
        rename(server)
        assert one.reply() == 2
    assert writer.is_blocked()


def test_holder_is_found_behind_more_waiters_than_a_time_slice_checks(server, actor):
    call = server.control.execute_command
    for number in range(70):
        assert call("LOCK.RWREAD", "src", f"r{number}", "PX", LONG) == 1
    assert call("LOCK.RWWRITE", "k", "x", "PX", LONG) == 1
    sockets = [server.raw_connection() for _ in range(3000)]
    for number, sock in enumerate(sockets):
        sock.sendall(b"LOCK.RWWRITE k w%d BLOCK 0\r\n" % number)
    last = waits(actor, "last", "LOCK.RWREAD k", "r69")
    rename(server)
    assert last.reply(timeout=30) == 2
    assert server.info("lock")["lock_waiters"] == 3000


def test_load_that_makes_a_waiter_in_the_middle_the_holder_grants_it(server, actor):
    a, b, c = actor("a"), actor("b"), actor("c")
    assert a.call("LOCK.ACQUIRE", "k", "oc", "PX", 600_000) == 1
    assert a.call("SAVE") == "OK"
    assert a.call("LOCK.FORCE", "k") == a.call("LOCK.ACQUIRE", "k", "oa") == 1
    for waiter, owner in ((b, "ob"), (c, "oc")):
        waiter.send("LOCK.ACQUIRE", "k", owner, "PX", 600_000, "BLOCK", 0)
        waiter.wait_blocked()
    assert a.call("DEBUG", "RELOAD", "NOSAVE") == "OK"
    assert c.reply() == 2
    assert b.is_blocked() and not b.has_reply()
