"""Without a cycle there is no DEADLOCK; and a refusal leaves everything unchanged.

Also: detection switched off, requests that do not wait, and the counters. The helpers are those of
model/deadlock_scene.py.
"""

import pytest

from harness import code_of, fewer, scaled_ms, wait_for, wait_for_sync
from harness.schedule import BLOCKS, CUT_OFF, DIES, STILL_BLOCKED, answered, as_map, granted, has, run_schedule
from harness.schedule import schedules
from model.deadlock_scene import MODES, SEARCHED, TWO, detection, holds, refused, releases, waits, words

A_WAITS_FOR_B = [holds("a", "k"), holds("b", "l"), waits("a", "l")]
B_WAITS_TOO = [waits("b", "k"), ("b", STILL_BLOCKED)]


def knows_of(count):
    return (lambda s: wait_for(lambda: s.server.info("lock")["lock_waiters"] == count, what=f"{count} waiters"),)


def kills(name):
    return (lambda s: s.server.control.client_kill_filter(_id=s.actor(name).client_id),)


# The edge that would have closed the cycle is gone

GONE = dict(
    wait_timed_out=[
        holds("a", "k"),
        holds("b", "l"),
        ("a", f"LOCK.ACQUIRE l a BLOCK {scaled_ms(250)}", BLOCKS),
        ("a", answered(None)),
        *B_WAITS_TOO,
    ],
    wait_cancelled=[*A_WAITS_FOR_B, ("z", "LOCK.CANCEL l a", 1), ("a", answered(None)), *B_WAITS_TOO],
    multikey_wait_cancelled=[
        holds("a", "k"),
        holds("b", "l"),
        ("a", "LOCK.MACQUIRE 3 j k l a BLOCK 0", BLOCKS),
        ("z", "LOCK.CANCEL j a", 1),
        ("a", answered(None)),
        *B_WAITS_TOO,
    ],
    waiter_killed=[*A_WAITS_FOR_B, kills("a"), ("a", CUT_OFF), knows_of(0), *B_WAITS_TOO],
    waiter_reset=[*A_WAITS_FOR_B, ("a", DIES), knows_of(0), *B_WAITS_TOO],
    wait_granted=[*A_WAITS_FOR_B, releases("b", "l"), ("a", granted(1)), *B_WAITS_TOO],
    hold_released=[*A_WAITS_FOR_B, releases("a2", "k"), holds("b", "k")],
    hold_released_and_acquired_by_another=[*A_WAITS_FOR_B, releases("a2", "k"), holds("c", "k"), *B_WAITS_TOO],
    only_one_of_two_holds_released=[
        holds("a", "k"),
        holds("a", "k", count=2),
        holds("b", "l"),
        waits("a", "l"),
        releases("a2", "k", left=1),
        refused("b", "k", TWO),
    ],
    lease_ended=[
        ("a", f"LOCK.ACQUIRE k a PX {scaled_ms(250)}", 1),
        holds("b", "l"),
        waits("a", "l"),
        ("lease ends", "k"),
        holds("b", "k"),
        releases("b", "k"),
        holds("c", "k"),
        *B_WAITS_TOO,
    ],
    lease_of_one_reader_among_several_ended=[
        ("a", f"LOCK.RWREAD k a PX {scaled_ms(250)}", 1),
        holds("c", "k", "RWREAD"),
        holds("b", "l"),
        waits("a", "l"),
        (lambda s: reads_end(s.server, "k", "a"),),
        waits("b", "k", "RWWRITE"),
        ("b", STILL_BLOCKED),
        releases("c", "k"),
        ("b", granted(1)),
    ],
    lease_of_one_of_many_readers_ended=[
        # More readers than waiters: the search visits the waiters, not the readers.
        ("a", f"LOCK.RWREAD k a PX {scaled_ms(250)}", 1),
        *[(name, f"LOCK.RWREAD k {name}", 1) for name in ("c", "d", "e", "f", "g")],
        holds("b", "l"),
        waits("a", "l"),
        (lambda s: reads_end(s.server, "k", "a"),),
        waits("b", "k", "RWWRITE"),
    ],
    key_deleted=[*A_WAITS_FOR_B, ("z", "DEL k", 1), holds("c", "k"), *B_WAITS_TOO],
    key_overwritten_by_a_foreign_hash=[*A_WAITS_FOR_B, ("z", "DEL k", 1), ("z", "HSET k a 1 c x", 2), *B_WAITS_TOO],
    forced=[*A_WAITS_FOR_B, ("z", "LOCK.FORCE k", 1), holds("c", "k"), *B_WAITS_TOO],
    flushed=[*A_WAITS_FOR_B, ("z", "FLUSHALL", "OK"), ("a", granted(1)), holds("c", "k"), *B_WAITS_TOO],
    reserved_position_of_a_connection_that_has_closed=[
        holds("c", "m"),
        waits("a", "m", "FAIR"),
        ("a", DIES),
        knows_of(0),
        holds("b", "n"),
        waits("a2", "n"),
        # b is behind a's position, and a waits for b; but that position ends by itself.
        waits("b", "m", "FAIR"),
        ("b", STILL_BLOCKED),
    ],
    detached_wait_of_a_holder=[
        holds("a", "k"),
        holds("b", "l"),
        waits("a2", "l", "FAIR"),
        ("a2", DIES),
        knows_of(0),
        *B_WAITS_TOO,
    ],
    upgrade_is_ahead_of_the_waiters_that_wait_for_it=[
        holds("a", "k", "RWREAD"),
        holds("b", "k", "RWREAD"),
        holds("z", "l"),
        waits("w", "k", "RWWRITE"),
        waits("w2", "l"),
        waits("a", "k", "RWWRITE"),
        releases("b", "k"),
        ("a", granted(1)),
        ("w", STILL_BLOCKED),
    ],
    path_that_ends_in_another_database=[
        # The requester stays in its own database, and so does its wait.
        ("a2", "SELECT 1", "OK"),
        ("c", "SELECT 1", "OK"),
        holds("a", "k"),
        holds("c", "l"),
        waits("a2", "l"),
        waits("b", "k", "FAIR"),
        ("z", "ZCARD lock:queue:{k}", 1),
        releases("a", "k"),
        ("b", granted(1)),
        ("b", "EXISTS k", 1),
        ("d", "LOCK.ACQUIRE k d PX 1000", None),
    ],
    readers_share=[
        holds("a", "k", "RWREAD"),
        holds("b", "l"),
        waits("a", "l"),
        ("b", "LOCK.RWREAD k b BLOCK 0", 1),
    ],
    reader_does_not_wait_for_a_reader_ahead=[
        # c waits behind the writer w only; that r, ahead of it, waits for c is no cycle.
        holds("h", "k", "RWWRITE"),
        holds("c", "l"),
        waits("r", "k", "RWREAD"),
        waits("r2", "l"),
        waits("c", "k", "RWREAD"),
        releases("h", "k"),
        ("r", granted(1)),
        ("c", granted(1)),
    ],
    two_connections_of_one_owner=[
        holds("a", "k"),
        waits("b", "k"),
        waits("b2", "k"),
        holds("a", "l"),
        waits("b3", "l"),
        releases("a", "k"),
        ("b", granted(1)),
        ("b2", granted(2)),
    ],
    an_owner_behind_itself=[
        holds("a", "k"),
        waits("b", "k"),
        ("b2", "LOCK.MACQUIRE 2 k l b BLOCK 0", BLOCKS),
        releases("a", "k"),
        ("b", granted(1)),
        ("b2", granted(2)),
    ],
    one_hot_lock=[holds("a", "k"), *[waits(name, "k") for name in "bcdefgh"], ("h", STILL_BLOCKED)],
    a_tree=[
        *[holds(name, f"k{name}") for name in "abcd"],
        waits("b", "ka"),
        waits("c", "ka"),
        waits("d", "kb"),
        waits("d2", "kc"),
    ],
    same_name_in_another_database=[
        ("b", "SELECT 2", "OK"),
        holds("a", "k"),
        holds("a", "l"),
        holds("b", "l"),
        ("c", "SELECT 2", "OK"),
        holds("c", "k"),
        ("a", "SELECT 2", "OK"),
        waits("a", "l"),
        waits("b", "k"),
    ],
)


