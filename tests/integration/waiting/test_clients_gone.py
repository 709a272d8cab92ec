"""The connection of a waiter ends: nothing of it is left, and no other client waits for it."""

import socket
import struct

import pytest

from harness import scaled, scaled_ms, wait_for
from harness.schedule import BLOCKS, CLOSES, CUT_OFF, DIES, STILL_BLOCKED, answered, as_map, error, granted
from harness.schedule import run_schedule, schedules
from model.gone_scene import KILL, RELEASE, GrantScene, can_unblock, connections, kills, memory
from model.gone_scene import memory_after_as_many_idle_connections

A_HOLDS = ("a", "LOCK.ACQUIRE k oa", 1)
B_WAITS = ("b", "LOCK.ACQUIRE k ob BLOCK 0", BLOCKS)
C_WAITS = ("c", "LOCK.ACQUIRE k oc BLOCK 0", BLOCKS)
D_WAITS = ("d", "LOCK.ACQUIRE k od BLOCK 0", BLOCKS)


def waiting(server, key="k", db=0):
    with server.client(db=db) as client:
        return as_map(client.execute_command("LOCK.INFO", key)).get("waiting", 0)


def knows_of(number):
    """A step that waits until the module has this number of waiters."""
    return (lambda s: wait_for(lambda: waiting(s.server) == number, what=f"{number} waiters"),)


GONE = dict(
    reset_by_its_peer=[("b", DIES)],
    closed_by_its_peer=[("b", CLOSES)],
    killed_by_a_command=[kills("b"), ("b", CUT_OFF)],
)


@schedules(**GONE)
def test_head_that_has_disconnected_is_skipped(server, some_resp, schedule):
    steps = [A_HOLDS, B_WAITS, C_WAITS, *schedule, knows_of(1), ("c", STILL_BLOCKED)]
    run_schedule(server, [*steps, ("a", "LOCK.RELEASE k oa", 0), ("c", granted(1))], some_resp)


@schedules(**GONE)
def test_waiter_in_the_middle_that_has_disconnected_is_skipped(server, some_resp, schedule):
    steps = [A_HOLDS, C_WAITS, B_WAITS, D_WAITS, *schedule, knows_of(2)]
    steps += [("a", "LOCK.RELEASE k oa", 0), ("c", granted(1))]
    run_schedule(server, [*steps, ("c", "LOCK.RELEASE k oc", 0), ("d", granted(1))], some_resp)


@schedules(**GONE)
def test_lock_whose_only_waiter_has_disconnected_becomes_free(server, some_resp, schedule):
    steps = [A_HOLDS, B_WAITS, *schedule, knows_of(0), ("a", "LOCK.RELEASE k oa", 0)]
    run_schedule(server, [*steps, ("a", "LOCK.INFO k", None)], some_resp)
    assert server.info("lock")["lock_contended_locks"] == 0


def test_holder_that_has_disconnected_keeps_its_lock(server, some_resp):
    steps = [A_HOLDS, B_WAITS, ("a", DIES), ("b", STILL_BLOCKED)]
    run_schedule(server, [*steps, ("z", "LOCK.RELEASE k oa", 0), ("b", granted(1))], some_resp)


def memory_of(server, actor):
    return int(server.control.client_list(client_id=[actor.client_id])[0]["tot-mem"])


def test_client_evicted_for_its_memory_is_skipped(server, actor):
    server.control.execute_command("CLIENT", "NO-EVICT", "ON")
    a, b, c = actor("a"), actor("b"), actor("c")
    a.call("LOCK.ACQUIRE", "k", "oa")
    for waiter, owner in ((b, "ob"), (c, "oc")):
        waiter.send("LOCK.ACQUIRE", "k", owner, "BLOCK", 0)
        waiter.wait_blocked()
    b.send("SET", "x", "y" * 4_000_000)
    # The server reads the commands of a blocked client as far as its buffer allows.
    wait_for(lambda: memory_of(server, b) > 1_000_000, what="b to be large")
    server.control.config_set("maxmemory-clients", 1_000_000)
    wait_for(lambda: not b.is_connected(), what="b to be evicted")
    assert server.info("stats")["evicted_clients"] >= 1
    assert waiting(server) == 1
    a.call("LOCK.RELEASE", "k", "oa")
    assert c.reply() == 1


# ---- CLIENT UNBLOCK ----


