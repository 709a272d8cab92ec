"""Hand-off between clients, as schedules: which client sends what, blocks, and is granted when.

plain/test_lease_end.py and test_clients_gone.py test hand-offs when a lease expires or a client dies.
"""

import pytest

from harness import scaled_ms, wait_for
from harness.schedule import BLOCKS, STILL_BLOCKED, answered, as_map, error, granted, has
from harness.schedule import run_schedule, schedules

A_HOLDS = ("a", "LOCK.ACQUIRE k oa", 1)


def waits(name, owner=None):
    """The step by which this client begins to wait for k, as an owner named after it."""
    return (name, f"LOCK.ACQUIRE k {owner or 'o' + name} BLOCK 0", BLOCKS)


def holds(owner, count):
    """Matches the holders in LOCK.INFO of a lock that only this owner holds."""

    def only_holder(holders):
        return len(holders) == 1 and has(owner=owner, holds=count)(holders[0])

    return only_holder


GRANTS = dict(
    in_order_of_arrival=[
        A_HOLDS,
        waits("d"),
        waits("b"),
        waits("c"),
        ("a", "LOCK.RELEASE k oa", 0),
        ("d", granted(1)),
        ("b", STILL_BLOCKED),
        ("d", "LOCK.RELEASE k od", 0),
        ("b", granted(1)),
        ("c", STILL_BLOCKED),
        ("b", "LOCK.RELEASE k ob", 0),
        ("c", granted(1)),
        ("c", "LOCK.RELEASE k oc", 0),
        ("c", "LOCK.INFO k", None),
    ],
    a_second_wait_goes_to_the_end_of_the_queue=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        ("a", "LOCK.RELEASE k oa", 0),
        ("b", granted(1)),
        waits("a"),
        ("b", "LOCK.RELEASE k ob", 0),
        ("c", granted(1)),
        ("c", "LOCK.RELEASE k oc", 0),
        ("a", granted(1)),
    ],
    each_lock_has_its_own_queue=[
        A_HOLDS,
        ("a", "LOCK.ACQUIRE l oa", 1),
        waits("b"),
        ("c", "LOCK.ACQUIRE l oc BLOCK 0", BLOCKS),
        ("a", "LOCK.RELEASE l oa", 0),
        ("c", granted(1)),
        ("b", STILL_BLOCKED),
        ("a", "LOCK.RELEASE k oa", 0),
        ("b", granted(1)),
    ],
    by_any_connection_that_names_the_owner=[
        A_HOLDS,
        waits("b"),
        ("z", "LOCK.RELEASE k oa", 0),
        ("b", granted(1)),
        ("z", "LOCK.RELEASE k ob", 0),
    ],
    by_FORCE_although_there_were_several_holds=[
        A_HOLDS,
        ("a", "LOCK.ACQUIRE k oa", 2),
        waits("b"),
        waits("c"),
        ("z", "LOCK.FORCE k", 1),
        ("b", granted(1)),
        ("a", "LOCK.RELEASE k oa", error("NOTHELD")),
        ("c", STILL_BLOCKED),
        ("z", "LOCK.FORCE k", 1),
        ("c", granted(1)),
        ("z", "LOCK.FORCE k", 1),
        ("z", "LOCK.FORCE k", 0),
    ],
    within_a_lua_script_that_releases=[
        A_HOLDS,
        waits("b"),
        ("z", ("EVAL", "return redis.call('LOCK.RELEASE', KEYS[1], 'oa')", "1", "k"), 0),
        ("b", granted(1)),
    ],
    to_a_connection_with_further_commands=[
        A_HOLDS,
        waits("b"),
        (lambda s: [s.actor("b").send(*words) for words in (("SET", "x", "1"), ("INCR", "x"))],),
        ("b", STILL_BLOCKED),
        ("a", "GET x", None),
        ("a", "LOCK.RELEASE k oa", 0),
        ("b", granted(1)),
        (lambda s: [_expect_reply(s.actor("b"), reply) for reply in ("OK", 2)],),
    ],
)