def reads_end(server, key, owner):
    """Waits until this reader's lease has expired, by the server's clock."""
    end = server.control.zscore(f"lock:lease:{{{key}}}", owner) or 0  # none: it has expired and has been removed
    wait_for(lambda: server.now_ms() > end, 30, "the reader's lease to end")


@schedules(**GONE)
def test_no_cycle_no_refusal(server, some_resp, schedule):
    server.control.config_set("lock.fair-reserve", scaled_ms(60_000))
    refusals = server.info("lock")["lock_deadlocks_refused"]
    run_schedule(server, schedule, some_resp)
    expected = 1 if any("DEADLOCK" in repr(step) for step in schedule) else 0
    assert server.info("lock")["lock_deadlocks_refused"] == refusals + expected
    server.control.config_set("lock.fair-reserve", 0)


@pytest.mark.parametrize("others, elsewhere", [(1, 5), (9, 0)], ids=["few readers", "more readers than waiters"])
def test_reader_whose_lease_has_just_expired_is_no_obstacle(server, actor, others, elsewhere):
    """The request runs before the server's timers have a chance to remove the reader."""
    lease = scaled_ms(150)
    server.control.execute_command("LOCK.ACQUIRE", "x", "x")
    for number in range(elsewhere):
        waiter = actor()
        waiter.send("LOCK.ACQUIRE", "x", f"x{number}", "BLOCK", 0)
        waiter.wait_blocked()
    w, a, b = actor("w"), actor("a"), actor("b")
    w.call("LOCK.ACQUIRE", "m", "w")
    b.call("LOCK.ACQUIRE", "l", "b")
    for number in range(others):
        w.call("LOCK.RWREAD", "k", f"r{number}", "PX", 3_600_000)
    w.call("LOCK.RWREAD", "k", "a", "PX", 3_600_000)
    w.send("LOCK.RWWRITE", "k", "w", "BLOCK", 0)
    w.wait_blocked()
    a.send("LOCK.ACQUIRE", "l", "a", "BLOCK", 0)
    a.wait_blocked()
    # b -> m, w -> k, a -> l, b, except for a's lease.
    assert server.control.zcard("lock:lease:{k}") == others + 1
    command = b"LOCK.ACQUIRE m b BLOCK 0\r\n"
    sock = server.raw_connection()
    sock.sendall(b"LOCK.RENEW k a PX %d\r\n" % lease + command + b"DEBUG SLEEP %f\r\n" % ((lease + 1) / 1000) + command)
    replies = sock.makefile("rb")
    assert replies.readline() == b":1\r\n"
    cycle = b"b waits for m held by w, w waits for k held by a, a waits for l held by b"
    assert replies.readline() == b"-DEADLOCK " + cycle + b"\r\n"
    assert replies.readline() == b"+OK\r\n"
    wait_for(lambda: server.info("lock")["lock_waiters"] == 3 + elsewhere, what="b to wait")
    server.control.execute_command("LOCK.RELEASE", "m", "w")
    assert replies.readline() == b":1\r\n"


