"""How a wait for several keys ends without a grant, and what happens to its client.

The waiter leaves all queues in one step, and the waiter behind it in each of them is next. The helpers are in
model/multikey_scene.py; test_order.py tests how a wait ends with a grant.
"""

import socket
import struct

import pytest

from harness import code_of, fewer, scaled_ms, wait_for, wait_for_sync
from harness.aof import aof_of, commands_in
from harness.schedule import BLOCKS, CLOSES, CUT_OFF, DIES, STILL_BLOCKED, answered, as_map, error, granted
from harness.schedule import run_schedule, schedules
from model.gone_scene import can_unblock, kills, memory, memory_after_as_many_idle_connections
from model.multikey_scene import free, gives, held, knows_of, one, queue, releases, takes, waits

SHORT, LONG = scaled_ms(600), 600_000

# Each ends b's wait for j, k and l; a holds k.
ENDS = dict(
    timed_out=[("b", answered(None))],
    cancelled_by_the_first_key=[("z", "LOCK.CANCEL j ob", 1), ("b", answered(None))],
    cancelled_by_the_held_key=[("z", "LOCK.CANCEL k ob", 1), ("b", answered(None))],
    cancelled_by_the_last_key=[("z", "LOCK.CANCEL l ob", 1), ("b", answered(None))],
    reset=[("b", DIES)],
    closed=[("b", CLOSES)],
    killed=[kills("b"), ("b", CUT_OFF)],
)


@schedules(**ENDS)
def test_waiter_leaves_all_queues_in_one_step(server, some_resp, schedule):
    """The waiters behind it for the free keys are granted; the one behind it for the held key still waits."""
    block = str(SHORT) if schedule == ENDS["timed_out"] else "0"
    steps = [one("a", "k", 1), takes("b", "j k l", BLOCKS, "BLOCK", block)]
    steps += [one(name, key, BLOCKS, "BLOCK", "0") for name, key in zip("cde", "jkl", strict=True)]
    steps += [*schedule, ("c", granted(1)), ("e", granted(1)), ("d", STILL_BLOCKED)]
    steps += [held("j", "oc"), held("k", "oa"), held("l", "oe"), queue("k", "od"), knows_of(waiters=1, locks=1)]
    steps += [("z", f"LOCK.CANCEL {key} ob", 0) for key in "jkl"]
    run_schedule(server, [*steps, releases("a", "k"), ("d", granted(1))], some_resp)


@schedules(**ENDS)
def test_only_waiter_in_all_queues_leaves_nothing(server, some_resp, schedule):
    block = str(SHORT) if schedule == ENDS["timed_out"] else "0"
    steps = [one("a", "k", 1), takes("b", "j k l", BLOCKS, "BLOCK", block), *schedule]
    steps += [(lambda s: wait_for(lambda: s.server.info("lock")["lock_waiters"] == 0, what="b to leave"),)]
    steps += [knows_of(waiters=0, locks=0), free("j", "l"), held("k", "oa")]
    run_schedule(server, [*steps, ("z", "LOCK.INFO j", None)], some_resp)


@pytest.mark.parametrize("how, expected", [("TIMEOUT", lambda got: got is None), ("ERROR", error("UNBLOCKED"))])
def test_client_unblock_ends_the_wait(server, some_resp, how, expected):
    a, b, c = (server.actor(name, some_resp) for name in "abc")
    a.call("LOCK.ACQUIRE", "k", "oa")
    b.send("LOCK.MACQUIRE", 2, "j", "k", "ob", "BLOCK", 0)
    b.wait_blocked()
    c.send("LOCK.ACQUIRE", "j", "oc", "BLOCK", 0)
    c.wait_blocked()
    unblocked = a.call("CLIENT", "UNBLOCK", b.client_id, how)
    assert unblocked == int(can_unblock(server))
    if unblocked:
        assert expected(b.outcome())
        assert c.reply() == 1
    else:
        assert not b.has_reply() and b.is_blocked() and not c.has_reply()


def test_role_change_unblocks_and_forgets_the_waiter(make_server):
    server, other = make_server(), make_server()
    a, b = server.actor("a"), server.actor("b")
    a.call("LOCK.ACQUIRE", "k", "oa")
    b.send("LOCK.MACQUIRE", 2, "j", "k", "ob", "BLOCK", 0)
    b.wait_blocked()
    server.control.replicaof("127.0.0.1", other.port)
    assert code_of(b.outcome()) == "UNBLOCKED"
    assert (server.info("lock")["lock_waiters"], server.info("lock")["lock_contended_locks"]) == (0, 0)


