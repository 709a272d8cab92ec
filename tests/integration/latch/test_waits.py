"""How a wait for a latch ends without an opening, what it does not affect, and thousands of waiters."""

import os
import signal
import time

import pytest

from harness import code_of, scaled, scaled_ms, wait_for
from harness.schedule import error
from model.gone_scene import can_unblock
from model.latch_scene import Scene, begins_to_wait, latch_waiters
from model.server_scene import module_sends_no_commands
from model.timeslice_scene import check_notified_in_time_slices

LONG = 600_000


@pytest.fixture
def shut(server):
    server.control.execute_command("LATCH.SET", "l", 1)


# ---- one wait ----


def test_wait_times_out(server, resp, actor, shut):
    client = actor()
    start = time.monotonic()
    assert client.call("LATCH.WAIT", "l", "BLOCK", scaled_ms(40)) is None
    assert time.monotonic() - start >= scaled(0.04) - 0.002
    assert latch_waiters(server) == 0


def test_wait_with_a_timeout_ends_when_the_latch_opens(server, resp, actor):
    scene = Scene(server)
    client = begins_to_wait(server, block_ms=LONG)
    scene.do("LATCH.DOWN l 2")
    assert client.reply() == 1
    assert client.call("PING") == "PONG"
    scene.both_are_notified()


@pytest.mark.parametrize("how", ["close", "kill_socket", "CLIENT KILL"])
def test_client_that_disconnects_leaves_no_waiter(server, shut, how):
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
def test_client_killed_in_the_iteration_of_the_opening_leaves_no_waiter(server, shut, order):
    waiter, other = begins_to_wait(server), begins_to_wait(server)
    lines = ["LATCH.DOWN l", f"CLIENT KILL ID {waiter.client_id}"][::order]
    server.raw_connection().sendall("".join(f"{line}\r\n" for line in lines).encode())
    assert other.reply() == 1
    wait_for(lambda: latch_waiters(server) == 0, what="the waiters to leave")


@pytest.mark.parametrize("how", [(), ("TIMEOUT",), ("ERROR",)], ids=["default", "timeout", "error"])
def test_client_unblock_ends_the_wait(server, resp, actor, shut, how):
    waiter = actor()
    waiter.send("LATCH.WAIT", "l", "BLOCK", 0)
    waiter.wait_blocked()
    assert server.control.execute_command("CLIENT", "UNBLOCK", waiter.client_id, *how) == can_unblock(server)
    if can_unblock(server):
        reply = waiter.outcome()
        assert error("UNBLOCKED")(reply) if how == ("ERROR",) else reply is None
        assert latch_waiters(server) == 0
    else:
        server.control.execute_command("LATCH.DOWN", "l")
        assert waiter.reply() == 1


def test_commands_behind_the_wait_run_in_order(server, actor, shut):
    waiter = begins_to_wait(server)
    waiter.send("ECHO", "behind")
    server.control.execute_command("LATCH.DOWN", "l")
    assert (waiter.reply(), waiter.reply()) == (1, "behind")


def test_waiters_are_unblocked_when_the_server_becomes_a_replica(make_server):
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
def test_expiry_during_a_pause_notifies_after_the_pause(server, opening, at_once):
    scene = Scene(server)
    # In one packet: the key does not expire before the pause.
    _, end, _ = at_once(opening.format(scaled_ms(30)), "PEXPIRETIME l", f"CLIENT PAUSE {LONG} WRITE")
    wait_for(lambda: server.now_ms() > end, what="the key to expire")
    server.settle(50)
    assert not any(waiter.has_reply() for waiter in scene.waiters)
    server.control.execute_command("CLIENT", "UNPAUSE")
    scene.both_are_notified()


def test_opening_is_notified_while_writes_are_refused(server):
    """It needs no write."""
    scene = Scene(server, px=scaled_ms(600))
    server.control.config_set("min-replicas-to-write", 1)
    scene.both_are_notified()
    server.control.config_set("min-replicas-to-write", 0)


