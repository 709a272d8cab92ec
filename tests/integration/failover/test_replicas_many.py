"""REPLICAS n ms: ten thousand replies that wait at once, how many requests to acknowledge the replicas get, and that
there are none without REPLICAS."""

import time

import pytest

from harness import fewer, scaled, scaled_ms, wait_for, wait_for_sync
from model.replicas_scene import LONG, awaiting, begin, ack_requests, silent, wait_awaiting, with_replicas

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
    """Connections that have each sent a command, and wait for replicas."""
    sockets = [server.raw_connection() for _ in range(size)]
    for number, sock in enumerate(sockets):
        sock.sendall(words.replace("#", str(number)).encode() + b"\r\n")
    wait_for(lambda: awaiting(server) == size, 60, f"{size} replies to wait for replicas")
    return sockets


def replies(sockets):
    for sock in sockets:
        sock.settimeout(scaled(60))
    return {sock.recv(200) for sock in sockets}


def test_ten_thousand_replies_are_sent_when_acknowledged(server, replica, size):
    with silent(replica):
        sockets = connections(server, size, f"LOCK.ACQUIRE k# o REPLICAS 1 {LONG}")
    assert replies(sockets) == {b":1\r\n"}
    wait_for_sync(server, replica)
    assert replica.control.dbsize() == size


def test_few_requests_to_acknowledge_serve_all_waits(server, replica, actor):
    """One that is already sent, one for all later waits, and one for each tenth of a second without a reply."""
    before, began = ack_requests(replica), time.monotonic()
    with silent(replica):
        actors = [begin(server, actor(), "LOCK.ACQUIRE", f"k{n}", "o", "REPLICAS", 1, LONG) for n in range(60)]
    assert [a.reply() for a in actors] == [1] * 60
    sent = ack_requests(replica) - before
    assert 0 < sent <= 3 + 10 * (time.monotonic() - began)


def test_thousands_of_grants_not_acknowledged_are_released(server, replica, size):
    with silent(replica):
        sockets = [server.raw_connection() for _ in range(size)]
        for number, sock in enumerate(sockets):
            sock.sendall(f"LOCK.ACQUIRE k{number} o REPLICAS 1 {scaled_ms(1000)}\r\n".encode())
        assert {reply.split()[0] for reply in replies(sockets)} == {b"-NOREPLICAS"}
        assert server.control.dbsize() == 0
    assert awaiting(server) == 0


def test_thousands_of_grants_are_released_when_their_clients_die(server, replica, size):
    with silent(replica):
        for sock in connections(server, size, f"LOCK.RWREAD k o# REPLICAS 1 {LONG}"):
            sock.close()
        wait_for(lambda: server.control.dbsize() == 0, 60, "all holds to be released")


def test_one_release_grants_thousands_and_all_replies_are_sent(server, replica, actor, size):
    server.control.execute_command("LOCK.RWWRITE", "k", "w", "PX", LONG)
    sockets = [server.raw_connection() for _ in range(size)]
    for number, sock in enumerate(sockets):
        sock.sendall(f"LOCK.RWREAD k o{number} PX {LONG} BLOCK 0 REPLICAS 1 {LONG}\r\n".encode())
    wait_for(lambda: server.info("lock")["lock_waiters"] == size, 60, "all to wait")
    actor("w").send("LOCK.RELEASE", "k", "w")
    assert replies(sockets) == {b":1\r\n"}
    assert replica.control.hlen("k") == size + 1


def test_each_grant_requests_an_acknowledgement(server, replica, actor):
    """By themselves replicas acknowledge only once a second."""
    a, before = actor("a"), ack_requests(replica)
    for number in range(20):
        assert a.call("LOCK.ACQUIRE", f"k{number}", "o", "REPLICAS", 1, LONG) == 1
    assert ack_requests(replica) - before >= 10


def test_no_acknowledgement_is_requested_without_REPLICAS(server, replica, actor):
    wait_for_sync(server, replica)  # the last request of the test before has arrived
    before = ack_requests(replica)
    for _ in range(10):
        server.control.execute_command("LOCK.ACQUIRE", "k", "o")
        server.control.execute_command("LOCK.RENEW", "k", "o")
        server.control.execute_command("LOCK.RELEASE", "k", "o")
    server.settle()
    wait_for_sync(server, replica)
    assert ack_requests(replica) == before


def test_no_acknowledgement_is_requested_after_the_last_reply(server, replica, actor):
    assert actor("a").call("LOCK.ACQUIRE", "k", "o", "REPLICAS", 1, LONG) == 1
    wait_for_sync(server, replica)  # the last request has arrived
    before = ack_requests(replica)
    server.let_pass(300)
    wait_for_sync(server, replica)
    assert ack_requests(replica) == before


def test_commands_behind_a_wait_that_has_just_ended_are_replied(server, replica, actor):
    """They run when the check of that event-loop iteration has been done already: the server must not sleep then."""
    server.control.execute_command("LOCK.ACQUIRE", "k", "x")
    a = actor("a")
    a.send("LOCK.ACQUIRE", "k", "o", "BLOCK", 0)
    a.wait_blocked()
    for number in range(5):
        a.send("LOCK.ACQUIRE", f"l{number}", "o", "REPLICAS", 1, LONG)
    server.control.execute_command("LOCK.RELEASE", "k", "x")
    assert [a.reply() for _ in range(6)] == [1] * 6


def test_replies_in_a_pipeline_are_in_order(server, replica, actor):
    a = actor("a")
    for number in range(50):
        a.send("LOCK.ACQUIRE", f"k{number}", "o", "REPLICAS", 1, LONG)
        a.send("LOCK.RELEASE", f"k{number}", "o")
    assert [a.reply() for _ in range(100)] == [1, 0] * 50


def test_MONITOR_shows_only_the_commands_of_clients(server, replica, actor):
    with server.control.monitor() as monitor:
        assert actor("a").call("LOCK.ACQUIRE", "k", "o", "REPLICAS", 1, LONG) == 1
        actor("b").call("ECHO", "end")
        seen = []
        while not seen or "end" not in seen[-1]:
            seen.append(monitor.next_command()["command"])
    assert [words for words in seen if words.split()[0].upper() not in ("LOCK.ACQUIRE", "ECHO", "CLIENT", "HELLO")] == []


def test_other_clients_are_served_while_a_replica_is_silent(server, replica, actor):
    with silent(replica):
        a = begin(server, actor("a"), "LOCK.ACQUIRE", "k", "o", "REPLICAS", 1, LONG)
        for number in range(500):
            server.control.set("k2", number)
        wait_awaiting(server, 1)
        assert not a.has_reply()
    assert a.reply() == 1