@pytest.mark.parametrize("how", [(), ("TIMEOUT",), ("ERROR",)], ids=["default", "timeout", "error"])
def test_client_unblock_ends_the_wait(server, resp, how):
    """It replies 0 on servers before 7.4, whose module API does not support it; nothing happens there."""
    a, b, c = (server.actor(name, resp) for name in "abc")
    a.call("LOCK.ACQUIRE", "k", "oa")
    for waiter, owner in ((b, "ob"), (c, "oc")):
        waiter.send("LOCK.ACQUIRE", "k", owner, "BLOCK", 0)
        waiter.wait_blocked()
    unblocked = a.call("CLIENT", "UNBLOCK", b.client_id, *how)
    assert unblocked == (1 if can_unblock(server) else 0)
    if unblocked:
        reply = b.outcome()
        assert error("UNBLOCKED")(reply) if how == ("ERROR",) else reply is None
        assert waiting(server) == 1
        assert b.call("PING") == "PONG"
    else:
        assert a.call("LOCK.CANCEL", "k", "ob") == 1
        assert b.reply() is None
    a.call("LOCK.RELEASE", "k", "oa")
    assert c.reply() == 1


# ---- the waiter disconnects in the event-loop iteration in which it is granted ----


SAME_ITERATION = dict(
    release_and_kill=[RELEASE, KILL],
    force_and_kill=["LOCK.FORCE k", KILL],
    kill_and_release=[KILL, RELEASE],
    release_and_kill_in_a_transaction=["MULTI", RELEASE, KILL, "EXEC"],
    kill_and_release_in_a_transaction=["MULTI", KILL, RELEASE, "EXEC"],
    release_then_kill_after_a_transaction=["MULTI", RELEASE, "EXEC", KILL],
    delete_and_kill=["DEL k", KILL],
    release_kill_and_reload=[RELEASE, KILL, "DEBUG RELOAD"],
    release_kill_and_refused_unload=["CONFIG SET lock.allow-unload yes", RELEASE, KILL, "MODULE UNLOAD lock"],
)


@pytest.mark.parametrize("lines", SAME_ITERATION.values(), ids=SAME_ITERATION)
def test_grant_to_a_client_killed_in_the_same_iteration_is_handed_off(server, lines):
    scene = GrantScene(server)
    scene.send_at_once(*lines)
    scene.c_holds_at_once()
    scene.b.wait_closed()


UNBLOCKS = {"timeout": ("TIMEOUT", lambda reply: reply is None), "error": ("ERROR", error("UNBLOCKED"))}


@pytest.mark.parametrize("how, expected", UNBLOCKS.values(), ids=UNBLOCKS)
def test_client_unblocked_in_the_iteration_of_its_grant_has_it_or_not(server, how, expected):
    """It holds the lock and receives the grant, or does not hold it and the next waiter does."""
    scene = GrantScene(server)
    scene.send_at_once(RELEASE, "CLIENT UNBLOCK {b} " + how)
    reply = scene.b.outcome()
    if reply != 1:
        assert expected(reply)
        scene.c_holds_at_once()
        return
    assert server.control.hgetall("k") == {"ob": "1"}
    assert scene.b.call("LOCK.RELEASE", "k", "ob") == 0
    scene.c_holds_at_once()


def test_both_waiters_killed_in_the_iteration_of_the_grant_free_the_lock(server):
    scene = GrantScene(server)
    scene.send_at_once(RELEASE, KILL, "CLIENT KILL ID {c}")
    wait_for(lambda: not server.control.exists("k"), what="the lock to be free")
    assert server.info("lock")["lock_waiters"] == 0


def test_only_the_hold_of_the_dead_connection_is_released(server):
    """Two connections of ob are granted; one dies in that iteration: the hold of the other remains."""
    scene = GrantScene(server)
    twin = server.actor("twin")
    twin.send("LOCK.ACQUIRE", "k", "ob", "BLOCK", 0)
    twin.wait_blocked()
    scene.send_at_once(RELEASE, KILL)
    assert twin.reply() == 2
    wait_for(lambda: server.control.hgetall("k") == {"ob": "1"}, what="one hold to be released")
    assert twin.call("LOCK.RELEASE", "k", "ob") == 0
    scene.c_holds_at_once()


ACQUIRED_AGAIN = dict(
    after_force=[RELEASE, KILL, "LOCK.FORCE k"],
    after_a_release=[RELEASE, KILL, "LOCK.RELEASE k ob"],
    after_a_delete=[RELEASE, KILL, "DEL k"],
    after_the_hold_was_removed=[RELEASE, KILL, "HDEL k ob"],
)


