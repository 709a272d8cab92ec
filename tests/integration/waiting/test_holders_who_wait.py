"""Whoever comes by a hold of a lock by way of its key alone, and waits there already, is let in (rule 2).

RENAME, SWAPDB and RESTORE bring the holds of another name; none of them is the module's own doing.
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
    server.client().move("src", 1)  # a client of its own: on Valkey 8.1 MOVE leaves it in the other database
    server.client(db=1).rename("src", "k")
    server.control.execute_command("SWAPDB", 0, 1)


WAYS = {"RENAME": rename, "RESTORE": restore, "SWAPDB": swap}


def several_holders(server, actor, bring, count):
    """Of `count` holders some wait on the lock that theirs becomes, behind a writer."""
    call = server.control.execute_command
    for number in range(count):
        assert call("LOCK.RWREAD", "src", f"r{number}", "PX", LONG) == 1
    assert call("LOCK.RWWRITE", "k", "x", "PX", LONG) == 1
    writer = waits(actor, "w", "LOCK.RWWRITE k", "w")
    strangers = waits(actor, "s", "LOCK.RWREAD k", "stranger")
    waiting = [waits(actor, f"a{number}", "LOCK.RWREAD k", f"r{number}") for number in range(0, count, max(1, count // 5))]
    bring(server)
    for one in waiting:
        assert one.reply() == 2
    assert writer.is_blocked() and strangers.is_blocked(), "neither holds anything"


@pytest.mark.parametrize("way", WAYS)
def test_two_holders_who_wait(server, actor, way):
    several_holders(server, actor, WAYS[way], 2)


@pytest.mark.parametrize("way", WAYS)
def test_some_of_many_holders_who_wait(server, actor, way):
    """More holders than are asked one by one."""
    several_holders(server, actor, WAYS[way], 150)


@pytest.mark.parametrize("count", [1, 62, 63, 64, 65, 66, 300])
def test_all_of_so_many_holders_wait(server, actor, count):
    """Up to 64 fields of the hash the holders are asked, of more the waiters."""
    call = server.control.execute_command
    for number in range(count):
        assert call("LOCK.RWREAD", "src", f"r{number}", "PX", LONG) == 1
    assert call("LOCK.RWWRITE", "k", "x", "PX", LONG) == 1
    writer = waits(actor, "w", "LOCK.RWWRITE k", "w")
    crowd = Crowd(server, *(f"LOCK.RWREAD k r{number} PX {LONG} BLOCK 0" for number in range(count)), ahead=1)
    rename(server)
    assert set(crowd.answers()) == {b":2\r\n"}
    assert server.control.hgetall("k") == {"mode": "read", **{f"r{number}": "2" for number in range(count)}}
    assert writer.is_blocked()


def test_holders_are_found_a_second_time(server, actor):
    """Whoever comes later may stand where the first look has been already."""
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


def test_holders_are_found_behind_more_waiters_than_a_turn_can_ask(server, actor):
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


def test_load_that_brings_a_hold_to_who_waits_in_the_middle(server, actor):
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
