"""Ten thousand watches of one lock, and of as many locks: they are notified in time slices, at the cost of one each."""

import pytest

from harness import fewer, scaled, wait_for
from model.timeslice_scene import check_notified_in_time_slices
from model.watch_scene import HOUR, watchers

MANY = 10_000


def connections(server, size, words):
    """`size` connections that have each sent the command, and watch."""
    sockets = [server.raw_connection() for _ in range(size)]
    for number, sock in enumerate(sockets):
        sock.sendall(words.replace("#", str(number)).encode() + b"\r\n")
    wait_for(lambda: watchers(server) == size, 60, f"{size} to watch")
    return sockets


def run_all(server, size, words):
    pipeline = server.control.pipeline(transaction=False)
    for number in range(size):
        pipeline.execute_command(*words.replace("#", str(number)).split())
    return pipeline.execute()


def replies_of(sockets):
    for sock in sockets:
        sock.settimeout(scaled(60))
    return {sock.recv(100) for sock in sockets}


@pytest.fixture
def size(server):
    server.control.config_set("maxclients", 15_000)
    return fewer(MANY)


@pytest.mark.parametrize("loss", ["LOCK.RELEASE k o", "LOCK.FORCE k", "DEL k", "PEXPIRE k 1", "SET k v"])
def test_watches_of_one_owner_all_receive_lost(server, size, loss):
    server.control.execute_command("LOCK.ACQUIRE", "k", "o", "PX", HOUR)
    sockets = connections(server, size, "LOCK.WATCH k o BLOCK 0")
    server.actor().send(*loss.split())
    assert replies_of(sockets) == {b"+LOST\r\n"}


def test_watches_are_notified_in_time_slices(server, checking_build):
    server.control.execute_command("LOCK.ACQUIRE", "k", "o", "PX", HOUR)
    sockets = connections(server, 800, "LOCK.WATCH k o BLOCK 0")
    check_notified_in_time_slices(server, sockets, "LOCK.RELEASE", "k", "o")
    assert replies_of(sockets) == {b"+LOST\r\n"}


def test_release_notifies_only_the_watch_of_its_reader(server, size):
    run_all(server, size, f"LOCK.RWREAD k o# PX {HOUR}")
    sockets = connections(server, size, "LOCK.WATCH k o# BLOCK 0")
    # Each release notifies one watch, and checks one.
    for number in (0, size // 2, size - 1):
        assert server.control.execute_command("LOCK.RELEASE", "k", f"o{number}") == 0
        assert replies_of([sockets.pop(number - (number > 0) - (number == size - 1))]) == {b"+LOST\r\n"}
    wait_for(lambda: watchers(server) == size - 3, what="three to be notified")
    server.control.execute_command("LOCK.FORCE", "k")
    assert replies_of(sockets) == {b"+LOST\r\n"}


def test_leases_of_readers_that_expire_one_after_another_are_notified(server, size):
    """Each end notifies one watch. To check all watches each time would take minutes."""
    run_all(server, size, f"LOCK.RWREAD k o# PX {HOUR}")
    sockets = connections(server, size, "LOCK.WATCH k o# BLOCK 0")
    pipeline = server.control.pipeline(transaction=True)
    for number in range(size):
        pipeline.execute_command("LOCK.RENEW", "k", f"o{number}", "PX", 500 + number // 10)
    pipeline.execute()
    assert replies_of(sockets) == {b"+LOST\r\n"}


@pytest.mark.parametrize("loss", ["FLUSHALL", "release", "lease end"])
def test_watches_of_as_many_locks_all_receive_lost(server, size, loss):
    run_all(server, size, f"LOCK.ACQUIRE k# o PX {HOUR}")
    sockets = connections(server, size, "LOCK.WATCH k# o WANTED BLOCK 0")
    if loss == "FLUSHALL":
        server.control.flushall()
    else:
        run_all(server, size, "LOCK.RELEASE k# o" if loss == "release" else "LOCK.RENEW k# o PX 200")
    assert replies_of(sockets) == {b"+LOST\r\n"}
    assert watchers(server) == 0


def test_wanted_is_sent_to_all_watches_of_one_lock(server, actor, size):
    server.control.execute_command("LOCK.ACQUIRE", "k", "o", "PX", HOUR)
    sockets = connections(server, size, "LOCK.WATCH k o WANTED BLOCK 0")
    waiter = actor()
    waiter.send("LOCK.ACQUIRE", "k", "p", "BLOCK", 0)
    waiter.wait_blocked()
    assert replies_of(sockets) == {b"+WANTED\r\n"}


def test_watches_of_an_owner_that_waits_do_not_delay_others(server, actor, size):
    """None of them receives WANTED for a wait of its own owner; all do for a wait of another owner."""
    for owner in ("o", "x"):
        server.control.execute_command("LOCK.RWREAD", "k", owner, "PX", HOUR)
    sockets = connections(server, size, "LOCK.WATCH k o WANTED BLOCK 0")
    own, other = actor(), actor()
    own.send("LOCK.RWWRITE", "k", "o", "BLOCK", 0)
    own.wait_blocked()
    server.settle(20)
    assert watchers(server) == size
    other.send("LOCK.RWWRITE", "k", "p", "BLOCK", 0)
    other.wait_blocked()
    assert replies_of(sockets) == {b"+WANTED\r\n"}
