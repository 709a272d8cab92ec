"""When the connection of a session closes, its holds are released and handed off after the grace."""

import socket
import struct
import time

import pytest
from redis.exceptions import ResponseError

from harness import scaled, scaled_ms, wait_for
from harness.schedule import as_map
from model.session_scene import COMMANDS, GRACE, LONG, begin_to_wait, each_command, each_way_to_die, grace_passes
from model.session_scene import holders, wait_free, wait_noticed
from model.session_scene import long_grace, server  # noqa: F401


@each_way_to_die
@each_command
def test_hold_is_released_and_handed_off_after_the_grace(server, actor, dies, command):
    a = actor()
    a.call(command, "k", "o", "SESSION")
    b = begin_to_wait(actor, "w", command="LOCK.RWWRITE" if "RW" in command else command)
    before = server.now_ms()
    dies(a)
    assert b.reply() == 1
    assert server.now_ms() - before >= GRACE
    [(owner, _)] = holders(server)
    assert owner == "w"


@each_way_to_die
def test_hold_is_released_without_waiting_for_the_servers_cron(make_server, dies):
    """The cron runs once a second here, and Redis 7.0 may sleep for so long after it has closed the connection."""
    server = make_server(hz=1, lock_session_grace=0)
    took = []
    for _ in range(7):
        a = server.actor()
        a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
        b = begin_to_wait(server.actor, "w")
        server.all_searched()
        began = time.monotonic()
        dies(a)
        assert b.reply() == 1
        took.append(time.monotonic() - began)
        assert b.call("LOCK.RELEASE", "k", "w") == 0
    assert min(took) < scaled(0.3), took


def test_lock_is_free_after_the_grace_without_waiters(server, actor):
    for command in COMMANDS:
        actor().call(command, command, "o", "SESSION")
    server.disconnect_clients()
    wait_for(lambda: server.control.dbsize() == 0, 10, "all to be released")
    assert server.dump() == {}


def test_lease_of_another_reader_is_unchanged(server, actor):
    """The lease of the session ends later, until it is released: then the key expires with the other lease."""
    server.control.config_set("lock.default-lease", 3 * LONG)
    a = actor()
    a.call("LOCK.RWREAD", "k", "o", "SESSION")
    assert server.control.execute_command("LOCK.RWREAD", "k", "other", "PX", LONG) == 1
    end = server.control.zscore("lock:lease:{k}", "other")
    a.kill_socket()
    wait_for(lambda: set(holders(server)) == {("other", "read")}, 10, "the session's hold to be released")
    ends = [server.control.execute_command("PEXPIRETIME", key) for key in ("k", "lock:lease:{k}")]
    assert ends == [end, end]
    (other,) = as_map(server.control.execute_command("LOCK.INFO", "k"))["holders"]
    assert as_map(other)["pttl"] <= LONG


def test_hold_is_not_released_before_the_grace_ends(server, actor, long_grace):
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    b = begin_to_wait(actor, "w")
    a.kill_socket()
    wait_noticed(server)
    server.let_pass(3 * GRACE)
    assert b.is_blocked() and not b.has_reply()
    assert holders(server) == {("o", "exclusive"): (1, None)}


def test_grace_of_zero_releases_at_once_or_is_refused(server, actor):
    try:
        server.control.config_set("lock.session-grace", 0)
    except ResponseError:
        pytest.skip("a grace of 0 is out of range")
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    b = begin_to_wait(actor, "w")
    a.kill_socket()
    assert b.reply() == 1


def test_lower_grace_applies_to_closed_connections_too(server, actor, long_grace):
    first, second = actor(), actor()
    first.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    for n in range(3):
        second.call("LOCK.ACQUIRE", f"l{n}", "o", "SESSION")
    first.kill_socket()
    wait_noticed(server)
    server.control.config_set("lock.session-grace", GRACE)
    b = begin_to_wait(actor, "w", key="l1")
    second.kill_socket()
    assert b.reply() == 1
    wait_free(server, "l0", "l2", "k")


def test_longer_grace_applies_to_closed_connections_too(server, actor):
    server.control.config_set("lock.session-grace", scaled_ms(2000))
    first, second = actor(), actor()
    first.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    second.call("LOCK.ACQUIRE", "l", "o", "SESSION")
    first.kill_socket()
    wait_noticed(server)
    server.control.config_set("lock.session-grace", LONG)
    second.kill_socket()
    wait_noticed(server, "l")
    server.let_pass(scaled_ms(2000))
    assert holders(server) == holders(server, "l") == {("o", "exclusive"): (1, None)}