def sessions_are(count):
    return (lambda s: wait_for(lambda: s.server.info("lock")["lock_sessions"] == count, what=f"{count} sessions"),)


MEANWHILE = dict(
    an_overwritten_key_is_waited_for=[
        one("a", "k", 1),
        waits("b", "j k"),
        ("z", "SET j x", "OK"),
        releases("a", "k"),
        ("b", STILL_BLOCKED),
        free("k"),
        ("z", "DEL j", 1),
        ("b", granted(2)),
    ],
    the_owner_holds_a_key_as_another_kind_of_lock=[
        one("a", "k", 1),
        waits("b", "j k"),
        ("z", "HSET j mode read ob 1", 2),
        releases("a", "k"),
        ("b", STILL_BLOCKED),
        ("z", "DEL j", 1),
        ("b", granted(2)),
    ],
    the_owner_is_given_a_key_directly=[
        one("a", "j", 1),
        one("a", "k", 1),
        one("c", "j", BLOCKS, "BLOCK", "0"),
        waits("b", "j k"),
        ("z", "MULTI", "OK"),
        ("z", "DEL j", "QUEUED"),
        ("z", "HSET j ob 1", "QUEUED"),
        ("z", "EXEC", [1, 1]),
        ("b", STILL_BLOCKED),
        releases("a", "k"),
        ("b", granted(2)),
        held("j", "ob", 2),
        ("c", STILL_BLOCKED),
    ],
    the_hold_count_of_a_key_reaches_its_limit=[
        one("a", "k", 1),
        waits("b", "j k"),
        one("c", "j", BLOCKS, "BLOCK", "0"),
        ("z", "HSET j ob 2147483647", 1),
        releases("a", "k"),
        ("b", granted(error("ERR"))),
        free("k"),
        ("c", STILL_BLOCKED),
        ("z", "DEL j", 1),
        ("c", granted(1)),
    ],
    the_hold_count_reaches_its_limit_while_another_key_is_held=[
        one("a", "k", 1),
        waits("b", "k j"),
        ("z", "HSET j ob 2147483647", 1),
        releases("a", "k"),
        ("b", granted(error("ERR"))),
        free("k"),
        knows_of(waiters=0, locks=0),
    ],
    an_overwritten_key_before_a_held_key=[
        one("a", "k", 1),
        one("a", "l", 1),
        waits("b", "j k l"),
        ("z", "SET j x", "OK"),
        releases("a", "l"),
        releases("a", "k"),
        ("b", STILL_BLOCKED),
        free("k", "l"),
        ("z", "DEL j", 1),
        ("b", granted(3)),
    ],
    a_free_key_is_acquired_directly=[
        one("a", "j", 1),
        one("a", "l", 1),
        waits("b", "j k l"),
        releases("a", "j"),
        ("z", "HSET k oc 1", 1),
        ("z", "HSET j oc 1", 1),
        releases("a", "l"),
        ("b", STILL_BLOCKED),
        ("z", "DEL j", 1),
        ("b", STILL_BLOCKED),
        free("j", "l"),
        ("z", "DEL k", 1),
        ("b", granted(3)),
    ],
    too_many_waiters=[
        ("z", "CONFIG SET lock.max-waiters 2", "OK"),
        one("a", "k", 1),
        waits("b", "j k l"),
        waits("c", "k l"),
        takes("d", "k l", error("ERR"), "BLOCK", "0"),
        takes("d", "m n", 2, "BLOCK", "0"),
        takes("d", "k l", None),
        ("z", "LOCK.CANCEL l oc", 1),
        ("c", answered(None)),
        waits("d", "k l"),
        releases("a", "k"),
        ("b", granted(3)),
        ("z", "CONFIG SET lock.max-waiters 0", "OK"),
    ],
    a_session_binds_all_and_releases_all=[
        one("a", "k", 1),
        takes("b", "j k l", BLOCKS, "SESSION", "BLOCK", "0"),
        takes("c", "l k j", BLOCKS, "SESSION", "BLOCK", "0"),
        releases("a", "k"),
        ("b", granted(3)),
        (lambda s: [bound_to(s, key, "b") for key in "jkl"],),
        ("b", CLOSES),
        ("c", granted(3)),
        (lambda s: [bound_to(s, key, "c") for key in "jkl"],),
        ("c", DIES),
        (lambda s: wait_for(lambda: not s.server.control.exists(*"jkl"), what="all to be released"),),
    ],
    a_session_ends_with_the_holds=[
        takes("a", "j k", 2, "SESSION"),
        sessions_are(2),
        gives("a", "k j", 2),
        sessions_are(0),
    ],
    a_session_of_an_immediate_grant=[
        takes("a", "j k", 2, "SESSION"),
        (lambda s: [bound_to(s, key, "a") for key in "jk"],),
        waits("b", "k j"),
        ("a", CLOSES),
        ("b", granted(2)),
        (lambda s: [bound_to(s, key, None) for key in "jk"],),
    ],
)


