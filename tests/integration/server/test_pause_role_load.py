"""When the module must not write: pauses, failovers, shutdown, replicas, loading, busy scripts.

A write at the wrong time aborts the server or makes a replica differ from its master, but only if there is an AOF or a
replica: so these servers have one.
"""

import os
import signal
import time
from contextlib import contextmanager, suppress

import pytest
from redis.exceptions import ConnectionError, RedisError, ResponseError

from harness import ServerDied, scaled, scaled_ms, wait_for, wait_for_sync
from harness.schedule import BLOCKS, error, granted, matches, run_schedule

HOST = "127.0.0.1"
LONG = 600_000
LEASE = scaled_ms(250)
PAUSE = f"CLIENT PAUSE {LONG} WRITE"


class Scene:
    """oa holds k; actors with these names wait for it. `then`: lines in one packet with the PEXPIRE of the lease."""

    def __init__(self, server, *names, lease_ms=LEASE, block_ms=0, then=()):
        self.server = server
        self.a, self.writer = server.actor("a"), server.raw_connection()
        assert self.a.call("LOCK.ACQUIRE", "k", "oa", "PX", LONG) == 1
        self.waiters = [server.actor(name) for name in names]
        for waiter in self.waiters:
            waiter.send("LOCK.ACQUIRE", "k", "o" + waiter.name, "PX", LONG, "BLOCK", block_ms)
            waiter.wait_blocked()
        lines = self.writer.makefile("rb")
        self.send_at_once(f"PEXPIRE k {lease_ms}", "PEXPIRETIME k", *then)
        assert lines.readline() == b":1\r\n"
        self.end = int(lines.readline()[1:])

    def send_at_once(self, *lines):
        self.writer.sendall("".join(line + "\r\n" for line in lines).encode())

    def lease_ends(self):
        wait_for(lambda: self.server.now_ms() > self.end, 10, "the lease to expire")
        self.server.settle(30)

    def all_still_wait(self, *waiters):
        for waiter in waiters or self.waiters:
            assert waiter.is_blocked() and not waiter.has_reply()

    def holder(self):
        return self.server.control.hgetall("k")


@pytest.fixture
def logged(make_server):
    """A server with an AOF, on which only the module notices that a lease has expired."""
    server = make_server(appendonly="yes")
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    return server


def pause(server, how="WRITE", ms=LONG):
    server.control.execute_command("CLIENT", "PAUSE", ms, how)


def unpause(server):
    server.control.execute_command("CLIENT", "UNPAUSE")


# ---- CLIENT PAUSE ----


def test_lease_that_ends_during_a_pause_is_handed_off_after_it(logged):
    scene = Scene(logged, "b", "c", then=[PAUSE])
    scene.lease_ends()
    scene.all_still_wait()
    unpause(logged)
    assert scene.waiters[0].reply() == 1
    assert scene.holder() == {"ob": "1"}
    scene.all_still_wait(scene.waiters[1])


def test_pause_of_everything_ends_by_itself_and_grants_follow(logged):
    scene = Scene(logged, "b", "c", then=[f"CLIENT PAUSE {scaled_ms(600)} ALL"])
    b, c = scene.waiters
    b.kill_socket()
    assert c.reply(timeout=10) == 1
    assert logged.control.execute_command("PEXPIRETIME", "k") - LONG >= scene.end - LEASE + scaled_ms(600)


def test_waiter_that_dies_during_a_pause_is_skipped_after_it(logged):
    scene = Scene(logged, "b", "c", then=[PAUSE])
    scene.lease_ends()
    b, c = scene.waiters
    b.kill_socket()
    wait_for(lambda: logged.info("lock")["lock_waiters"] == 1, what="b's wait to end")
    scene.all_still_wait(c)
    unpause(logged)
    assert c.reply() == 1


@pytest.mark.parametrize("how", ["WRITE", "ALL"])
def test_wait_that_times_out_during_a_pause_gets_null(logged, how):
    scene = Scene(logged, "b", lease_ms=LONG, block_ms=scaled_ms(200))
    began = time.monotonic()
    pause(logged, how, scaled_ms(3000))  # a pause of ALL cannot be ended early
    assert scene.waiters[0].reply(timeout=10) is None
    assert time.monotonic() - began < scaled(3)