def test_all_holds_of_a_connection_are_released(server, actor):
    a, others = actor(), actor()
    for n in range(100):
        for _ in range(n % 3 + 1):
            a.call(COMMANDS[n % 4], f"k{n}", f"o{n}", "SESSION")
    others.call("LOCK.ACQUIRE", "mine", "o", "SESSION")
    others.call("LOCK.ACQUIRE", "leased", "o", "PX", LONG)
    a.call("LOCK.ACQUIRE", "leased too", "o", "PX", LONG)
    a.kill_socket()
    wait_for(lambda: server.control.dbsize() == 3, 10, "all to be released")
    grace_passes(server)
    assert set(server.control.keys("*")) == {"mine", "leased", "leased too"}


def test_read_and_write_holds_of_an_owner_are_all_released(server, actor):
    a = actor()
    a.call("LOCK.RWWRITE", "k", "o", "SESSION")
    a.call("LOCK.RWWRITE", "k", "o", "SESSION")
    a.call("LOCK.RWREAD", "k", "o", "SESSION")
    b = begin_to_wait(actor, "w", command="LOCK.RWWRITE")
    a.kill_socket()
    assert b.reply() == 1
    assert holders(server) == {("w", "write"): (1, None)}


def test_only_the_hold_of_the_dead_reader_is_released(server, actor):
    a, b = actor(), actor()
    a.call("LOCK.RWREAD", "k", "a", "SESSION")
    b.call("LOCK.RWREAD", "k", "b", "SESSION")
    writer = begin_to_wait(actor, "w", command="LOCK.RWWRITE")
    a.kill_socket()
    wait_for(lambda: ("a", "read") not in holders(server), 10, "the dead reader to be released")
    assert writer.is_blocked()
    assert holders(server) == {("b", "read"): (1, b.client_id)}
    b.kill_socket()
    assert writer.reply() == 1


def test_holder_that_waits_for_another_lock_loses_hold_and_wait(server, actor):
    a, p = actor(), actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    p.call("LOCK.ACQUIRE", "l", "p", "PX", LONG)
    a.send("LOCK.ACQUIRE", "l", "o", "SESSION", "BLOCK", 0)
    a.wait_blocked()
    b = begin_to_wait(actor, "w")
    a.kill_socket()
    assert b.reply() == 1
    p.call("LOCK.RELEASE", "l", "p")
    assert server.control.exists("l") == 0


@pytest.mark.parametrize("end", ["close", "reset", "QUIT", "CLIENT KILL"])
def test_connection_that_closes_in_the_packet_of_its_request_is_released(server, end):
    """In one packet, in the same event-loop iteration."""
    for _ in range(5):
        sock = server.raw_connection()
        sock.sendall(b"CLIENT ID\r\n")
        own_id = sock.recv(100).strip().decode()[1:]
        last = {"QUIT": "QUIT", "CLIENT KILL": f"CLIENT KILL ID {own_id} SKIPME no"}.get(end, "PING")
        sock.sendall(f"LOCK.ACQUIRE k o SESSION\r\nINCR said\r\n{last}\r\n".encode())
        if end == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
    if end != "reset":  # a reset may overtake the commands
        wait_for(lambda: server.control.get("said") == "5", what="all commands to be executed")
    wait_free(server)


def test_release_of_a_session_sends_an_event_and_is_counted(server, actor):
    before = server.info("lock")
    server.control.config_set("notify-keyspace-events", "KEAd")
    listener = actor()
    listener.call("SUBSCRIBE", "__keyspace@0__:k")
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    a.kill_socket()
    wait_free(server)
    events = []
    wait_for(lambda: events.append(listener.reply()[2]) or "lock.released" in events, what="lock.released")
    after = server.info("lock")
    grown = {name for name in after if after[name] == before[name] + 1 and "session" in name}
    assert grown, f"no counter of sessions released: {after}"


def test_lock_is_handed_off_only_when_the_server_accepts_writes(server, actor):
    """The end of a session frees the lock; the hand-off is an acquisition, for which there are too few replicas."""
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    b = begin_to_wait(actor, "w")
    server.control.config_set("min-replicas-to-write", 1)
    try:
        a.kill_socket()
        wait_for(lambda: not server.control.exists("k"), 10, "the hold to be released")
        server.let_pass(60)
        assert b.is_blocked() and not b.has_reply()
    finally:
        server.control.config_set("min-replicas-to-write", 0)
    assert b.reply() == 1
    assert holders(server) == {("w", "exclusive"): (1, None)}