def bound_to(run, key, name):
    [holder] = as_map(run.server.control.execute_command("LOCK.INFO", key))["holders"]
    assert as_map(holder)["session"] == (run.actor(name).client_id if name else None)


@schedules(**MEANWHILE)
def test_keys_change_during_the_wait(server, some_resp, schedule):
    server.control.config_set("lock.session-grace", 0)
    run_schedule(server, schedule, some_resp)


def test_all_leases_count_from_the_grant_and_end_together(server, actor):
    a, b = actor("a"), actor("b")
    a.call("LOCK.ACQUIRE", "k", "oa", "PX", LONG)
    b.send("LOCK.MACQUIRE", 3, "j", "k", "l", "ob", "PX", 60_000, "BLOCK", 0)
    b.wait_blocked()
    requested = server.now_ms()
    wait_for(lambda: server.now_ms() > requested + 30, what="time to pass between request and grant")
    before = server.now_ms()
    a.call("LOCK.RELEASE", "k", "oa")
    after = server.now_ms()
    assert b.reply() == 3
    ends = {server.control.execute_command("PEXPIRETIME", key) for key in "jkl"}
    assert all(before + 60_000 <= end <= after + 60_000 for end in ends)
    assert len(ends) == 1
    # The leases expire one after another; each lock is then granted to the next waiter.
    for key, owner in zip("jkl", ("x", "y", "z"), strict=True):
        a.call("PEXPIRE", key, SHORT)
        waiter = server.actor(owner)
        waiter.send("LOCK.ACQUIRE", key, owner, "PX", LONG, "BLOCK", 0)
        assert waiter.reply() == 1


@pytest.mark.parametrize("behind", ["one for the same keys", "one for each key"])
@pytest.mark.parametrize("kills_in_multi", [False, True], ids=["", "multi"])
def test_client_that_dies_between_grant_and_reply_releases_all(server, actor, behind, kills_in_multi):
    a, b = actor("a"), actor("b")
    a.call("LOCK.MACQUIRE", 2, "k", "l", "oa")
    b.send("LOCK.MACQUIRE", 3, "k", "l", "m", "ob", "BLOCK", 0)
    b.wait_blocked()
    if behind == "one for each key":
        requests = [("LOCK.ACQUIRE", key, f"o{key}", "BLOCK", 0) for key in "klm"]
    else:
        requests = [("LOCK.MACQUIRE", 3, "m", "l", "k", "oc", "BLOCK", 0)]
    waiters = [actor() for _ in requests]
    for waiter, words in zip(waiters, requests, strict=True):
        waiter.send(*words)
        waiter.wait_blocked()
    lines = [b"LOCK.MRELEASE 2 k l oa", b"CLIENT KILL ID %d" % b.client_id]
    if kills_in_multi:
        lines = [b"MULTI", *lines, b"EXEC"]
    server.raw_connection().sendall(b"\r\n".join(lines) + b"\r\n")
    assert [waiter.reply() for waiter in waiters] == ([1] * 3 if len(waiters) == 3 else [3])
    b.wait_closed()
    info = server.info("lock")
    assert (info["lock_waiters"], info["lock_contended_locks"]) == (0, 0)
    assert "ob" not in {field for key in "klm" for field in server.control.hkeys(key)}