def test_hold_of_a_client_dead_before_its_reply_is_released_after_pause(logged):
    scene = Scene(logged, "b", "c", lease_ms=LONG)
    b, c = scene.waiters
    scene.send_at_once("LOCK.RELEASE k oa", f"CLIENT KILL ID {b.client_id}", f"CLIENT PAUSE {LONG} WRITE")
    b.wait_closed()
    logged.settle(30)
    scene.all_still_wait(c)
    assert scene.holder() == {"ob": "1"}
    unpause(logged)
    assert c.reply() == 1
    assert scene.holder() == {"oc": "1"}


def test_changes_around_a_pause_are_in_the_aof_in_the_right_order(logged):
    scene = Scene(logged, "b", "c", then=[PAUSE])
    scene.lease_ends()
    unpause(logged)
    assert scene.waiters[0].reply() == 1
    before = logged.dump()
    logged.kill()
    logged.start()
    assert logged.dump() == before


# ---- FAILOVER, SHUTDOWN ----


@contextmanager
def lagging(master, replica):
    """The replica is stopped, and has not received everything that the master wrote."""
    os.kill(replica.pid, signal.SIGSTOP)
    try:
        master.control.set("written", "while the replica is stopped")
        yield
    finally:
        os.kill(replica.pid, signal.SIGCONT)


@pytest.fixture
def pair(make_server):
    master = make_server()
    servers = master, master.start_replica()
    for server in servers:
        server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    return servers


def is_unblocked(waiter):
    """A failover ends the wait with an error; or the connection was closed before.

    Valkey 9.1 becomes a replica before it ends the waits of its own commands, and closes only the connections of these;
    the other servers close all connections.
    """
    with suppress(ConnectionError):
        assert matches(error("UNBLOCKED"), waiter.outcome())
        assert matches(error("READONLY"), waiter.attempt("LOCK.RELEASE", "k", "nobody"))


def role(server):
    return server.info("replication")["role"]


def leases_end_and_waiters_die(scene):
    """In a pause, with waiters b, c and d: b dies, c is granted later, d waits."""
    scene.lease_ends()
    b, *others = scene.waiters
    b.kill_socket()
    wait_for(lambda: scene.server.info("lock")["lock_waiters"] == len(others), what="b's wait to end")
    scene.server.settle(30)
    scene.all_still_wait(*others)


def test_failover_ends_waits_and_the_new_master_grants(pair):
    master, replica = pair
    with lagging(master, replica):
        scene = Scene(master, "b", "c", "d", then=["FAILOVER TIMEOUT 600000"])
        leases_end_and_waiters_die(scene)
    wait_for(lambda: role(replica) == "master" and role(master) == "slave", 20, "the failover")
    for waiter in scene.waiters[1:]:
        is_unblocked(waiter)
    assert master.info("lock")["lock_waiters"] == 0
    # The lease that ended during the pause has expired on the new master too.
    assert replica.control.execute_command("LOCK.ACQUIRE", "k", "oe") == 1
    wait_for_sync(replica, master)
    assert master.dump() == replica.dump()


def test_aborted_failover_keeps_the_waits_and_grants_follow(pair):
    master, replica = pair
    with lagging(master, replica):
        scene = Scene(master, "b", "c", "d", then=["FAILOVER TIMEOUT 600000"])
        leases_end_and_waiters_die(scene)
        master.control.execute_command("FAILOVER", "ABORT")
        assert scene.waiters[1].reply() == 1
        scene.all_still_wait(scene.waiters[2])
    wait_for_sync(master, replica)
    assert master.dump() == replica.dump()


def shutdown_waits(server):
    return "shutdown_in_milliseconds" in server.info("server")


def test_aborted_shutdown_keeps_the_waits_and_grants_follow(pair):
    master, replica = pair
    master.control.config_set("shutdown-timeout", 600)
    with lagging(master, replica):
        scene = Scene(master, "b", "c", "d", then=["SHUTDOWN"])
        wait_for(lambda: shutdown_waits(master), what="the shutdown to begin")
        leases_end_and_waiters_die(scene)
        master.control.execute_command("SHUTDOWN", "ABORT")
        assert scene.waiters[1].reply() == 1
    wait_for_sync(master, replica)
    assert master.dump() == replica.dump()


