"""Ten thousand watches of one lock, and of as many locks: told in slices, and each costs what it costs alone."""

import select

import pytest

from harness import failpoint, fewer, scaled, wait_for
from model.watch_scene import HOUR, watchers

MANY = 10_000


def connections(server, size, words):
    """As many that have each said a command, and watch."""
    sockets = [server.raw_connection() for _ in range(size)]
    for number, sock in enumerate(sockets):
        sock.sendall(words.replace("#", str(number)).encode() + b"\r\n")
    wait_for(lambda: watchers(server) == size, 60, f"{size} to watch")
    return sockets


def say_all(server, size, words):
    pipeline = server.control.pipeline(transaction=False)
    for number in range(size):
        pipeline.execute_command(*words.replace("#", str(number)).split())
    return pipeline.execute()


def answers(sockets):
    for sock in sockets:
        sock.settimeout(scaled(60))
    return {sock.recv(100) for sock in sockets}


@pytest.fixture
def size(server):
    server.control.config_set("maxclients", 15_000)
    return fewer(MANY)


@pytest.mark.parametrize("loss", ["LOCK.RELEASE k o", "LOCK.FORCE k", "DEL k", "PEXPIRE k 1", "SET k v"])
def test_one_lock_of_one_owner(server, size, loss):
    server.control.execute_command("LOCK.ACQUIRE", "k", "o", "PX", HOUR)
    sockets = connections(server, size, "LOCK.WATCH k o BLOCK 0")
    server.actor().send(*loss.split())
    assert answers(sockets) == {b"+LOST\r\n"}


def test_they_are_told_in_slices(server, checking_build):
    """The third of them has not begun: some have been told, and most have not."""
    size = 800
    server.control.execute_command("LOCK.ACQUIRE", "k", "o", "PX", HOUR)
    sockets = connections(server, size, "LOCK.WATCH k o BLOCK 0")
    failpoint.arm(server, "drain.begun", "stop", 3)
    server.actor().send("LOCK.RELEASE", "k", "o")
    with failpoint.standing(server):
        told = [sock for sock in sockets if select.select([sock], [], [], 0)[0]]
    assert 0 < len(told) < size / 2
    assert answers(sockets) == {b"+LOST\r\n"}


def test_one_lock_of_as_many_readers(server, size):
    say_all(server, size, f"LOCK.RWREAD k o# PX {HOUR}")
    sockets = connections(server, size, "LOCK.WATCH k o# BLOCK 0")
    # Each release tells one, and looks at one.
    for number in (0, size // 2, size - 1):
        assert server.control.execute_command("LOCK.RELEASE", "k", f"o{number}") == 0
        assert answers([sockets.pop(number - (number > 0) - (number == size - 1))]) == {b"+LOST\r\n"}
    wait_for(lambda: watchers(server) == size - 3, what="three to be told")
    server.control.execute_command("LOCK.FORCE", "k")
    assert answers(sockets) == {b"+LOST\r\n"}


def test_one_lock_of_readers_whose_leases_end_one_after_the_other(server, size):
    """Each end tells one. All to be looked at each time would take minutes."""
    say_all(server, size, f"LOCK.RWREAD k o# PX {HOUR}")
    sockets = connections(server, size, "LOCK.WATCH k o# BLOCK 0")
    pipeline = server.control.pipeline(transaction=True)
    for number in range(size):
        pipeline.execute_command("LOCK.RENEW", "k", f"o{number}", "PX", 500 + number // 10)
    pipeline.execute()
    assert answers(sockets) == {b"+LOST\r\n"}


@pytest.mark.parametrize("loss", ["FLUSHALL", "release", "lease end"])
def test_as_many_locks(server, size, loss):
    say_all(server, size, f"LOCK.ACQUIRE k# o PX {HOUR}")
    sockets = connections(server, size, "LOCK.WATCH k# o WANTED BLOCK 0")
    if loss == "FLUSHALL":
        server.control.flushall()
    else:
        say_all(server, size, "LOCK.RELEASE k# o" if loss == "release" else "LOCK.RENEW k# o PX 200")
    assert answers(sockets) == {b"+LOST\r\n"}
    assert watchers(server) == 0


def test_wanted_is_told_to_all_watches_of_one_lock(server, actor, size):
    server.control.execute_command("LOCK.ACQUIRE", "k", "o", "PX", HOUR)
    sockets = connections(server, size, "LOCK.WATCH k o WANTED BLOCK 0")
    waiter = actor()
    waiter.send("LOCK.ACQUIRE", "k", "p", "BLOCK", 0)
    waiter.wait_blocked()
    assert answers(sockets) == {b"+WANTED\r\n"}


def test_watches_of_who_waits_himself_do_not_delay_others(server, actor, size):
    """None of them is told WANTED by its own owner's wait; and all are, by another's."""
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
    assert answers(sockets) == {b"+WANTED\r\n"}
