"""How a wait for a latch ends otherwise than by its opening; what it is not; and thousands who wait."""

import os
import select
import signal
import time

import pytest

from harness import code_of, failpoint, scaled, scaled_ms, wait_for
from harness.schedule import error
from model.gone_scene import can_unblock
from model.latch_scene import Scene, begins_to_wait, latch_waiters
from model.server_scene import says_nothing_of_its_own

LONG = 600_000


@pytest.fixture
def shut(server):
    server.control.execute_command("LATCH.SET", "l", 1)


# ---- one wait ----


def test_time_out(server, resp, actor, shut):
    client = actor()
    start = time.monotonic()
    assert client.call("LATCH.WAIT", "l", "BLOCK", scaled_ms(40)) is None
    assert time.monotonic() - start >= scaled(0.04) - 0.002
    assert latch_waiters(server) == 0


def test_opening_answers_in_time(server, resp, actor):
    scene = Scene(server)
    client = begins_to_wait(server, block_ms=LONG)
    scene.do("LATCH.DOWN l 2")
    assert client.reply() == 1
    assert client.call("PING") == "PONG"
    scene.both_are_told()


@pytest.mark.parametrize("how", ["close", "kill_socket", "CLIENT KILL"])
def test_client_that_goes_leaves_nothing(server, shut, how):
    waiter = begins_to_wait(server)
    if how == "CLIENT KILL":
        server.control.client_kill_filter(_id=waiter.client_id)
    else:
        getattr(waiter, how)()
    wait_for(lambda: latch_waiters(server) == 0, what="the waiter to leave")
    other = begins_to_wait(server)
    server.control.execute_command("LATCH.DOWN", "l")
    assert other.reply() == 1


@pytest.mark.parametrize("order", [1, -1], ids=["opened, killed", "killed, opened"])
def test_client_that_is_killed_in_the_turn_of_the_opening(server, shut, order):
    waiter, other = begins_to_wait(server), begins_to_wait(server)
    lines = ["LATCH.DOWN l", f"CLIENT KILL ID {waiter.client_id}"][::order]
    server.raw_connection().sendall("".join(f"{line}\r\n" for line in lines).encode())
    assert other.reply() == 1
    wait_for(lambda: latch_waiters(server) == 0, what="the waiters to leave")


@pytest.mark.parametrize("how", [(), ("TIMEOUT",), ("ERROR",)], ids=["plain", "timeout", "error"])
def test_client_unblock(server, resp, actor, shut, how):
    waiter = actor()
    waiter.send("LATCH.WAIT", "l", "BLOCK", 0)
    waiter.wait_blocked()
    assert server.control.execute_command("CLIENT", "UNBLOCK", waiter.client_id, *how) == can_unblock(server)
    if can_unblock(server):
        heard = waiter.outcome()
        assert error("UNBLOCKED")(heard) if how == ("ERROR",) else heard is None
        assert latch_waiters(server) == 0
    else:
        server.control.execute_command("LATCH.DOWN", "l")
        assert waiter.reply() == 1


def test_commands_behind_the_wait_run_in_order(server, actor, shut):
    waiter = begins_to_wait(server)
    waiter.send("ECHO", "behind")
    server.control.execute_command("LATCH.DOWN", "l")
    assert (waiter.reply(), waiter.reply()) == (1, "behind")


def test_client_that_becomes_a_replicas_is_unblocked(make_server):
    server = make_server()
    server.control.execute_command("LATCH.SET", "l", 1)
    waiter = begins_to_wait(server)
    server.control.replicaof("127.0.0.1", 1)
    assert code_of(waiter.outcome()) == "UNBLOCKED"
    assert latch_waiters(server) == 0
    server.control.replicaof("NO", "ONE")
    again = begins_to_wait(server)
    server.control.execute_command("LATCH.DOWN", "l")
    assert again.reply() == 1