@pytest.mark.parametrize("lines", ACQUIRED_AGAIN.values(), ids=ACQUIRED_AGAIN)
def test_hold_acquired_again_is_not_released_for_the_dead_connection(server, lines):
    """Only ob waits; its client is granted, dies, loses that hold, and ob acquires the lock on another connection."""
    scene = GrantScene(server)
    assert server.control.execute_command("LOCK.CANCEL", "k", "oc") == 1
    assert scene.c.reply() is None
    scene.send_at_once(*lines, "LOCK.ACQUIRE k ob PX 600000", "LOCK.ACQUIRE z marker PX 600000")
    wait_for(lambda: server.control.exists("z"), what="the commands to have run")
    scene.b.wait_closed()
    scene.c.send("LOCK.ACQUIRE", "k", "oc", "BLOCK", 0)  # the drain finishes its work before this client is blocked
    scene.c.wait_blocked()
    assert server.control.hgetall("k") == {"ob": "1"}
    assert scene.c.is_blocked()


def test_only_the_lost_hold_is_released_if_the_other_was_reacquired(server, actor):
    a, b = actor(), actor()
    assert a.call("LOCK.ACQUIRE", "k", "oa") == 1
    b.send("LOCK.MACQUIRE", 2, "k", "l", "ob", "PX", 600_000, "BLOCK", 0)
    b.wait_blocked()
    lines = [RELEASE, f"CLIENT KILL ID {b.client_id}", "LOCK.FORCE k", "LOCK.ACQUIRE k ob PX 600000"]
    server.raw_connection().sendall("".join(line + "\r\n" for line in lines).encode())
    wait_for(lambda: server.control.hgetall("k") == {"ob": "1"}, what="the commands to have run")
    wait_for(lambda: not server.control.exists("l"), what="the other lock to be released")
    assert server.control.hgetall("k") == {"ob": "1"}


@pytest.mark.parametrize("command", ["LOCK.RWWRITE", "LOCK.RWREAD"])
def test_hold_released_for_the_dead_is_granted_to_another_own_wait(server, actor, command):
    """The other wait is for another kind of lock, so it conflicts with the first hold, and becomes a first hold."""
    scene = GrantScene(server)
    assert server.control.execute_command("LOCK.CANCEL", "k", "oc") == 1
    assert scene.c.reply() is None
    twin = actor()
    twin.send(command, "k", "ob", "PX", 600_000, "BLOCK", 0)
    twin.wait_blocked()
    scene.send_at_once(RELEASE, KILL)
    assert twin.reply() == 1
    assert server.control.exists("k")
    assert twin.call("LOCK.RELEASE", "k", "ob") == 0
    assert server.info("lock")["lock_waiters"] == 0 and not server.control.exists("k")


def test_lost_grant_is_handed_off_when_the_server_accepts_writes(server):
    """A hand-off is an acquisition: with too few replicas there is none; when there are enough, it is made."""
    scene = GrantScene(server)
    scene.send_at_once(RELEASE, KILL, "CONFIG SET min-replicas-to-write 1")
    scene.b.wait_closed()
    before = server.control.hgetall("k")
    server.let_pass(60)
    assert before == server.control.hgetall("k") == {"ob": "1"}
    assert not scene.c.has_reply()
    server.control.config_set("min-replicas-to-write", 0)
    scene.c_holds_at_once()


def test_unloading_while_the_drain_is_being_woken_is_refused_or_safe(make_server):
    """The server still has to call the module: what wakes its event loop is no timer that it checks when it unloads."""
    server = make_server(lock_allow_unload="yes")
    a, b = server.actor(), server.actor()
    assert a.call("LOCK.ACQUIRE", "k", "oa") == 1
    b.send("LOCK.ACQUIRE", "k", "ob", "BLOCK", 0)
    b.wait_blocked()
    writer, other = server.raw_connection(), server.actor()

    def is_asleep():
        probe = server.raw_connection()
        probe.settimeout(0.05)
        probe.sendall(b"PING\r\n")
        try:
            return not probe.recv(1)
        except TimeoutError:
            return True

    # Read one iteration later, because it arrives while the server sleeps, and before the event that wakes the drain.
    writer.sendall(f"DEBUG SLEEP {scaled(0.5)}\r\nCLIENT KILL ID {b.client_id}\r\n".encode())
    wait_for(is_asleep, what="the server to sleep")
    other.send("MODULE", "UNLOAD", "lock")
    reply = other.outcome()
    assert server.control.ping()
    if reply != "OK":
        wait_for(lambda: other.attempt("MODULE", "UNLOAD", "lock") == "OK", what="the module to be unloaded")
    assert "lock" not in [module["name"] for module in server.control.module_list()]