def _expect_reply(actor, expected):
    assert actor.outcome() == expected


@schedules(**GRANTS)
def test_lock_is_handed_off_in_order(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


ENDS = dict(
    cancelled_at_the_head=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        ("z", "LOCK.CANCEL k ob", 1),
        ("b", answered(None)),
        ("c", STILL_BLOCKED),
        ("a", "LOCK.RELEASE k oa", 0),
        ("c", granted(1)),
    ],
    cancelled_in_the_middle=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        waits("d"),
        ("z", "LOCK.CANCEL k oc", 1),
        ("c", answered(None)),
        ("a", "LOCK.RELEASE k oa", 0),
        ("b", granted(1)),
        ("b", "LOCK.RELEASE k ob", 0),
        ("d", granted(1)),
    ],
    cancelled_on_all_its_connections=[
        A_HOLDS,
        waits("b1", "ob"),
        waits("c"),
        waits("b2", "ob"),
        ("z", "LOCK.CANCEL k ob", 1),
        ("b1", answered(None)),
        ("b2", answered(None)),
        ("z", "LOCK.CANCEL k ob", 0),
        ("c", STILL_BLOCKED),
    ],
    cancel_without_a_wait_does_nothing=[
        ("z", "LOCK.CANCEL k oa", 0),
        A_HOLDS,
        waits("b"),
        ("z", "LOCK.CANCEL k oa", 0),
        ("z", "LOCK.CANCEL l ob", 0),
        ("b", STILL_BLOCKED),
        ("a", "LOCK.RELEASE k oa", 0),
        ("b", granted(1)),
        ("z", "LOCK.CANCEL k ob", 0),
        ("b", "LOCK.RELEASE k ob", 0),
    ],
    timed_out_at_the_head=[
        A_HOLDS,
        ("b", f"LOCK.ACQUIRE k ob BLOCK {scaled_ms(300)}", BLOCKS),
        waits("c"),
        ("b", answered(None)),
        ("c", STILL_BLOCKED),
        ("a", "LOCK.RELEASE k oa", 0),
        ("c", granted(1)),
        ("b", "LOCK.ACQUIRE k ob", None),
    ],
    timed_out_behind_others=[
        A_HOLDS,
        waits("b"),
        ("c", f"LOCK.ACQUIRE k oc BLOCK {scaled_ms(300)}", BLOCKS),
        waits("d"),
        ("c", answered(None)),
        ("a", "LOCK.RELEASE k oa", 0),
        ("b", granted(1)),
        ("b", "LOCK.RELEASE k ob", 0),
        ("d", granted(1)),
    ],
)