@pytest.mark.parametrize("opening", ["LATCH.SET l 1 PX {}", "PEXPIRE l {}"])
def test_latch_that_ends_during_a_pause_is_told_after_it(server, opening, at_once):
    scene = Scene(server)
    # In one packet: the key does not end before the pause.
    _, end, _ = at_once(opening.format(scaled_ms(30)), "PEXPIRETIME l", f"CLIENT PAUSE {LONG} WRITE")
    wait_for(lambda: server.now_ms() > end, what="the key to end")
    server.settle(50)
    assert not any(waiter.has_reply() for waiter in scene.waiters)
    server.control.execute_command("CLIENT", "UNPAUSE")
    scene.both_are_told()


def test_opening_is_told_where_writes_are_refused(server):
    """Nothing is written for it."""
    scene = Scene(server, px=scaled_ms(600))
    server.control.config_set("min-replicas-to-write", 1)
    scene.both_are_told()
    server.control.config_set("min-replicas-to-write", 0)


def test_lock_that_may_not_be_handed_off_does_not_delay_a_latch(server, actor, at_once):
    """Both are due; the server refuses the write of one, and goes on with the other."""
    waiter = actor()
    server.control.execute_command("LOCK.ACQUIRE", "k", "o", "PX", LONG)
    waiter.send("LOCK.ACQUIRE", "k", "p", "BLOCK", 0)
    waiter.wait_blocked()
    scene = Scene(server)
    # In one packet: neither ends before writes are refused.
    ends = f"LOCK.RENEW k o PX {scaled_ms(60)}", f"PEXPIRE l {scaled_ms(70)}"
    at_once(*ends, "CONFIG SET min-replicas-to-write 1")
    scene.both_are_told()
    assert not waiter.has_reply()
    server.control.config_set("min-replicas-to-write", 0)
    assert waiter.reply() == 1


def test_unload_waits_for_nobody_that_is_gone(make_server):
    server = make_server()
    scene = Scene(server, px=LONG)
    assert not server.unloads()
    scene.do("LATCH.DOWN l 2")
    scene.both_are_told()
    server.disconnect_clients()
    server.unload()


def test_server_that_stood_still_tells_when_it_goes_on(make_server):
    server = make_server()
    scene = Scene(server, px=LONG)
    scene.do(f"PEXPIRE l {scaled_ms(60)}")
    os.kill(server.pid, signal.SIGSTOP)
    end = time.time() * 1000 + scaled_ms(60)
    try:
        wait_for(lambda: time.time() * 1000 > end + 20, what="the key to end")
    finally:
        os.kill(server.pid, signal.SIGCONT)
    scene.both_are_told()


# ---- what it is not ----


def test_it_is_no_waiter_for_a_lock(server, shut, actor):
    waiter = begins_to_wait(server)
    info = server.info("lock")
    assert (info["lock_waiters"], info["lock_contended_locks"], info["lock_latch_waiters"]) == (0, 0, 1)
    assert code_of(actor().attempt("LOCK.CANCEL", "l", "o")) == "WRONGTYPE"
    assert not waiter.has_reply()


def test_it_is_in_no_deadlock(server, actor, shut):
    """Who holds k waits for the latch, and who is to count it down for k: by their time limits."""
    a, b = actor("a"), actor("b")
    assert a.call("LOCK.ACQUIRE", "k", "oa") == 1
    a.send("LATCH.WAIT", "l", "BLOCK", 0)
    a.wait_blocked()
    assert b.call("LOCK.ACQUIRE", "k", "ob", "BLOCK", scaled_ms(30)) is None
    assert server.info("lock")["lock_deadlocks_refused"] == 0
    b.call("LATCH.DOWN", "l")
    assert a.reply() == 1