# Requests that do not wait

REQUESTS = {mode: " ".join(words(mode, "k", "b")) for mode in MODES}


@pytest.mark.parametrize("command", REQUESTS.values(), ids=REQUESTS)
def test_request_that_does_not_wait_closes_no_cycle(server, some_resp, command):
    script = "return redis.call(unpack(ARGV)) == false and 'null'"
    steps = [*A_WAITS_FOR_B, ("b", command, None)]
    steps += [("b", "MULTI", "OK"), ("b", f"{command} BLOCK 0", "QUEUED"), ("b", "EXEC", [None])]
    steps += [("b", ("EVAL", script, "1", "k", *command.split(), "BLOCK", "0"), "null")]
    steps += [("b", f"LOCK.GUARD l b {command} BLOCK 0", None)]
    steps += [("b", f"{command} BLOCK 0", lambda got: code_of(got) == "DEADLOCK")]
    run_schedule(server, steps, some_resp)


# What a refusal does not change


@pytest.mark.parametrize("mode", [*MODES, "MACQUIRE, multi-key"])
def test_refusal_changes_nothing(server, some_resp, mode):
    """Keys, queues, the replica, memory of waiters, and counters other than those of cycles. A fair position is written
    and removed again."""
    a, b, c = (server.actor(name, some_resp) for name in "abc")
    replica = server.start_replica()
    for actor, owner, key in ((a, "a", "k"), (b, "b", "l")):
        actor.call("LOCK.ACQUIRE", key, owner, "PX", 600_000)
    a.send("LOCK.ACQUIRE", "l", "a", "BLOCK", 0)
    c.send("LOCK.FAIR", "k", "c", "BLOCK", 0)
    a.wait_blocked(), c.wait_blocked()
    ask = ("LOCK.MACQUIRE", 3, "m", "k", "n", "b") if "multi-key" in mode else words(mode, "k", "b")

    def state():
        infos = [as_map(server.control.execute_command("LOCK.INFO", key)) for key in ("k", "l")]
        infos += [server.control.execute_command("LOCK.INFO", key) for key in ("m", "n")]
        for info in filter(None, infos):
            info.pop("holders"), [as_map(one) for one in info["waiters"]]
            info["waiters"] = [as_map(one)["owner"] for one in info["waiters"]]
        return server.dump(), infos, server.info("lock"), server.blocked_clients(), offset()

    def offset():
        return mode != "FAIR" and server.info("replication")["master_repl_offset"]

    def is_as_before():
        now = state()
        assert now[2].pop("lock_deadlocks_refused") == before[2]["lock_deadlocks_refused"] + 3
        for name in ("lock_deadlocks_refused", "lock_deadlock_searches", "lock_deadlock_search_steps"):
            now[2][name] = before[2][name]
        assert now == before
        return True

    # The server itself sends PINGs to its replicas.
    server.control.config_set("repl-ping-replica-period", 3600)
    wait_for_sync(server, replica)
    server.all_searched()
    before = state()
    for _ in range(3):
        assert code_of(b.attempt(*ask, "BLOCK", 0)) == "DEADLOCK"
    wait_for(is_as_before, what="the server to be as before")
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump()
    assert b.call("LOCK.RELEASE", "l", "b") == 0
    assert a.reply() == 1
    replica.stop()