def test_waiter_that_closes_while_a_release_is_on_its_way_is_skipped(server):
    """The server reads the close and the release in one event-loop iteration, in either order."""
    for number in range(20):
        scene = GrantScene(server)
        both = [scene.b.kill_socket, lambda scene=scene: scene.send_at_once(RELEASE)]
        for action in both if number % 2 else reversed(both):
            action()
        # The server may have written the grant before it could see the close: then ob holds.
        wait_for(lambda: scene.c.has_reply() or server.control.hexists("k", "ob"), what="a grant")
        if not scene.c.has_reply():
            wait_for(lambda: not scene.b.is_connected(), what="the server to notice the close")
            # In one step, because a grant that b did not receive is being released and handed off to c.
            server.control.eval("if redis.call('HEXISTS', 'k', 'ob') == 1 then redis.call('LOCK.FORCE', 'k') end", 0)
        assert scene.c.reply() == 1
        assert scene.c.call("LOCK.RELEASE", "k", "oc") == 0


@pytest.mark.parametrize("end", ["granted", "cancelled", "killed", "reset"])
def test_deadline_of_a_wait_that_has_ended_does_nothing(server, end):
    a, b, c = (server.actor(name) for name in "abc")
    a.call("LOCK.ACQUIRE", "k", "oa")
    before = server.info("lock")["lock_time_outs"]
    b.send("LOCK.ACQUIRE", "k", "ob", "BLOCK", scaled_ms(300))
    b.wait_blocked()
    deadline = server.now_ms() + scaled_ms(300)
    c.send("LOCK.ACQUIRE", "k", "oc", "BLOCK", 0)
    c.wait_blocked()
    if end == "granted":
        a.call("LOCK.RELEASE", "k", "oa")
        assert b.reply() == 1
    elif end == "cancelled":
        a.call("LOCK.CANCEL", "k", "ob")
        assert b.reply() is None
    elif end == "killed":
        a.call("CLIENT", "KILL", "ID", b.client_id)
    else:
        b.kill_socket()
    wait_for(lambda: server.now_ms() > deadline + 20, what="the deadline to pass")
    assert server.info("lock")["lock_time_outs"] == before
    assert c.is_blocked() and not c.has_reply()
    a.call("LOCK.FORCE", "k")
    assert c.reply() == 1


# ---- lock.max-waiters ----


def test_max_waiters_limits_the_waiters_of_all_locks(server, some_resp):
    server.control.config_set("lock.max-waiters", 2)
    too_many = error("ERR")
    elsewhere = "LOCK.ACQUIRE l oc BLOCK 0"
    steps = [A_HOLDS, ("a", "LOCK.ACQUIRE l oa", 1), B_WAITS, ("c", elsewhere, BLOCKS)]
    steps += [("d", "LOCK.ACQUIRE k od BLOCK 0", too_many), ("d", "LOCK.ACQUIRE l od BLOCK 50", too_many)]
    steps += [("d", "LOCK.ACQUIRE k od", None), ("d", "LOCK.ACQUIRE m od BLOCK 0", 1)]
    steps += [("z", "LOCK.CANCEL k ob", 1), ("b", answered(None)), D_WAITS]
    steps += [("c", DIES), (lambda s: wait_for(lambda: waiting(s.server, "l") == 0),), B_WAITS]
    steps += [("e", "LOCK.ACQUIRE k oe BLOCK 0", too_many)]
    steps += [("a", "LOCK.RELEASE k oa", 0), ("d", granted(1)), ("e", "LOCK.ACQUIRE k oe BLOCK 0", BLOCKS)]
    run_schedule(server, steps, some_resp)


def test_max_waiters_lowered_below_present_waiters_ends_no_wait(server, some_resp):
    steps = [A_HOLDS, B_WAITS, C_WAITS]
    steps += [("z", "CONFIG SET lock.max-waiters 1", "OK"), ("c", STILL_BLOCKED), ("b", STILL_BLOCKED)]
    steps += [("a", "LOCK.RELEASE k oa", 0), ("b", granted(1))]
    steps += [("d", "LOCK.ACQUIRE k od BLOCK 0", error("ERR"))]
    steps += [("z", "CONFIG SET lock.max-waiters 0", "OK"), D_WAITS]
    run_schedule(server, steps, some_resp)