def test_counters_of_locks_do_not_move(server, actor, shut):
    names = ["time_outs", "clients_gone", "granted_after_wait", "lease_ends"]
    before = [server.info("lock")["lock_" + name] for name in names]
    actor().call("LATCH.WAIT", "l", "BLOCK", 1)
    begins_to_wait(server).kill_socket()
    wait_for(lambda: latch_waiters(server) == 0, what="the waiter to leave")
    waiter = begins_to_wait(server)
    server.control.execute_command("LATCH.DOWN", "l")
    assert waiter.reply() == 1
    assert [server.info("lock")["lock_" + name] for name in names] == before


def test_monitor_shows_what_clients_say_and_nothing_else(server, actor, shut):
    if not says_nothing_of_its_own(server):
        return  # Redis 7.0 shows the module's question
    monitor = server.actor("monitor")
    assert monitor.call("MONITOR") == "OK"
    waiter = begins_to_wait(server)
    server.control.execute_command("LATCH.DOWN", "l")
    assert waiter.reply() == 1
    server.control.echo("the end")
    lines = [monitor.reply()]
    while "the end" not in lines[-1]:
        lines.append(monitor.reply())
    assert not [line for line in lines if "127.0.0.1:" not in line]


# ---- thousands ----


def crowd(server, size, key="l"):
    sockets = [server.raw_connection() for _ in range(size)]
    for sock in sockets:
        sock.sendall(f"LATCH.WAIT {key} BLOCK 0\r\n".encode())
    wait_for(lambda: latch_waiters(server) == size, 60, f"{size} clients to wait")
    return sockets


def answers(sockets):
    for sock in sockets:
        sock.settimeout(scaled(30))
    return {sock.recv(100) for sock in sockets}


@pytest.mark.parametrize("opening", ["LATCH.DOWN l", "DEL l", "FLUSHALL", "PEXPIRE l 1"])
def test_thousands_are_told_in_slices(server, checking_build, shut, opening):
    """The third of them has not begun: some have been told, and most have not."""
    size = 800
    sockets = crowd(server, size)
    failpoint.arm(server, "drain.begun", "stop", 3)
    opener = server.actor()
    opener.send(*opening.split())
    with failpoint.standing(server):
        told = [sock for sock in sockets if select.select([sock], [], [], 0)[0]]
    assert 0 < len(told) < size / 2
    assert answers(sockets) == {b":1\r\n"}


def test_latch_set_again_while_replying_to_thousands_leaves_none_waiting(server, at_once, shut):
    sockets = crowd(server, 1000)
    at_once("LATCH.DOWN l", "LATCH.SET l 1")
    assert answers(sockets) == {b":1\r\n"}
    assert server.control.get("l") == "1"


def test_time_out_of_one_that_is_still_to_be_told_is_an_opening(server, at_once, shut):
    """Its deadline comes between the opening and its slice."""
    size = 1000
    sockets = [server.raw_connection() for _ in range(size)]
    for sock in sockets:
        sock.sendall(b"LATCH.WAIT l BLOCK 600000\r\n")
    wait_for(lambda: latch_waiters(server) == size, 60, "all to wait")
    last = begins_to_wait(server, "last", block_ms=scaled_ms(2000))
    server.raw_connection().sendall(
        b"MULTI\r\nLATCH.DOWN l\r\nLATCH.SET l 1\r\nDEBUG SLEEP " + str(scaled(2.2)).encode() + b"\r\nEXEC\r\n"
    )
    assert last.reply(timeout=10) == 1
    assert answers(sockets) == {b":1\r\n"}


def test_many_latches_that_open_at_once(server):
    names = [f"l{number}" for number in range(500)]
    pipeline = server.control.pipeline(transaction=False)
    for name in names:
        pipeline.execute_command("LATCH.SET", name, 1)
    pipeline.execute()
    sockets = [server.raw_connection() for _ in names]
    for sock, name in zip(sockets, names, strict=True):
        sock.sendall(f"LATCH.WAIT {name} BLOCK 0\r\n".encode())
    wait_for(lambda: latch_waiters(server) == 500, 60, "all to wait")
    server.control.flushall()
    assert answers(sockets) == {b":1\r\n"}
