"""Holds whose clients died before the reply: only these are released, whatever else their owner holds or acquires."""

import pytest

from harness import wait_for, wait_for_sync
from model.gone_scene import KILL, RELEASE, GrantScene
from model.waiting_scene import assert_handed_off

LONG = 600_000


def waits(actor, command):
    actor.send(*command.split(), "PX", LONG, "BLOCK", 0)
    return actor.wait_blocked()


def send_at_once(server, *lines):
    """Sends the commands in one packet; the drain processes what they cause."""
    server.raw_connection().sendall("".join(line + "\r\n" for line in lines).encode())


LEFT = {"LOCK.RWREAD": {"mode": "write", "ob:write": "1"}, "LOCK.RWWRITE": {"mode": "read", "ob": "1"}}


@pytest.mark.parametrize("lost", LEFT)
def test_only_the_lost_one_of_a_read_and_a_write_hold_is_released(server, actor, lost):
    assert server.control.execute_command("LOCK.ACQUIRE", "k", "oa") == 1
    waiting = {command: waits(actor(), f"{command} k ob") for command in LEFT}
    dies = waiting.pop(lost)
    (lives,) = waiting.values()
    send_at_once(server, RELEASE, f"CLIENT KILL ID {dies.client_id}")
    assert lives.reply() == 1
    wait_for(lambda: server.control.hgetall("k") == LEFT[lost], what="the lost hold to be released")
    assert lives.call("LOCK.RELEASE", "k", "ob") == 0
    assert not server.dump()


@pytest.mark.parametrize("taken, lost", ["kl", "lk"])
def test_of_two_locks_the_one_that_is_acquired_again_is_kept(server, actor, taken, lost):
    for key in "kl":
        assert server.control.execute_command("LOCK.ACQUIRE", key, "oa") == 1
    dying = [waits(actor(), f"LOCK.ACQUIRE {key} ob").client_id for key in "kl"]
    lines = [f"LOCK.RELEASE {key} oa" for key in "kl"] + [f"CLIENT KILL ID {number}" for number in dying]
    send_at_once(server, *lines, f"LOCK.FORCE {taken}", f"LOCK.ACQUIRE {taken} ob PX {LONG}")
    wait_for(lambda: not server.control.exists(lost), what="the lost hold to be released")
    assert_handed_off(server, actor)
    assert server.control.hgetall(taken) == {"ob": "1"}


@pytest.mark.parametrize("lost, taken", [(0, 1), (1, 0)])
def test_lost_hold_is_released_in_the_database_of_the_wait(server, actor, lost, taken):
    """Although its owner acquires a lock of that name in another database."""
    there, elsewhere = server.client(db=lost), server.client(db=taken)
    assert there.execute_command("LOCK.ACQUIRE", "k", "oa") == 1
    dies, behind = (waits(actor(db=lost), f"LOCK.ACQUIRE k {owner}") for owner in ("ob", "oc"))
    kill = f"CLIENT KILL ID {dies.client_id}"
    send_at_once(server, f"SELECT {lost}", RELEASE, kill, f"SELECT {taken}", f"LOCK.ACQUIRE k ob PX {LONG}")
    assert behind.reply() == 1
    assert there.hgetall("k") == {"oc": "1"}
    assert elsewhere.hgetall("k") == {"ob": "1"}


def test_promoted_again_it_releases_no_earlier_lost_hold(make_server):
    """The same owner holds the lock on the other master now."""
    server, master = make_server(), make_server()
    assert master.control.execute_command("LOCK.ACQUIRE", "k", "ob", "PX", LONG) == 1
    scene = GrantScene(server)
    scene.send_at_once(RELEASE, KILL, f"REPLICAOF 127.0.0.1 {master.port}")
    scene.b.wait_closed()
    wait_for_sync(master, server)
    wait_for(lambda: server.info("lock")["lock_contended_locks"] == 0, what="the waits to be forgotten")
    server.settle(30)
    server.control.execute_command("REPLICAOF", "NO", "ONE")
    assert_handed_off(server, server.actor)
    assert server.control.hgetall("k") == {"ob": "1"}


@pytest.mark.parametrize("others", [False, True], ids=["alone", "owner holds the other one"])
@pytest.mark.parametrize("swap", ["SWAPDB 0 1", "SWAPDB 1 0"])
def test_lost_hold_is_released_in_its_database_after_a_swap(server, actor, swap, others):
    here, there = server.client(db=0), server.client(db=1)
    assert here.execute_command("LOCK.ACQUIRE", "k", "oa") == 1
    if others:
        assert there.execute_command("LOCK.ACQUIRE", "k", "ob", "PX", LONG) == 1
    dies = waits(actor(), "LOCK.ACQUIRE k ob")
    send_at_once(server, RELEASE, f"CLIENT KILL ID {dies.client_id}", swap)
    dies.wait_closed()
    assert_handed_off(server, actor)
    assert there.hgetall("k") == {}
    assert here.hgetall("k") == ({"ob": "1"} if others else {})