def test_lock_that_cannot_be_handed_off_does_not_delay_a_latch(server, actor, at_once):
    """Both are due; the server refuses the write for the lock, and the drain continues with the latch."""
    waiter = actor()
    server.control.execute_command("LOCK.ACQUIRE", "k", "o", "PX", LONG)
    waiter.send("LOCK.ACQUIRE", "k", "p", "BLOCK", 0)
    waiter.wait_blocked()
    scene = Scene(server)
    # In one packet: neither expires before writes are refused.
    ends = f"LOCK.RENEW k o PX {scaled_ms(60)}", f"PEXPIRE l {scaled_ms(70)}"
    at_once(*ends, "CONFIG SET min-replicas-to-write 1")
    scene.both_are_notified()
    assert not waiter.has_reply()
    server.control.config_set("min-replicas-to-write", 0)
    assert waiter.reply() == 1


def test_unload_is_refused_only_while_a_client_waits(make_server):
    server = make_server()
    scene = Scene(server, px=LONG)
    assert not server.unloads()
    scene.do("LATCH.DOWN l 2")
    scene.both_are_notified()
    server.disconnect_clients()
    server.unload()


def test_stalled_server_notifies_when_it_continues(make_server):
    server = make_server()
    scene = Scene(server, px=LONG)
    scene.do(f"PEXPIRE l {scaled_ms(60)}")
    os.kill(server.pid, signal.SIGSTOP)
    end = time.time() * 1000 + scaled_ms(60)
    try:
        wait_for(lambda: time.time() * 1000 > end + 20, what="the key to expire")
    finally:
        os.kill(server.pid, signal.SIGCONT)
    scene.both_are_notified()


# ---- what a wait does not affect ----


def test_latch_waiter_is_not_counted_as_lock_waiter(server, shut, actor):
    waiter = begins_to_wait(server)
    info = server.info("lock")
    assert (info["lock_waiters"], info["lock_contended_locks"], info["lock_latch_waiters"]) == (0, 0, 1)
    assert code_of(actor().attempt("LOCK.CANCEL", "l", "o")) == "WRONGTYPE"
    assert not waiter.has_reply()


def test_wait_for_a_latch_is_in_no_deadlock_cycle(server, actor, shut):
    """The owner of k waits for the latch, and the client that counts it down waits for k: only timeouts end this."""
    a, b = actor("a"), actor("b")
    assert a.call("LOCK.ACQUIRE", "k", "oa") == 1
    a.send("LATCH.WAIT", "l", "BLOCK", 0)
    a.wait_blocked()
    assert b.call("LOCK.ACQUIRE", "k", "ob", "BLOCK", scaled_ms(30)) is None
    assert server.info("lock")["lock_deadlocks_refused"] == 0
    b.call("LATCH.DOWN", "l")
    assert a.reply() == 1


def test_waits_for_latches_do_not_change_lock_counters(server, actor, shut):
    names = ["time_outs", "clients_gone", "granted_after_wait", "lease_ends"]
    before = [server.info("lock")["lock_" + name] for name in names]
    actor().call("LATCH.WAIT", "l", "BLOCK", 1)
    begins_to_wait(server).kill_socket()
    wait_for(lambda: latch_waiters(server) == 0, what="the waiter to leave")
    waiter = begins_to_wait(server)
    server.control.execute_command("LATCH.DOWN", "l")
    assert waiter.reply() == 1
    assert [server.info("lock")["lock_" + name] for name in names] == before


def test_monitor_shows_only_commands_of_clients(server, actor, shut):
    if not module_sends_no_commands(server):
        return  # Redis 7.0 shows the command that the module sends
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


def replies_of(sockets):
    for sock in sockets:
        sock.settimeout(scaled(30))
    return {sock.recv(100) for sock in sockets}


@pytest.mark.parametrize("opening", ["LATCH.DOWN l", "DEL l", "FLUSHALL", "PEXPIRE l 1"])
def test_many_waiters_are_notified_in_time_slices(server, checking_build, shut, opening):
    sockets = crowd(server, 800)
    check_notified_in_time_slices(server, sockets, *opening.split())
    assert replies_of(sockets) == {b":1\r\n"}


def test_latch_set_again_while_replying_to_thousands_leaves_none_waiting(server, at_once, shut):
    sockets = crowd(server, 1000)
    at_once("LATCH.DOWN l", "LATCH.SET l 1")
    assert replies_of(sockets) == {b":1\r\n"}
    assert server.control.get("l") == "1"


def test_deadline_after_the_opening_does_not_time_out(server, at_once, shut):
    """The deadline is between the opening and the time slice that notifies this waiter."""
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
    assert replies_of(sockets) == {b":1\r\n"}


def test_flush_opens_many_latches_at_once(server):
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
    assert replies_of(sockets) == {b":1\r\n"}