@schedules(**ENDS)
def test_wait_that_ends_delays_no_other_waiter(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


OWN_HOLDS = dict(
    reentry_is_granted_before_waiters=[
        A_HOLDS,
        waits("b"),
        ("a", "LOCK.ACQUIRE k oa BLOCK 0", 2),
        ("z", "LOCK.ACQUIRE k oa", 3),
        ("b", STILL_BLOCKED),
    ],
    partial_release_hands_nothing_off=[
        A_HOLDS,
        ("a", "LOCK.ACQUIRE k oa", 2),
        waits("b"),
        ("a", "LOCK.RELEASE k oa", 1),
        ("b", STILL_BLOCKED),
        ("a", "LOCK.RELEASE k oa", 0),
        ("b", granted(1)),
        ("a", "LOCK.RELEASE k oa", error("NOTHELD")),
    ],
    release_by_another_owner_hands_nothing_off=[
        A_HOLDS,
        waits("b"),
        ("b2", "LOCK.RELEASE k ob", error("NOTHELD")),
        ("z", "LOCK.RELEASE k oz", error("NOTHELD")),
        ("b", STILL_BLOCKED),
    ],
    connections_of_one_owner_are_granted_together=[
        A_HOLDS,
        waits("b1", "ob"),
        waits("c"),
        waits("b2", "ob"),
        ("a", "LOCK.RELEASE k oa", 0),
        ("b1", granted(1)),
        ("b2", granted(2)),
        ("c", STILL_BLOCKED),
        ("b1", "LOCK.RELEASE k ob", 1),
        ("c", STILL_BLOCKED),
        ("b2", "LOCK.RELEASE k ob", 0),
        ("c", granted(1)),
    ],
    connections_of_one_owner_are_granted_in_order_of_arrival=[
        A_HOLDS,
        waits("b1", "ob"),
        waits("b2", "ob"),
        waits("b3", "ob"),
        waits("b4", "ob"),
        ("a", "LOCK.RELEASE k oa", 0),
        ("b1", granted(1)),
        ("b2", granted(2)),
        ("b3", granted(3)),
        ("b4", granted(4)),
    ],
    owner_that_overtakes_also_grants_its_waiting_connection=[
        A_HOLDS,
        waits("c"),
        waits("b"),
        ("z", "MULTI", "OK"),
        ("z", "DEL k", "QUEUED"),
        ("z", "LOCK.ACQUIRE k ob", "QUEUED"),
        ("z", "EXEC", [1, 1]),
        ("b", granted(2)),
        ("c", STILL_BLOCKED),
        ("b", "LOCK.RELEASE k ob", 1),
        ("b", "LOCK.RELEASE k ob", 0),
        ("c", granted(1)),
    ],
)


@schedules(**OWN_HOLDS)
def test_owner_with_a_hold_is_not_queued(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


# Inside a transaction the drain does not run, so the command itself must hand off.
IN_ONE_STEP = dict(
    release=[A_HOLDS, waits("b"), waits("c"), ("LOCK.RELEASE k oa", 0)],
    force=[A_HOLDS, waits("b"), waits("c"), ("LOCK.FORCE k", 1)],
    cancel=[A_HOLDS, waits("x"), waits("b"), waits("c"), ("DEL k", 1), ("LOCK.CANCEL k ox", 1)],
)


@pytest.mark.parametrize("by", IN_ONE_STEP)
def test_hand_off_is_part_of_the_command(server, some_resp, by):
    steps = [step for step in IN_ONE_STEP[by] if len(step) == 3]
    commands = [step for step in IN_ONE_STEP[by] if len(step) == 2]
    show = ("LOCK.INFO k", has(holders=holds("ob", 1), waiting=1, waiters=lambda w: len(w) == 1))
    overtake = ("LOCK.ACQUIRE k oz BLOCK 0", None)
    transaction = [*commands, show, overtake]

    def all_as_expected(replies):
        assert len(replies) == len(transaction)
        for (command, expected), got in zip(transaction, replies, strict=True):
            assert expected(got) if callable(expected) else got == expected, f"{command}: {got!r}"
        return True

    steps += [("z", "MULTI", "OK")]
    steps += [("z", command, "QUEUED") for command, _ in transaction]
    steps += [("z", "EXEC", all_as_expected), ("b", granted(1)), ("c", STILL_BLOCKED)]
    steps += [("x", answered(None))] if by == "cancel" else []
    run_schedule(server, steps, some_resp)


def test_command_behind_a_release_in_one_write_finds_the_lock_handed_off(server, actor):
    a, b, writer = actor("a"), actor("b"), server.raw_connection()
    a.call("LOCK.ACQUIRE", "k", "oa")
    b.send("LOCK.ACQUIRE", "k", "ob", "BLOCK", 0)
    b.wait_blocked()
    writer.sendall(b"LOCK.RELEASE k oa\r\nLOCK.ACQUIRE k oa\r\nHGET k ob\r\n")
    expected = b":0\r\n$-1\r\n$1\r\n1\r\n"
    assert writer.makefile("rb").read(len(expected)) == expected
    assert b.reply() == 1


def test_block_n_times_out_after_n_ms_and_soon(server, resp):
    a, b = server.actor("a", resp), server.actor("b", resp)
    a.call("LOCK.ACQUIRE", "k", "oa")
    for block_ms in (1, scaled_ms(70), scaled_ms(250)):
        requested = server.now_ms()
        assert b.call("LOCK.ACQUIRE", "k", "ob", "BLOCK", block_ms) is None
        took = server.now_ms() - requested
        assert block_ms <= took <= block_ms + scaled_ms(3000)
    assert server.info("lock")["lock_waiters"] == 0
    assert as_map(a.call("LOCK.INFO", "k"))["waiting"] == 0


def test_waits_time_out_in_order_of_deadline_not_of_arrival(server, actor):
    a, late, soon = actor("a"), actor("late"), actor("soon")
    a.call("LOCK.ACQUIRE", "k", "oa")
    late.send("LOCK.ACQUIRE", "k", "late", "BLOCK", scaled_ms(30_000))
    late.wait_blocked()
    soon.send("LOCK.ACQUIRE", "k", "soon", "BLOCK", scaled_ms(20))
    assert soon.reply() is None
    assert late.is_blocked() and not late.has_reply()


def test_block_0_waits_without_a_timeout(server, some_resp):
    """It does not time out after any default time; LOCK.INFO shows no time left."""
    a, b, c = (server.actor(name, some_resp) for name in "abc")
    a.call("LOCK.ACQUIRE", "k", "oa")
    b.send("LOCK.ACQUIRE", "k", "ob", "BLOCK", 0)
    b.wait_blocked()
    assert c.call("LOCK.ACQUIRE", "k", "oc", "BLOCK", scaled_ms(100)) is None
    assert b.is_blocked() and not b.has_reply()
    waiter = as_map(as_map(a.call("LOCK.INFO", "k"))["waiters"][0])
    assert waiter["left"] is None and waiter["client"] == b.client_id


LEASES = {"px": (("PX", 60_000), 60_000), "ex": (("EX", 60), 60_000), "default": ((), 40_000)}


@pytest.mark.parametrize("options, lease_ms", LEASES.values(), ids=LEASES)
def test_lease_of_a_waiter_counts_from_its_grant(server, actor, options, lease_ms):
    server.control.config_set("lock.default-lease", 40_000)
    a, b = actor("a"), actor("b")
    a.call("LOCK.ACQUIRE", "k", "oa", "PX", 90_000)
    b.send("LOCK.ACQUIRE", "k", "ob", *options, "BLOCK", 0)
    b.wait_blocked()
    requested = server.now_ms()
    wait_for(lambda: server.now_ms() > requested + 30, what="time to pass between request and grant")
    before = server.now_ms()
    a.call("LOCK.RELEASE", "k", "oa")
    after = server.now_ms()
    assert b.reply() == 1
    end = server.control.execute_command("PEXPIRETIME", "k")
    assert before + lease_ms <= end <= after + lease_ms


@pytest.mark.parametrize("how", ["MULTI", "Lua", "Lua in MULTI"])
def test_request_that_may_not_block_gets_null_at_once(server, actor, resp, how):
    a, z = actor("a"), actor("z")
    a.call("LOCK.ACQUIRE", "k", "oa")
    command = ("LOCK.ACQUIRE", "k", "oz", "BLOCK", 0)
    if "Lua" in how:
        command = ("EVAL", "return redis.call('LOCK.ACQUIRE', KEYS[1], 'oz', 'BLOCK', 0) == false", 1, "k")
    expected = 1 if "Lua" in how else None
    if "MULTI" in how:
        z.call("MULTI")
        z.call(*command)
        assert z.call("EXEC") == [expected]
    else:
        assert z.call(*command) == expected
    assert server.blocked_clients() == 0 and server.info("lock")["lock_waiters"] == 0
    assert as_map(a.call("LOCK.INFO", "k"))["waiting"] == 0