def test_grants_and_holds_are_counted_for_each_key(server, actor):
    a, b = actor("a"), actor("b")
    before = server.info("lock")
    a.call("LOCK.MACQUIRE", 3, "j", "k", "l", "oa")
    a.call("LOCK.MACQUIRE", 2, "k", "l", "oa")
    b.send("LOCK.MACQUIRE", 4, "j", "k", "l", "m", "ob", "BLOCK", 0)
    b.wait_blocked()
    a.call("LOCK.MRELEASE", 2, "k", "l", "oa")
    a.call("LOCK.MRELEASE", 3, "j", "k", "l", "oa")
    assert b.reply() == 4
    after = server.info("lock")
    counted = {name: after[f"lock_{name}"] - before[f"lock_{name}"] for name in COUNTED}
    assert counted == COUNTED


@pytest.mark.parametrize("end", ["cancelled", "time_outs", "clients_gone"])
def test_end_of_a_wait_is_counted_once(server, actor, end):
    a, b = actor("a"), actor("b")
    a.call("LOCK.MACQUIRE", 2, "k", "l", "oa")
    before = server.info("lock")[f"lock_{end}"]
    b.send("LOCK.MACQUIRE", 3, "k", "l", "m", "ob", "BLOCK", SHORT if end == "time_outs" else 0)
    b.wait_blocked()
    if end == "cancelled":
        a.call("LOCK.CANCEL", "l", "ob")
    elif end == "clients_gone":
        b.kill_socket()
    wait_for(lambda: server.info("lock")["lock_waiters"] == 0, what="the wait to end")
    assert server.info("lock")[f"lock_{end}"] == before + 1


ACQUIRED = [words for key in "klm" for words in (["HSET", key, "ob", "1"], ["PEXPIREAT", key])]


def grant_by(server, cause):
    """oa holds k, ob waits for k, l and m, oc for m. Returns the commands in the AOF from the cause on."""
    a, b, c = (server.actor(name) for name in "abc")
    a.call("LOCK.ACQUIRE", "k", "oa", "PX", LONG)
    b.send("LOCK.MACQUIRE", 3, "k", "l", "m", "ob", "PX", LONG, "BLOCK", 0)
    b.wait_blocked()
    c.send("LOCK.ACQUIRE", "m", "oc", "PX", LONG, "BLOCK", 0)
    c.wait_blocked()
    start = len(aof_of(server))
    if cause == "dies before the reply":
        lines = b"LOCK.RELEASE k oa\r\nCLIENT KILL ID %d\r\n" % b.client_id
        server.raw_connection().sendall(lines)
        assert c.reply() == 1
    else:
        a.call(*cause.split())
        assert b.reply() == 3
    return [words[:2] if words[0] == "PEXPIREAT" else words for words in commands_in(aof_of(server)[start:])]


RELEASED = [["DEL", "k"], ["DEL", "l"], ["DEL", "m"], ["HSET", "m", "oc", "1"], ["PEXPIREAT", "m"]]
WRITTEN = {
    "LOCK.RELEASE k oa": [["MULTI"], ["DEL", "k"], *ACQUIRED, ["EXEC"]],
    "LOCK.FORCE k": [["MULTI"], ["DEL", "k"], *ACQUIRED, ["EXEC"]],
    "DEL k": [["DEL", "k"], ["MULTI"], *ACQUIRED, ["EXEC"]],
    "RENAME k elsewhere": [["RENAME", "k", "elsewhere"], ["MULTI"], *ACQUIRED, ["EXEC"]],
    "dies before the reply": [["MULTI"], ["DEL", "k"], *ACQUIRED, ["EXEC"], ["MULTI"], *RELEASED, ["EXEC"]],
}


@pytest.mark.parametrize("cause", WRITTEN)
def test_changes_of_one_step_are_one_transaction_in_the_aof(make_server, cause):
    """In the AOF and for replicas it follows its cause; after a crash all changes are there."""
    server = make_server(appendonly="yes", appendfsync="always")
    replica = server.start_replica()
    assert grant_by(server, cause) == WRITTEN[cause]
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump()
    before = server.dump()
    server.kill()
    server.start()
    assert server.dump() == before


COUNTED = {
    "granted_at_once": 3,
    "granted_by_reentry": 2,
    "granted_after_wait": 4,
    "releases": 5,
    "time_outs": 0,
    "cancelled": 0,
}


