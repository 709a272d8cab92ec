"""LOCK.CANCEL of more waits than a time slice can remove from their queues: after its reply they are granted nothing.

Commands in one packet run before the drain continues, so all of them find cancelled waits that are still in the queue.
"""

import pytest

from harness import wait_for
from harness.schedule import as_map
from model.crowd import Crowd

LONG = 600_000
KEYS = [f"k{number}" for number in range(1024)]

# What "LOCK.CANCEL k7 o" cancels: the request of each wait, and their number.
MANY = {
    "one key": (f"LOCK.ACQUIRE k7 o PX {LONG} BLOCK 0", 2000),
    "1,024 keys": (f"LOCK.MACQUIRE {len(KEYS)} {' '.join(KEYS)} o PX {LONG} BLOCK 0", 30),
}
NULL = b"$-1\r\n"


@pytest.fixture(params=MANY)
def crowd(server, request):
    """Waits of `o`, while `x` holds k7."""
    command, count = MANY[request.param]
    server.control.execute_command("LOCK.ACQUIRE", "k7", "x", "PX", LONG)
    waits = Crowd(server, *[command] * count)
    server.all_searched(60)
    return waits


def waiting(info):
    return as_map(info)["waiting"]


def pipelined(server, *commands):
    """A connection that has sent the commands in one packet."""
    sock = server.raw_connection()
    sock.sendall("".join(f"{command}\r\n" for command in commands).encode())
    return sock


def assert_none_is_granted(server, crowd):
    crowd.expect_waiting(0)
    assert set(crowd.replies()) == {NULL}
    wait_for(lambda: server.info("lock")["lock_contended_locks"] == 0, 30, "no lock to be contended")
    assert not any(server.control.hexists(key, "o") for key in KEYS)


def test_none_is_granted_although_the_lock_becomes_free(server, crowd, at_once):
    cancelled, left, released, _ = at_once("LOCK.CANCEL k7 o", "LOCK.INFO k7 COUNT 0", "LOCK.RELEASE k7 x", "PING")
    assert (cancelled, waiting(left) > 0, released) == (1, True, 0)
    assert_none_is_granted(server, crowd)
    assert server.control.dbsize() == 0


def test_none_is_granted_although_the_lock_is_forced(server, crowd, at_once):
    assert at_once("LOCK.CANCEL k7 o", "LOCK.FORCE k7") == [1, 1]
    assert_none_is_granted(server, crowd)


def test_none_is_granted_although_the_owner_acquires_the_lock(server, crowd, at_once):
    assert at_once("LOCK.CANCEL k7 o", "LOCK.RELEASE k7 x", f"LOCK.ACQUIRE k7 o PX {LONG}") == [1, 0, 1]
    crowd.expect_waiting(0)
    assert set(crowd.replies()) == {NULL}
    assert server.control.hgetall("k7") == {"o": "1"}


def test_next_waiter_behind_them_is_granted(server, crowd, actor, at_once):
    other = actor("other")
    other.send("LOCK.ACQUIRE", "k7", "other", "PX", LONG, "BLOCK", 0)
    other.wait_blocked()
    assert at_once("LOCK.CANCEL k7 o", "LOCK.RELEASE k7 x") == [1, 0]
    assert other.reply() == 1
    assert_none_is_granted(server, crowd)


def test_new_request_of_the_owner_is_behind_the_next_waiter(server, crowd, actor, at_once):
    """The owner has acquired no hold, so its new wait is no re-entry."""
    other = actor("other")
    other.send("LOCK.ACQUIRE", "k7", "other", "PX", LONG, "BLOCK", 0)
    other.wait_blocked()
    again = pipelined(server, "LOCK.CANCEL k7 o", f"LOCK.ACQUIRE k7 o PX {LONG} BLOCK 0")
    assert again.recv(100) == b":1\r\n"
    assert server.control.execute_command("LOCK.RELEASE", "k7", "x") == 0
    assert other.reply() == 1
    crowd.expect_waiting(1)
    assert server.control.hgetall("k7") == {"other": "1"}
    assert server.control.execute_command("LOCK.RELEASE", "k7", "other") == 0
    assert again.recv(100) == b":1\r\n"


def test_second_cancel_finds_nothing(server, crowd, at_once):
    assert at_once("LOCK.CANCEL k7 o", "LOCK.CANCEL k7 o", "LOCK.CANCEL k7 o RELEASE") == [1, 0, 0]
    assert_none_is_granted(server, crowd)


