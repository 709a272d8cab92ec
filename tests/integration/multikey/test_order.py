"""A waiter for several keys is in the queues of all of them, and no other client overtakes it.

The helpers are in model/multikey_scene.py.
"""

import pytest

from harness import scaled_ms, wait_for
from harness.schedule import BLOCKS, CLOSES, CUT_OFF, DIES, STILL_BLOCKED, granted, has, run_schedule, schedules
from model.gone_scene import kills
from model.multikey_scene import free, gives, held, knows_of, one, queue, releases, takes, waits

# A lease, or a timeout, that the test waits out.
SHORT = scaled_ms(600)

ORDER = dict(
    waits_in_all_queues=[
        one("a", "m", 1),
        waits("b", "k l m"),
        queue("k", "ob"),
        queue("l", "ob"),
        queue("m", "ob"),
        ("z", "LOCK.INFO k", has(mode="free", holders=[])),
        free("k", "l"),
        releases("a", "m"),
        ("b", granted(3)),
        held("k", "ob"),
        ("z", "LOCK.INFO k", has(waiting=0)),
    ],
    is_one_waiter=[
        one("a", "m", 1),
        waits("b", "k l m"),
        knows_of(waiters=1, locks=3),
        ("z", "LOCK.CANCEL l ob", 1),
        ("b", granted(None)),
        knows_of(waiters=0, locks=0),
    ],
    keys_become_free_in_any_order=[
        one("a", "k", 1),
        one("b", "l", 1),
        one("c", "m", 1),
        waits("d", "k l m"),
        releases("c", "m"),
        ("d", STILL_BLOCKED),
        releases("a", "k"),
        ("d", STILL_BLOCKED),
        free("k", "m"),
        releases("b", "l"),
        ("d", granted(3)),
    ],
    no_client_overtakes_it_on_a_free_key=[
        one("a", "l", 1),
        waits("b", "k l"),
        one("c", "k", None),
        ("c", "LOCK.FAIR k oc", None),
        ("c", "LOCK.RWREAD k oc", None),
        ("c", "LOCK.RWWRITE k oc", None),
        takes("c", "k m", None),
        one("c", "k", BLOCKS, "BLOCK", "0"),
        one("d", "k", BLOCKS, "BLOCK", "0"),
        queue("k", "ob", "oc", "od"),
        free("k"),
        releases("a", "l"),
        ("b", granted(2)),
        releases("b", "k"),
        ("c", granted(1)),
        ("d", STILL_BLOCKED),
        releases("c", "k"),
        ("d", granted(1)),
    ],
    no_client_overtakes_it_behind_another_waiter=[
        # A plain waiter before or behind it makes no difference.
        one("a", "k", 1),
        one("a", "l", 1),
        one("b", "k", BLOCKS, "BLOCK", "0"),
        waits("c", "k l"),
        releases("a", "k"),
        ("b", granted(1)),
        ("z", "MULTI", "OK"),
        ("z", "DEL k", "QUEUED"),
        ("z", "LOCK.ACQUIRE k oz", "QUEUED"),
        ("z", "EXEC", [1, None]),
    ],
    an_owner_does_not_queue_behind_itself=[
        one("a", "l", 1),
        waits("b", "k l"),
        one("b2", "k", 1),
        held("k", "ob"),
        takes("b2", "k n", 2),
        held("k", "ob", 2),
        releases("a", "l"),
        ("b", granted(2)),
        held("k", "ob", 3),
    ],
    waiters_are_granted_in_order_in_every_shared_queue=[
        one("a", "l", 1),
        waits("b", "k l"),
        waits("c", "l m"),
        waits("d", "m k"),
        queue("k", "ob", "od"),
        queue("m", "oc", "od"),
        releases("a", "l"),
        ("b", granted(2)),
        ("c", STILL_BLOCKED),
        free("m"),
        gives("b", "k l", 2),
        ("c", granted(2)),
        ("d", STILL_BLOCKED),
        gives("c", "l m", 2),
        ("d", granted(2)),
    ],
    the_same_keys_in_other_orders=[
        takes("a", "k l", 2),
        *[waits(name, keys) for name, keys in zip("bcdef", ("l k", "k l", "l k", "k l", "k l l"))],
        *[
            step
            for last, name in zip("abcde", "bcdef")
            for step in (gives(last, "k l", 2), (name, granted(2)))
        ],
    ],
    requests_without_a_common_key_do_not_wait=[
        one("a", "l", 1),
        waits("b", "k l"),
        takes("c", "m n", 2),
        one("d", "l2", 1),
    ],
    waits_behind_readers_and_fair_waiters=[
        one("a", "k", 1),
        ("b", "LOCK.RWREAD k ob BLOCK 0", BLOCKS),
        ("c", "LOCK.FAIR k oc BLOCK 0", BLOCKS),
        waits("d", "k l"),
        ("e", "LOCK.RWREAD k oe BLOCK 0", BLOCKS),
        ("f", "LOCK.FAIR l of BLOCK 0", BLOCKS),
        releases("a", "k"),
        ("b", granted(1)),
        ("d", STILL_BLOCKED),
        releases("b", "k"),
        ("c", granted(1)),
        ("f", STILL_BLOCKED),
        releases("c", "k"),
        ("d", granted(2)),
        gives("d", "k l", 2),
        ("e", granted(1)),
        ("f", granted(1)),
    ],
    the_owners_other_waits_become_reentries=[
        takes("a", "k l", 2),
        waits("b", "k l m"),
        one("c", "l", BLOCKS, "BLOCK", "0"),
        one("b2", "k", BLOCKS, "BLOCK", "0"),
        one("b3", "l", BLOCKS, "BLOCK", "0"),
        waits("b4", "m l"),
        releases("a", "l"),
        ("b", STILL_BLOCKED),
        ("b3", STILL_BLOCKED),
        releases("a", "k"),
        ("b", granted(3)),
        ("b2", granted(2)),
        ("b3", granted(2)),
        ("b4", granted(2)),
        held("l", "ob", 3),
        ("c", STILL_BLOCKED),
    ],
    of_one_key_replies_1_whatever_the_hold_count=[
        one("a", "k", 1),
        one("b", "k", BLOCKS, "BLOCK", "0"),
        waits("b2", "k"),
        releases("a", "k"),
        ("b", granted(1)),
        ("b2", granted(1)),
        held("k", "ob", 2),
    ],
    immediate_grant_also_grants_waits_of_the_owner=[
        one("a", "k", 1),
        one("b", "k", BLOCKS, "BLOCK", "0"),
        ("z", "MULTI", "OK"),
        ("z", "DEL k", "QUEUED"),
        ("z", "LOCK.MACQUIRE 2 l k ob", "QUEUED"),
        ("z", "HGET k ob", "QUEUED"),
        ("z", "EXEC", [1, 2, "2"]),
        ("b", granted(2)),
    ],
    owner_that_held_a_key_meanwhile_keeps_its_position=[
        *[one(name, key, 1) for name, key in zip("acy", "klm", strict=True)],
        one("b", "k", BLOCKS, "BLOCK", "0"),
        waits("x", "k m"),
        waits("b2", "k l"),
        queue("k", "ob", "ox", "ob"),
        releases("a", "k"),
        ("b", granted(1)),
        queue("k", "ox", "ob"),
        releases("b", "k"),
        releases("c", "l"),
        ("b2", STILL_BLOCKED),
        releases("y", "m"),
        ("x", granted(2)),
        gives("x", "k m", 2),
        ("b2", granted(2)),
    ],
)


