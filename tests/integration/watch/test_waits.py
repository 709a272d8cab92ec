"""How a watch ends without LOST or WANTED: like any blocked command."""

import os
import signal
import time

import pytest

from harness import code_of, failpoint, scaled_ms, wait_for, wait_for_sync
from harness.schedule import error
from model.gone_scene import can_unblock
from model.server_scene import module_sends_no_commands
from model.watch_scene import HOUR, Scene, watchers, watches


@pytest.mark.parametrize("how", [(), ("TIMEOUT",), ("ERROR",)], ids=["default", "timeout", "error"])
def test_client_unblock_ends_the_watch(server, resp, actor, how):
    server.control.execute_command("LOCK.ACQUIRE", "k", "o")
    watcher = actor()
    watcher.send("LOCK.WATCH", "k", "o", "BLOCK", 0)
    watcher.wait_blocked()
    assert server.control.execute_command("CLIENT", "UNBLOCK", watcher.client_id, *how) == can_unblock(server)
    if can_unblock(server):
        reply = watcher.outcome()
        assert error("UNBLOCKED")(reply) if how == ("ERROR",) else reply is None
        assert watchers(server) == 0
    else:
        server.control.execute_command("LOCK.RELEASE", "k", "o")
        assert watcher.reply() == "LOST"


def test_watcher_killed_in_the_iteration_of_the_loss_leaves_no_watch(server):
    scene = Scene(server)
    first, second = scene.waiters
    server.raw_connection().sendall(f"LOCK.RELEASE k o\r\nCLIENT KILL ID {first.client_id}\r\n".encode())
    assert second.reply() == "LOST"
    wait_for(lambda: watchers(server) == 0, what="the watches to end")


def test_watches_are_unblocked_when_the_server_becomes_a_replica(make_server):
    server = make_server()
    scene = Scene(server)
    server.control.replicaof("127.0.0.1", 1)
    assert [code_of(watcher.outcome()) for watcher in scene.waiters] == ["UNBLOCKED", "UNBLOCKED"]
    assert watchers(server) == 0
    server.control.replicaof("NO", "ONE")
    again = watches(server)
    server.control.execute_command("LOCK.RELEASE", "k", "o")
    assert again.reply() == "LOST"


@pytest.mark.parametrize("hold", ["LOCK.ACQUIRE", "LOCK.RWREAD"])
def test_lease_of_a_dead_master_ends_on_the_promoted_replica(make_server, hold):
    master = make_server()
    replica = master.start_replica()
    master.control.execute_command(hold, "k", "o", "PX", scaled_ms(3000))
    wait_for_sync(master, replica)
    master.kill()
    replica.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    replica.control.replicaof("NO", "ONE")
    watcher = replica.actor()
    watcher.send("LOCK.WATCH", "k", "o", "BLOCK", 0)
    assert watcher.reply(timeout=20) == "LOST"
    assert replica.control.execute_command("LOCK.ACQUIRE", "k", "p") == 1


@pytest.mark.parametrize("how", ["save", "kill"])
def test_restart_closes_the_connection_and_is_no_loss(make_server, how):
    server = make_server(**({"appendonly": "yes", "appendfsync": "always"} if how == "kill" else {}))
    Scene(server)
    if how == "kill":
        server.kill()
        server.start()
    else:
        server.restart(save=True)
    again = watches(server)
    server.control.execute_command("LOCK.FORCE", "k")
    assert again.reply() == "LOST"


def test_loss_during_a_pause_is_notified_after_it(server, at_once):
    scene = Scene(server)
    # In one packet: the lease does not expire before the pause.
    _, end, _ = at_once(f"PEXPIRE k {scaled_ms(30)}", "PEXPIRETIME k", f"CLIENT PAUSE {HOUR} WRITE")
    wait_for(lambda: server.now_ms() > end, what="the lease to expire")
    server.settle(50)
    assert not any(watcher.has_reply() for watcher in scene.waiters)
    server.control.execute_command("CLIENT", "UNPAUSE")
    scene.both_receive("LOST")


def test_stalled_server_notifies_when_it_continues(make_server):
    server = make_server()
    scene = Scene(server)
    scene.do(f"LOCK.RENEW k o PX {scaled_ms(60)}")
    os.kill(server.pid, signal.SIGSTOP)
    end = time.time() * 1000 + scaled_ms(60)
    try:
        wait_for(lambda: time.time() * 1000 > end + 20, what="the lease to expire")
    finally:
        os.kill(server.pid, signal.SIGCONT)
    scene.both_receive("LOST")


@pytest.mark.parametrize("point", ["release.begun", "release.done", "drain.begun", "drain.lock", "reply"])
@pytest.mark.parametrize("action", ["stop", "kill"])
def test_lost_is_sent_only_for_a_durable_loss_at_failpoints(make_server, checking_build, point, action):
    """LOST is sent only for a loss that is durable."""
    server = make_server(appendonly="yes", appendfsync="always")
    scene = Scene(server)
    failpoint.arm(server, point, action)
    scene.other.send("LOCK.RELEASE", "k", "o")
    if action == "stop":
        with failpoint.stopped(server):
            scene.waiters.pop().kill_socket()
        assert scene.waiters[0].reply() == "LOST"
        assert scene.other.reply() == 0
        return
    failpoint.wait_dead(server)
    replies = []
    for watcher in scene.waiters:
        try:
            replies.append(watcher.outcome())
        except Exception as cut_off:
            replies.append(type(cut_off).__name__)
    server.has_died()
    server.start()
    if "LOST" in replies:
        assert not server.control.exists("k")


def test_unload_is_refused_only_while_a_client_watches(make_server):
    server = make_server()
    scene = Scene(server, words=("WANTED",))
    assert not server.unloads()
    scene.do("LOCK.RELEASE k o")
    scene.both_receive("LOST")
    server.disconnect_clients()
    server.unload()


def test_monitor_shows_only_commands_of_clients(server):
    if not module_sends_no_commands(server):
        return  # Redis 7.0 shows the command that the module sends
    monitor = server.actor("monitor")
    assert monitor.call("MONITOR") == "OK"
    scene = Scene(server)
    scene.do(f"PEXPIRE k {scaled_ms(20)}")
    scene.both_receive("LOST")
    server.control.echo("the end")
    lines = [monitor.reply()]
    while "the end" not in lines[-1]:
        lines.append(monitor.reply())
    assert not [line for line in lines if "127.0.0.1:" not in line]


@pytest.mark.parametrize("step", [-100_000, 100_000])
def test_watch_follows_the_lease_when_the_clock_steps(make_server, clock, step):
    """If the clock steps forward, the lease has expired; backward, it lasts as much longer, and so does the watch."""
    server = make_server()
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    scene = Scene(server, hold=f"LOCK.ACQUIRE k o PX {scaled_ms(1000)}")
    clock.step_for(server, step)
    if step < 0:
        scene.both_still_wait()
        scene.do("LOCK.RENEW k o PX 20")
    else:
        scene.do("PING")  # an idle server checks its timers when the first should be due
    scene.both_receive("LOST")