def test_shutdown_that_waits_for_a_replica_ends_normally(pair):
    master, replica = pair
    master.control.config_set("shutdown-timeout", 600)
    with lagging(master, replica):
        scene = Scene(master, "b", "c", "d", then=["SHUTDOWN"])
        wait_for(lambda: shutdown_waits(master), what="the shutdown to begin")
        leases_end_and_waiters_die(scene)
    wait_for(lambda: not master.is_running(), 20, "the shutdown")
    with pytest.raises(ServerDied) as ended:
        master.stop()
    assert "had ended before it was stopped" in str(ended.value)
    assert "crashed" not in str(ended.value) and "ready to exit, bye bye" in master.log()
    replica.control.execute_command("REPLICAOF", "NO", "ONE")
    assert replica.control.execute_command("LOCK.ACQUIRE", "k", "oe") == 1


# ---- masters and replicas ----


def is_cut_off(waiter):
    """Its wait ends with an error, if it is alive to receive it, and its connection is closed."""
    with suppress(ConnectionError):
        assert matches(error("UNBLOCKED"), waiter.outcome())
        waiter.wait_closed()


SAME_ITERATION = {
    "while_they_wait": [],
    "in_the_iteration_of_a_grant": ["LOCK.RELEASE k oa"],
    "in_the_iteration_of_a_cause": ["DEL k"],
    "in_the_iteration_of_a_grant_to_a_killed_client": ["LOCK.RELEASE k oa", "CLIENT KILL ID {b}"],
}


@pytest.mark.parametrize("lines", SAME_ITERATION.values(), ids=SAME_ITERATION)
def test_master_with_waiters_becomes_a_replica_and_a_master_again(make_server, lines):
    server, master = make_server(), make_server()
    master.control.execute_command("LOCK.ACQUIRE", "k", "om", "PX", 1_000_000)
    scene = Scene(server, "b", "c", lease_ms=LONG)
    lines = [line.format(b=scene.waiters[0].client_id) for line in lines]
    scene.send_at_once(*lines, f"REPLICAOF {HOST} {master.port}")
    for waiter in scene.waiters:
        is_cut_off(waiter)
    wait_for_sync(master, server)
    server.settle(30)
    assert server.dump() == master.dump()
    info = server.info("lock")
    assert (info["lock_waiters"], info["lock_contended_locks"]) == (0, 0)
    server.control.execute_command("REPLICAOF", "NO", "ONE")
    steps = [("b", "LOCK.ACQUIRE k ob BLOCK 0", BLOCKS), ("m", "LOCK.RELEASE k om", 0), ("b", granted(1))]
    run_schedule(server, steps)


def test_replica_neither_grants_nor_frees_by_itself(pair):
    """It does not even finish what it had begun as a master: here, to release the hold of a dead waiter."""
    master, replica = pair
    with lagging(master, replica):
        scene = Scene(master, "b", "c", lease_ms=LONG)
        b, c = scene.waiters
        scene.send_at_once("LOCK.RELEASE k oa", f"CLIENT KILL ID {b.client_id}", "FAILOVER TIMEOUT 600000")
        b.wait_closed()
        master.settle(30)
        scene.all_still_wait(c)
    wait_for(lambda: role(replica) == "master" and role(master) == "slave", 20, "the failover")
    is_unblocked(c)
    wait_for_sync(replica, master)
    master.settle(50)
    assert master.dump() == replica.dump()
    assert master.control.hgetall("k") == {"ob": "1"}
    assert matches(error("READONLY"), master.actor().attempt("LOCK.RELEASE", "k", "ob"))


def test_handoff_at_lease_end_reaches_the_replica_in_order(pair):
    master, replica = pair
    scene = Scene(master, "b", "c")
    assert scene.waiters[0].reply(timeout=10) == 1
    wait_for_sync(master, replica)
    assert replica.dump() == master.dump()
    assert replica.control.hgetall("k") == {"ob": "1"}


