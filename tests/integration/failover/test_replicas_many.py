"""REPLICAS n ms: ten thousand answers that wait at once, how the replicas are asked, and what nobody pays without it."""

import time

import pytest

from harness import fewer, scaled, scaled_ms, wait_for, wait_for_sync
from model.replicas_scene import LONG, awaiting, begin, questions, silent, wait_awaiting, with_replicas

MANY = 10_000


@pytest.fixture(scope="module")
def new_server():
    return with_replicas(1)


@pytest.fixture
def replica(server):
    return server.replicas[0]


@pytest.fixture
def size(server):
    server.control.config_set("maxclients", 15_000)
    server.control.config_set("lock.default-lease", LONG)
    return fewer(MANY)


def connections(server, size, words):
    """As many that have each said a command, and wait for replicas."""
    sockets = [server.raw_connection() for _ in range(size)]
    for number, sock in enumerate(sockets):
        sock.sendall(words.replace("#", str(number)).encode() + b"\r\n")
    wait_for(lambda: awaiting(server) == size, 60, f"{size} answers to wait for replicas")
    return sockets


def answers(sockets):
    for sock in sockets:
        sock.settimeout(scaled(60))
    return {sock.recv(200) for sock in sockets}


def test_ten_thousand_are_told(server, replica, size):
    with silent(replica):
        sockets = connections(server, size, f"LOCK.ACQUIRE k# o REPLICAS 1 {LONG}")
    assert answers(sockets) == {b":1\r\n"}
    wait_for_sync(server, replica)
    assert replica.control.dbsize() == size


def test_few_questions_serve_all_that_wait(server, replica, actor):
    """One that is under way, one for all that come afterwards, and one for each tenth of a second without an answer."""
    before, began = questions(replica), time.monotonic()
    with silent(replica):
        actors = [begin(server, actor(), "LOCK.ACQUIRE", f"k{n}", "o", "REPLICAS", 1, LONG) for n in range(60)]
    assert [a.reply() for a in actors] == [1] * 60
    asked = questions(replica) - before
    assert 0 < asked <= 3 + 10 * (time.monotonic() - began)


def test_all_that_are_not_acknowledged_are_released(server, replica, size):
    with silent(replica):
        sockets = [server.raw_connection() for _ in range(size)]
        for number, sock in enumerate(sockets):
            sock.sendall(f"LOCK.ACQUIRE k{number} o REPLICAS 1 {scaled_ms(1000)}\r\n".encode())
        told = answers(sockets)
        assert {answer.split()[0] for answer in told} == {b"-NOREPLICAS"}
        assert server.control.dbsize() == 0
    assert awaiting(server) == 0


def test_all_whose_clients_die_are_released(server, replica, size):
    with silent(replica):
        for sock in connections(server, size, f"LOCK.RWREAD k o# REPLICAS 1 {LONG}"):
            sock.close()
        wait_for(lambda: server.control.dbsize() == 0, 60, "all holds to be released")


def test_one_release_lets_thousands_in_who_are_told_together(server, replica, actor, size):
    server.control.execute_command("LOCK.RWWRITE", "k", "w", "PX", LONG)
    sockets = [server.raw_connection() for _ in range(size)]
    for number, sock in enumerate(sockets):
        sock.sendall(f"LOCK.RWREAD k o{number} PX {LONG} BLOCK 0 REPLICAS 1 {LONG}\r\n".encode())
    wait_for(lambda: server.info("lock")["lock_waiters"] == size, 60, "all to wait")
    actor("w").send("LOCK.RELEASE", "k", "w")
    assert answers(sockets) == {b":1\r\n"}
    assert replica.control.hlen("k") == size + 1


def test_replicas_are_asked_and_not_waited_for(server, replica, actor):
    """By themselves they acknowledge once a second."""
    a, before = actor("a"), questions(replica)
    for number in range(20):
        assert a.call("LOCK.ACQUIRE", f"k{number}", "o", "REPLICAS", 1, LONG) == 1
    assert questions(replica) - before >= 10


def test_nobody_is_asked_without_it(server, replica, actor):
    wait_for_sync(server, replica)  # the last test's last question has been asked
    before = questions(replica)
    for _ in range(10):
        server.control.execute_command("LOCK.ACQUIRE", "k", "o")
        server.control.execute_command("LOCK.RENEW", "k", "o")
        server.control.execute_command("LOCK.RELEASE", "k", "o")
    server.settle()
    wait_for_sync(server, replica)
    assert questions(replica) == before


def test_nobody_is_asked_any_more_when_all_have_been_told(server, replica, actor):
    assert actor("a").call("LOCK.ACQUIRE", "k", "o", "REPLICAS", 1, LONG) == 1
    wait_for_sync(server, replica)  # the last question has been asked
    before = questions(replica)
    server.let_pass(300)
    wait_for_sync(server, replica)
    assert questions(replica) == before


def test_commands_behind_a_wait_that_has_just_ended(server, replica, actor):
    """They run when the look of that turn has been made already: the server is not to sleep on it."""
    server.control.execute_command("LOCK.ACQUIRE", "k", "x")
    a = actor("a")
    a.send("LOCK.ACQUIRE", "k", "o", "BLOCK", 0)
    a.wait_blocked()
    for number in range(5):
        a.send("LOCK.ACQUIRE", f"l{number}", "o", "REPLICAS", 1, LONG)
    server.control.execute_command("LOCK.RELEASE", "k", "x")
    assert [a.reply() for _ in range(6)] == [1] * 6


def test_answers_in_a_pipeline_come_in_order(server, replica, actor):
    a = actor("a")
    for number in range(50):
        a.send("LOCK.ACQUIRE", f"k{number}", "o", "REPLICAS", 1, LONG)
        a.send("LOCK.RELEASE", f"k{number}", "o")
    assert [a.reply() for _ in range(100)] == [1, 0] * 50


def test_monitor_shows_what_clients_say_and_nothing_else(server, replica, actor):
    with server.control.monitor() as monitor:
        assert actor("a").call("LOCK.ACQUIRE", "k", "o", "REPLICAS", 1, LONG) == 1
        actor("b").call("ECHO", "end")
        heard = []
        while not heard or "end" not in heard[-1]:
            heard.append(monitor.next_command()["command"])
    assert [words for words in heard if words.split()[0].upper() not in ("LOCK.ACQUIRE", "ECHO", "CLIENT", "HELLO")] == []


def test_others_go_on_while_a_replica_is_silent(server, replica, actor):
    with silent(replica):
        a = begin(server, actor("a"), "LOCK.ACQUIRE", "k", "o", "REPLICAS", 1, LONG)
        for number in range(500):
            server.control.set("k2", number)
        wait_awaiting(server, 1)
        assert not a.has_reply()
    assert a.reply() == 1