# ---- many at once ----


class Crowd:
    """`size` raw connections that wait for `keys` locks, held by an owner without a connection."""

    def __init__(self, server, size, keys):
        self.server, self.size, self.keys = server, size, keys
        for key in range(keys):
            server.control.execute_command("LOCK.ACQUIRE", f"k{key}", "holder")
        self.sockets = [server.raw_connection() for _ in range(size)]
        for number, sock in enumerate(self.sockets):
            sock.sendall(b"LOCK.ACQUIRE k%d o%d BLOCK 0\r\n" % (number % keys, number))
        wait_for(lambda: server.blocked_clients() == size, 30, f"{size} clients to block")
        info = server.info("lock")
        assert (info["lock_waiters"], info["lock_contended_locks"]) == (size, keys)

    def reset_all(self):
        for sock in self.sockets:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()

    def close_all(self):
        for sock in self.sockets:
            sock.close()

    def kill_all(self):
        killed = self.server.control.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert killed == self.size

    def cancel_all(self):
        """Cancels all waits, and then closes the connections."""
        pipeline = self.server.control.pipeline(transaction=False)
        for number in range(self.size):
            pipeline.execute_command("LOCK.CANCEL", f"k{number % self.keys}", f"o{number}")
        assert set(pipeline.execute()) == {1}
        self.close_all()

    def leaves_nothing(self):
        def nothing():
            info = self.server.info("lock")
            left = (info["lock_waiters"], info["lock_contended_locks"], self.server.blocked_clients())
            assert left == (0, 0, 0), f"left: waiters, contended locks, blocked clients = {left}"
            return True

        wait_for(nothing, 30, "the crowd to disconnect")
        control = self.server.control
        for key in range(self.keys):
            assert as_map(control.execute_command("LOCK.INFO", f"k{key}"))["waiting"] == 0
            assert control.execute_command("LOCK.RELEASE", f"k{key}", "holder") == 0
            assert control.execute_command("LOCK.INFO", f"k{key}") is None
        wait_for(lambda: connections(self.server) == 1, 30, "clients to be freed")


@pytest.mark.parametrize("size, keys", [(3000, 1), (500, 500)], ids=["3000_on_one_lock", "500_on_500_locks"])
def test_crowd_that_disconnects_at_once_leaves_nothing(make_server, size, keys):
    # With latency tracking the server would make a table for each command that has run.
    server = make_server(latency_tracking="no", lock_default_lease=3_600_000)
    before = memory_after_as_many_idle_connections(server, size)
    ways = (Crowd.reset_all, Crowd.close_all, Crowd.kill_all, Crowd.cancel_all)
    for leave in ways:
        crowd = Crowd(server, size, keys)
        leave(crowd)
        crowd.leaves_nothing()
        server.disconnect_clients()
    # A record of 16 bytes for each would take 192,000 more; 110,000 to 150,000 are used by the server itself.
    most = before + 250_000
    # The server frees the memory of blocked clients gradually: 500 pieces a second.
    wait_for(lambda: memory(server) < most, 60, f"memory in use to be below {most}")
    server.unload()
    server.control.module_load(str(server.launch.module))
    assert server.control.execute_command("LOCK.ACQUIRE", "k0", "o") == 1


def test_last_of_a_crowd_is_granted_when_the_others_die(server, actor):
    a, last = actor("a"), actor("last")
    crowd = Crowd(server, 300, 1)
    last.send("LOCK.ACQUIRE", "k0", "last", "BLOCK", 0)
    last.wait_blocked()
    # The release is read in the same iteration as some of the resets, or just before, or after.
    crowd.reset_all()
    a.send("LOCK.RELEASE", "k0", "holder")
    wait_for(lambda: server.info("lock")["lock_waiters"] <= 1, 10, "the crowd to disconnect")
    assert a.reply() == 0

    def is_granted_to_last():
        # A client whose reply was sent before the server noticed that it was dead holds the lock.
        if last.has_reply():
            return True
        server.control.execute_command("LOCK.FORCE", "k0")
        return False

    wait_for(is_granted_to_last, 10, "the last one to have the lock")
    assert last.reply() == 1