@pytest.mark.parametrize("how", ["release", "lease_end"])
def test_promoted_replica_has_the_holds_and_grants_when_they_end(pair, how):
    master, replica = pair
    scene = Scene(master, "b", lease_ms=LONG if how == "release" else scaled_ms(4000))
    wait_for_sync(master, replica)
    master.kill()
    replica.control.execute_command("REPLICAOF", "NO", "ONE")  # before its master is back, without data
    master.start()
    a, b = replica.actor("a"), replica.actor("b")
    b.send("LOCK.ACQUIRE", "k", "ob", "PX", LONG, "BLOCK", 0)
    b.wait_blocked()
    if how == "release":
        assert a.call("LOCK.RELEASE", "k", "oa") == 0
    assert b.reply(timeout=10) == 1
    assert how == "release" or replica.now_ms() >= scene.end


# ---- refusals, unloading ----


def test_lock_expired_while_writes_are_refused_is_handed_off_later(logged):
    scene = Scene(logged, "b", "c", then=["CONFIG SET min-replicas-to-write 1"])
    scene.lease_ends()
    scene.all_still_wait()
    assert matches(error("NOREPLICAS"), scene.a.attempt("LOCK.ACQUIRE", "l", "oa"))
    logged.control.config_set("min-replicas-to-write", 0)
    assert scene.waiters[0].reply() == 1
    scene.all_still_wait(scene.waiters[1])


def test_module_is_unloaded_only_when_no_client_waits(logged):
    scene = Scene(logged, "b", "c", lease_ms=LONG)
    b, c = scene.waiters
    logged.control.config_set("lock.allow-unload", "yes")
    for waiter in (b, c):
        with pytest.raises(ResponseError, match="^ERR "):
            logged.control.module_unload("lock")
        scene.all_still_wait(waiter)
        waiter.kill_socket()
        wait_for(lambda: not waiter.is_connected(), what="the server to notice the close")
    logged.unload()
    assert scene.holder() == {"oa": "1"}
    logged.control.module_load(str(logged.launch.module))
    steps = [("b", "LOCK.ACQUIRE k ob BLOCK 0", BLOCKS), ("a", "LOCK.RELEASE k oa", 0), ("b", granted(1))]
    run_schedule(logged, steps)


# ---- the server is busy, or loads ----


def refuses(server, code):
    """Whether it replies to an ordinary command with this error now."""
    try:
        server.control.get("x")
    except RedisError as refusal:
        return str(refusal).startswith(code)
    return False


def wait_for_local_clock(end_ms):
    wait_for(lambda: time.time() * 1000 > end_ms, 10, "the lease to expire")


def test_lease_that_ends_during_a_busy_script_is_handed_off_after_it(logged):
    logged.control.config_set("busy-reply-threshold", 20)
    scene = Scene(logged, "b", "c")
    scene.a.send("EVAL", "while true do end", 0)
    wait_for(lambda: refuses(logged, "BUSY"), what="the script to be noticed")
    wait_for_local_clock(scene.end)
    b, c = scene.waiters
    b.kill_socket()
    logged.control.execute_command("SCRIPT", "KILL")
    assert c.reply() == 1
    assert scene.holder() == {"oc": "1"}


def test_lease_that_ends_while_the_server_sleeps_is_handed_off_after_it(logged):
    scene = Scene(logged, "b", "c")
    logged.control.execute_command("DEBUG", "SLEEP", LEASE / 1000)
    assert scene.waiters[0].reply() == 1
    scene.all_still_wait(scene.waiters[1])


def test_waiter_that_dies_while_the_server_loads_is_skipped(logged):
    for number in range(100):
        logged.control.set(f"key{number}", "x" * 2000)
    scene = Scene(logged, "b", "c", lease_ms=LONG)
    b, c = scene.waiters
    assert scene.a.call("LOCK.ACQUIRE", "l", "oa", "PX", LONG) == 1
    logged.control.config_set("loading-process-events-interval-bytes", 1024)
    logged.control.config_set("key-load-delay", int(scaled(5000)))
    scene.a.send("DEBUG", "RELOAD")
    wait_for(lambda: refuses(logged, "LOADING"), what="the load to begin")
    b.kill_socket()
    assert scene.a.reply(timeout=20) == "OK"
    assert scene.a.call("LOCK.RELEASE", "k", "oa") == 0
    assert c.reply() == 1