# ---- many at once ----


class Crowd:
    """`size` raw connections, each of which waits for three of `size` keys and a free one; neighbours share keys."""

    def __init__(self, server, size):
        self.server, self.size = server, size
        for key in range(size):
            server.control.execute_command("LOCK.ACQUIRE", f"k{key}", "holder", "PX", 3_600_000)
        self.sockets = [server.raw_connection() for _ in range(size)]
        for i, sock in enumerate(self.sockets):
            keys = b" ".join(b"k%d" % ((i + j) % size) for j in (0, 1, 7))
            sock.sendall(b"LOCK.MACQUIRE 4 %s free%d o%d BLOCK 0\r\n" % (keys, i % 10, i))
        wait_for(lambda: server.blocked_clients() == size, 30, f"{size} clients to block")
        assert server.info("lock")["lock_contended_locks"] == size + 10

    def reset_all(self):
        for sock in self.sockets:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()

    def kill_all(self):
        killed = self.server.control.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert killed == self.size

    def leaves_nothing(self):
        def nothing():
            info = self.server.info("lock")
            left = (info["lock_waiters"], info["lock_contended_locks"], self.server.blocked_clients())
            assert left == (0, 0, 0), f"left: waiters, contended locks, blocked clients = {left}"
            return True

        wait_for(nothing, 30, "all waits to end")
        control = self.server.control
        assert control.exists(*(f"free{i}" for i in range(10))) == 0
        for key in range(self.size):
            assert control.execute_command("LOCK.RELEASE", f"k{key}", "holder") == 0
        wait_for(lambda: self.server.info("clients")["connected_clients"] == 1, 30, "clients to be freed")


def test_five_hundred_clients_that_disconnect_at_once_leave_nothing(make_server):
    size = fewer(500)
    server = make_server(latency_tracking="no")
    before = memory_after_as_many_idle_connections(server, size)
    for leave in (Crowd.kill_all, Crowd.reset_all):
        crowd = Crowd(server, size)
        leave(crowd)
        crowd.leaves_nothing()
        server.disconnect_clients()
    wait_for(lambda: memory(server) < before + 250_000, 60, "the memory in use to return to its old value")
    server.unload()
    server.control.module_load(str(server.launch.module))
    assert server.control.execute_command("LOCK.MACQUIRE", 2, "k0", "k1", "o") == 2


def test_five_hundred_waiters_for_the_same_keys_are_granted_in_order(server, actor):
    size = fewer(500)
    a = actor("a")
    a.call("LOCK.MACQUIRE", 3, "k0", "k1", "k2", "o")
    waiters = [server.raw_connection() for _ in range(size)]
    for i, sock in enumerate(waiters):
        sock.sendall(b"LOCK.MACQUIRE 3 k%d k%d k%d o%d BLOCK 0\r\n" % (i % 3, (i + 1) % 3, (i + 2) % 3, i))
        wait_for(lambda i=i: server.info("lock")["lock_waiters"] == i + 1, what="the client to wait")
    pipeline = server.control.pipeline(transaction=False)
    for owner in ["o", *(f"o{i}" for i in range(size))]:
        pipeline.execute_command("LOCK.MRELEASE", 3, "k2", "k1", "k0", owner)
    assert pipeline.execute() == [3] * (size + 1)
    assert [sock.recv(16) for sock in waiters] == [b":3\r\n"] * size
    assert server.control.exists("k0", "k1", "k2") == 0


def test_side_key_of_one_key_given_as_another_key_may_be_deleted_by_it(server, actor):
    """In the millisecond in which the leases expire, opening one key deletes the other."""
    c = actor("c")
    for _ in range(20):
        pipeline = server.control.pipeline(transaction=True)
        for owner in ("oa", "ob"):
            pipeline.execute_command("LOCK.RWREAD", "k", owner, "PX", 5)
        assert pipeline.execute() == [1, 1]
        for names in (("lock:lease:{k}", "k"), ("k", "lock:lease:{k}")):
            reply = None
            while reply != 2:
                reply = c.attempt("LOCK.MACQUIRE", 2, *names, "oc")
                assert reply == 2 or code_of(reply) == "WRONGTYPE"
            assert c.call("LOCK.MRELEASE", 2, *names, "oc") == 2
    assert server.control.dbsize() == 0