def test_refusals_leave_no_memory(server, actor):
    a, b = actor("a"), actor("b")
    for who, owner, key in ((a, "a", "k"), (b, "b", "l")):
        who.call("LOCK.ACQUIRE", key, owner)
    a.send("LOCK.ACQUIRE", "l", "a", "BLOCK", 0)
    a.wait_blocked()
    used = []
    for _ in range(6):
        pipeline = server.control.pipeline(transaction=False)
        for i in range(fewer(200)):  # one after the other, each some ms
            keys = [f"key{i}.{j}" for j in range(10)]
            pipeline.execute_command("LOCK.MACQUIRE", 11, "k", *keys, "b", "BLOCK", 0)
        replies = pipeline.execute(raise_on_error=False)
        assert {code_of(reply) for reply in replies} == {"DEADLOCK"}
        assert server.info("lock")["lock_contended_locks"] == 1
        used.append(server.info("memory")["used_memory"])
    # A waiter of eleven keys takes more than 1,000 bytes.
    # The minimum: now and then a client's buffer adds to it, before the server shrinks it.
    assert min(used[2:]) - used[1] < 100 * fewer(200), used


# lock.deadlock-detection


def test_detection_off_accepts_waits_and_leases_end_the_cycle(server, some_resp):
    lease = scaled_ms(120)
    steps = [
        detection("no"),
        holds("a", "k"),
        holds("b", "l"),
        waits("a", "l"),
        waits("b", "k"),
        ("z", f"LOCK.RENEW k a PX {lease}", 1),
        ("b", granted(1)),
        ("a", STILL_BLOCKED),
    ]
    run_schedule(server, steps, some_resp)


def test_detection_is_switched_live(server, some_resp):
    steps = [
        *A_WAITS_FOR_B,
        refused("b", "k", TWO),
        detection("no"),
        waits("b", "k"),
        detection("yes"),
        # A cycle that exists already does not prevent others from waiting for its members.
        waits("c", "k"),
        ("d", "LOCK.MACQUIRE 3 k l m d BLOCK 0", BLOCKS),
        ("z", "LOCK.CANCEL k b", 1),
        ("b", answered(None)),
        refused("b", "k", TWO),
        ("z", "LOCK.INFO k", has(waiting=2)),
    ]
    run_schedule(server, steps, some_resp)


def test_detection_off_keeps_the_refusals_of_one_lock(server, some_resp):
    cycle = "b waits for k held by a, a waits for k held by b"
    upgrades = [detection("no"), holds("a", "k", "RWREAD"), holds("b", "k", "RWREAD"), waits("a", "k", "RWWRITE")]
    run_schedule(server, [*upgrades, refused("b", "k", cycle, "RWWRITE")], some_resp)


def test_cycle_closed_by_the_end_of_a_wait_is_found_at_the_next_request(server, some_resp):
    """While b was ahead of c, with a connection that has closed now, c waited for b in both queues."""

    def first_wait_of_b_has_ended(run):
        wait_for(lambda: run.server.info("lock")["lock_waiters"] == 3, what="the server to see the close")

    begin = [holds("a", "k"), holds("b", "l"), waits("c", "l"), waits("b1", "k"), waits("c2", "k"), waits("b2", "k")]
    begin += [SEARCHED]
    end = [("b1", DIES), (first_wait_of_b_has_ended,)]
    again = refused("c3", "k", "c waits for l held by b, b waits for k behind c")
    run_schedule(server, [*begin, *end, again, ("z", "LOCK.INFO k", has(waiting=2))], some_resp)