def test_wait_that_begins_afterwards_is_not_cancelled(server, crowd):
    sock = pipelined(server, "LOCK.CANCEL k7 o", "LOCK.ACQUIRE k7 o BLOCK 0")
    crowd.expect_waiting(1)
    assert set(crowd.replies()) == {NULL}
    assert server.control.execute_command("LOCK.RELEASE", "k7", "x") == 0
    wait_for(lambda: server.control.hgetall("k7") == {"o": "1"})
    assert server.control.execute_command("LOCK.RELEASE", "k7", "o") == 0
    assert sock.recv(100) == b":1\r\n:1\r\n"


def test_later_waits_are_cancelled_by_another_cancel(server, crowd):
    sock = pipelined(server, "LOCK.CANCEL k7 o", "LOCK.ACQUIRE k7 o BLOCK 0")
    assert sock.recv(100) == b":1\r\n"
    assert server.control.execute_command("LOCK.CANCEL", "k7", "o") == 1
    assert sock.recv(100) == NULL
    assert_none_is_granted(server, crowd)


def test_no_cycle_is_found_through_them(server, crowd):
    """`o` holds j, and does not wait for the lock of `x` any more."""
    server.control.execute_command("LOCK.ACQUIRE", "j", "o", "PX", LONG)
    sock = pipelined(server, "LOCK.CANCEL k7 o", "LOCK.ACQUIRE j x BLOCK 0")
    crowd.expect_waiting(1)
    server.all_searched(60)
    assert server.control.execute_command("LOCK.RELEASE", "j", "o") == 0
    wait_for(lambda: server.control.hgetall("j") == {"x": "1"})
    assert sock.recv(100) == b":1\r\n:1\r\n"


def test_clients_may_disconnect_during_a_cancel(server, crowd, at_once):
    sock = pipelined(server, "LOCK.CANCEL k7 o", "LOCK.RELEASE k7 x")
    crowd.die()
    crowd.expect_waiting(0)
    wait_for(lambda: server.info("lock")["lock_contended_locks"] == 0, 30, "no lock to be contended")
    assert server.control.dbsize() == 0
    sock.close()


def test_cancelled_waits_end_while_clients_are_paused(server, crowd, at_once):
    assert at_once("LOCK.CANCEL k7 o", f"CLIENT PAUSE {LONG} WRITE") == [1, "OK"]
    try:
        crowd.expect_waiting(0)
        assert set(crowd.replies()) == {NULL}
    finally:
        server.control.client_unpause()


def test_keys_may_be_flushed_during_a_cancel(server, crowd, at_once):
    assert at_once("LOCK.CANCEL k7 o", "FLUSHALL")[0] == 1
    assert_none_is_granted(server, crowd)


def test_databases_may_be_swapped_during_a_cancel(server, crowd, at_once):
    assert at_once("LOCK.CANCEL k7 o", "SWAPDB 0 1")[0] == 1
    assert_none_is_granted(server, crowd)


def test_role_may_change_during_a_cancel(server, crowd, at_once):
    assert at_once("LOCK.CANCEL k7 o", "REPLICAOF 127.0.0.1 1")[0] == 1
    wait_for(lambda: server.info("lock")["lock_contended_locks"] == 0, 30, "all waits to be forgotten")
    server.control.execute_command("REPLICAOF", "NO", "ONE")


def test_fair_position_that_is_cancelled_is_not_taken_over(server, actor, at_once):
    """A new request gets a new position, at the end."""
    server.control.execute_command("LOCK.ACQUIRE", "k", "x", "PX", LONG)
    crowd = Crowd(server, *["LOCK.ACQUIRE k o BLOCK 0"] * 600, "LOCK.FAIR k o BLOCK 0")
    other = actor("other")
    other.send("LOCK.FAIR", "k", "other", "PX", LONG, "BLOCK", 0)
    other.wait_blocked()
    sock = pipelined(server, "LOCK.CANCEL k o", "LOCK.FAIR k o BLOCK 0", "PING")
    crowd.expect_waiting(2)
    assert set(crowd.replies()) == {NULL}
    wait_for(lambda: server.control.zrange("lock:queue:{k}", 0, -1) == ["other", "o"], what="both to be written")
    assert server.control.execute_command("LOCK.RELEASE", "k", "x") == 0
    assert other.reply() == 1
    assert server.control.execute_command("LOCK.RELEASE", "k", "other") == 0
    wait_for(lambda: server.control.hgetall("k") == {"o": "1"})
    sock.close()