@schedules(**ORDER)
def test_waits_in_order_in_every_queue(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


# Each of these makes the last of the keys free

LAST_KEY = dict(
    release=[one("a", "l", 1), "WAIT", releases("a", "l")],
    release_of_several_keys=[takes("a", "l n", 2), "WAIT", gives("a", "n l", 2)],
    force=[one("a", "l", 1), "WAIT", ("z", "LOCK.FORCE l", 1)],
    delete=[one("a", "l", 1), "WAIT", ("z", "DEL l", 1)],
    rename=[one("a", "l", 1), "WAIT", ("z", "RENAME l elsewhere", "OK")],
    flush=[one("a", "l", 1), "WAIT", ("z", "FLUSHALL", "OK")],
    expire=[one("a", "l", 1), "WAIT", ("z", "PEXPIREAT l 1", 1)],
    lease_end=[one("a", "l", 1, "PX", str(SHORT)), "WAIT", ("lease ends", "l")],
    lease_end_after_another=[
        one("a", "k", 1, "PX", str(SHORT)),
        one("c", "l", 1, "PX", str(3 * SHORT)),
        "WAIT",
        ("lease ends", "l"),
    ],
    lease_end_of_a_reader=[
        ("a", f"LOCK.RWREAD l oa PX {SHORT}", 1),
        ("a", f"LOCK.RWREAD l oc PX {2 * SHORT}", 1),
        "WAIT",
        ("lease ends", "l"),
    ],
    renewed_for_a_shorter_time=[one("a", "l", 1), "WAIT", ("a", f"LOCK.RENEW l oa PX {SHORT}", 1), ("lease ends", "l")],
    cancel_of_a_waiter_ahead=[
        one("a", "n", 1),
        waits("c", "n l"),
        "WAIT",
        ("z", "LOCK.CANCEL l oc", 1),
        ("c", granted(None)),
    ],
    cancel_of_a_waiter_ahead_by_another_key=[
        one("a", "n", 1),
        waits("c", "n l"),
        "WAIT",
        ("z", "LOCK.CANCEL n oc", 1),
        ("c", granted(None)),
    ],
    time_out_of_a_waiter_ahead=[
        one("a", "n", 1),
        takes("c", "l n", BLOCKS, "BLOCK", str(SHORT)),
        "WAIT",
        ("c", granted(None)),
    ],
    death_of_a_waiter_ahead=[one("a", "n", 1), waits("c", "n l"), "WAIT", ("c", DIES)],
    close_of_a_waiter_ahead=[one("a", "n", 1), waits("c", "n l"), "WAIT", ("c", CLOSES)],
    kill_of_a_waiter_ahead=[one("a", "n", 1), waits("c", "l n"), "WAIT", kills("c"), ("c", CUT_OFF)],
    end_of_a_reserved_position_ahead=[
        one("a", "l", 1),
        ("c", "LOCK.FAIR l oc BLOCK 0", BLOCKS),
        "WAIT",
        ("c", DIES),
        releases("a", "l"),
    ],
    session_closed=[("a", "LOCK.ACQUIRE l oa SESSION", 1), "WAIT", ("a", CLOSES)],
    session_of_several_keys_closed=[takes("a", "l k", 2, "SESSION"), "WAIT", ("a", DIES)],
    switched_databases=[one("a", "l", 1), "WAIT", ("z", "SWAPDB 0 9", "OK")],
    overwritten_and_deleted=[
        one("a", "l", 1),
        "WAIT",
        ("z", "SET l x", "OK"),
        ("b", STILL_BLOCKED),
        ("z", "DEL l", 1),
    ],
    first_key_overwritten_and_deleted=[
        one("a", "l", 1),
        "WAIT",
        ("z", "SET k x", "OK"),
        releases("a", "l"),
        ("b", STILL_BLOCKED),
        free("l"),
        ("z", "DEL k", 1),
    ],
)


@pytest.mark.usefixtures("no_active_expiry")
@pytest.mark.parametrize("keys", ["l j k", "k j l"])
@schedules(**LAST_KEY)
def test_all_keys_are_granted_in_one_step_when_the_last_becomes_free(server, some_resp, schedule, keys):
    """b waits for j, k and l, of which at least l is held; e waits behind it for j, and is granted next."""
    server.control.config_set("lock.session-grace", 0)
    server.control.config_set("lock.fair-reserve", SHORT)
    at = schedule.index("WAIT")
    behind = one("e", "j", BLOCKS, "BLOCK", "0")
    steps = [*schedule[:at], waits("b", keys), behind, free("j"), *schedule[at + 1 :]]
    steps += [("b", granted(3)), held("j", "ob"), held("k", "ob"), held("l", "ob"), ("e", STILL_BLOCKED)]
    steps += [knows_of(waiters=1, locks=1), gives("b", "j k l", 3), ("e", granted(1))]
    run_schedule(server, steps, some_resp)


# Inside a transaction the drain does not run, so the command itself must hand off.
IN_ONE_COMMAND = dict(
    release=("LOCK.RELEASE l oa", 0),
    release_of_several_keys=("LOCK.MRELEASE 2 l m oa", 2),
    force=("LOCK.FORCE l", 1),
    cancel_of_a_waiter_ahead=("LOCK.CANCEL k oc", 1),
    cancel_of_a_waiter_ahead_by_another_key=("LOCK.CANCEL n oc", 1),
)


@pytest.mark.parametrize("by", IN_ONE_COMMAND)
def test_hand_off_is_part_of_the_command(server, some_resp, by):
    command, reply = IN_ONE_COMMAND[by]
    replies = [("b", granted(2)), ("d", STILL_BLOCKED)]
    steps = [waits("b", "k l"), one("d", "k", BLOCKS, "BLOCK", "0")]
    if "ahead" in by:
        steps = [one("a", "n", 1), waits("c", "n k"), *steps]
        replies = [("c", granted(None)), *replies]
    else:
        steps = [takes("a", "l m", 2), *steps]
    steps += [("z", "MULTI", "OK"), ("z", command, "QUEUED"), ("z", "HKEYS k", "QUEUED"), ("z", "HKEYS l", "QUEUED")]
    steps += [("z", "LOCK.ACQUIRE k oz", "QUEUED"), ("z", "EXEC", [reply, ["ob"], ["ob"], None])]
    run_schedule(server, [*steps, *replies], some_resp)


@pytest.mark.parametrize("end", ["release", "lease end", "DEL"])
def test_opposite_orders_without_detection_block_until_the_hold_ends(server, end):
    """Without detection both wait until the hold of one of them ends; then one is granted both keys, then the other."""
    a, a2, c = (server.actor(name) for name in ("a", "a2", "c"))
    server.control.config_set("lock.deadlock-detection", "no")
    a.call("LOCK.ACQUIRE", "k", "oa", "PX", SHORT if end == "lease end" else 600_000)
    for waiter, owner in ((c, "oc"), (a2, "oa")):
        waiter.send("LOCK.MACQUIRE", 2, "k", "l", owner, "PX", 600_000, "BLOCK", 0)
        waiter.wait_blocked()
    if end != "lease end":
        a.call(*(("DEL", "k") if end == "DEL" else ("LOCK.RELEASE", "k", "oa")))
    wait_for(lambda: a2.has_reply() or c.has_reply(), what="one to be granted")
    order = [(a2, "oa"), (c, "oc")] if a2.has_reply() else [(c, "oc"), (a2, "oa")]
    for waiter, owner in order:
        assert waiter.reply() == 2
        assert waiter.call("LOCK.MRELEASE", 2, "k", "l", owner) == 2


def test_positions_reserved_before_a_restart_are_ahead(make_server):
    server = make_server(appendonly="yes", appendfsync="always", lock_fair_reserve=scaled_ms(60_000))
    a, f = server.actor("a"), server.actor("f")
    a.call("LOCK.ACQUIRE", "k", "oa", "PX", 600_000)
    f.send("LOCK.FAIR", "k", "of", "PX", 600_000, "BLOCK", 0)
    f.wait_blocked()
    server.kill()
    server.start()
    steps = [waits("b", "k l"), queue("k", "of", "ob"), releases("a", "k"), ("b", STILL_BLOCKED)]
    steps += [("f", "LOCK.FAIR k of BLOCK 0", 1), releases("f", "k"), ("b", granted(2))]
    run_schedule(server, steps)
