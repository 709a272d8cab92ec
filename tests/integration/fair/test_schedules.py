"""LOCK.FAIR as schedules: the first request is granted first, whatever happens to the others in the meantime.

Positions are kept for an hour here, so that time does not matter. test_keys.py tests the keys.
"""

import pytest

from harness import scaled_ms
from harness.schedule import ANY, BLOCKS, STILL_BLOCKED, answered, as_map, error, granted, has, schedules
from model.fair_scene import ask, hold, info, lose, order, release, server  # noqa: F401
from model.fair_steps import A_HOLDS, A_RELEASES, gone, play, queue_is, releases, waits, waits_plainly

IN_ORDER = dict(
    fair_behind_fair=[
        A_HOLDS,
        waits("d"),
        waits("b"),
        waits("c"),
        A_RELEASES,
        ("d", granted(1)),
        ("b", STILL_BLOCKED),
        releases("d"),
        ("b", granted(1)),
        ("c", STILL_BLOCKED),
        releases("b"),
        ("c", granted(1)),
        releases("c"),
        ("c", "LOCK.INFO k", None),
    ],
    fair_and_plain_waiters_of_one_lock=[
        A_HOLDS,
        waits("b"),
        waits_plainly("c"),
        waits("d"),
        waits_plainly("e"),
        queue_is("ob", "oc", "od", "oe"),
        A_RELEASES,
        ("b", granted(1)),
        releases("b"),
        ("c", granted(1)),
        ("d", STILL_BLOCKED),
        releases("c"),
        ("d", granted(1)),
        releases("d"),
        ("e", granted(1)),
    ],
    plain_waiters_alone_and_then_fair_behind_them=[
        A_HOLDS,
        waits_plainly("b"),
        waits_plainly("c"),
        waits("d"),
        A_RELEASES,
        ("b", granted(1)),
        releases("b"),
        ("c", granted(1)),
        releases("c"),
        ("d", granted(1)),
    ],
    a_second_wait_goes_to_the_end=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        A_RELEASES,
        ("b", granted(1)),
        waits("a"),
        releases("b"),
        ("c", granted(1)),
        releases("c"),
        ("a", granted(1)),
    ],
    each_lock_has_a_queue_of_its_own=[
        A_HOLDS,
        ("a", "LOCK.FAIR l oa", 1),
        waits("b"),
        ("c", "LOCK.FAIR l oc BLOCK 0", BLOCKS),
        ("a", "LOCK.RELEASE l oa", 0),
        ("c", granted(1)),
        ("b", STILL_BLOCKED),
        A_RELEASES,
        ("b", granted(1)),
    ],
    after_DEL=[A_HOLDS, waits("b"), waits("c"), ("z", "DEL k", 1), ("b", granted(1)), ("c", STILL_BLOCKED)],
    after_RENAME=[A_HOLDS, waits("b"), waits("c"), ("z", "RENAME k l", "OK"), ("b", granted(1)), ("c", STILL_BLOCKED)],
    after_the_lease=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        ("a", f"LOCK.RENEW k oa PX {scaled_ms(150)}", 1),
        ("b", granted(1)),
        ("c", STILL_BLOCKED),
    ],
    after_FORCE=[A_HOLDS, waits("b"), waits("c"), ("z", "LOCK.FORCE k", 1), ("b", granted(1)), ("c", STILL_BLOCKED)],
    within_a_script=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        ("z", ("EVAL", "return redis.call('LOCK.RELEASE', KEYS[1], 'oa')", "1", "k"), 0),
        ("b", granted(1)),
        ("c", STILL_BLOCKED),
    ],
)


@schedules(**IN_ORDER)
def test_lock_is_granted_in_order_of_arrival(server, some_resp, schedule):
    play(server, schedule, some_resp)


# Rule 3: a new plain request looks only at the holds.
BARGING = dict(
    plain_request_is_granted_a_lock_that_is_free=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        *gone("b"),
        A_RELEASES,
        ("z", "LOCK.ACQUIRE k oz", 1),
        queue_is("ob", "oc"),
        releases("z"),
        ("c", STILL_BLOCKED),
        ("b2", "LOCK.FAIR k ob", 1),
        ("b2", "LOCK.RELEASE k ob", 0),
        ("c", granted(1)),
    ],
    plain_waiter_stays_behind_a_reserved_position=[
        A_HOLDS,
        waits("b"),
        waits_plainly("c"),
        *gone("b"),
        A_RELEASES,
        ("c", STILL_BLOCKED),
        ("b2", "LOCK.FAIR k ob BLOCK 0", 1),
        ("b2", "LOCK.RELEASE k ob", 0),
        ("c", granted(1)),
    ],
    fair_try_is_not_granted_before_waiters=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        *gone("b"),
        A_RELEASES,
        ("z", "LOCK.FAIR k oz", None),
        ("c", STILL_BLOCKED),
        queue_is("ob", "oc"),
    ],
    fair_request_queues_behind_a_reserved_position_of_a_free_lock=[
        A_HOLDS,
        waits("b"),
        *gone("b"),
        A_RELEASES,
        waits("z"),
        queue_is("ob", "oz"),
        ("b2", "LOCK.FAIR k ob", 1),
        ("b2", "LOCK.RELEASE k ob", 0),
        ("z", granted(1)),
    ],
    fair_try_is_granted_a_free_lock_without_waiters=[("z", "LOCK.FAIR k oz", 1), releases("z")],
)


@schedules(**BARGING)
def test_only_plain_requests_barge_in_at_a_free_lock_with_a_queue(server, some_resp, schedule):
    play(server, schedule, some_resp)


REENTRY = dict(
    fair_holder_requests_again=[
        ("a", "LOCK.FAIR k oa", 1),
        waits("b"),
        ("a", "LOCK.FAIR k oa", 2),
        ("z", "LOCK.FAIR k oa BLOCK 0", 3),
        ("z", "LOCK.ACQUIRE k oa BLOCK 0", 4),
        ("b", STILL_BLOCKED),
        ("a", "LOCK.RELEASE k oa", 3),
        ("b", STILL_BLOCKED),
    ],
    plain_holder_requests_a_fair_hold=[
        A_HOLDS,
        waits("b"),
        ("z", "LOCK.FAIR k oa BLOCK 0", 2),
        ("b", STILL_BLOCKED),
        ("z", "LOCK.RELEASE k oa", 1),
        ("z", "LOCK.RELEASE k oa", 0),
        ("b", granted(1)),
    ],
    plain_and_fair_waits_of_one_owner_are_granted_together=[
        A_HOLDS,
        ("b1", "LOCK.ACQUIRE k ob BLOCK 0", BLOCKS),
        waits("c"),
        waits("b2", "ob"),
        A_RELEASES,
        ("b1", granted(1)),
        ("b2", granted(2)),
        queue_is("oc"),
        ("z", "LOCK.RELEASE k ob", 1),
        ("z", "LOCK.RELEASE k ob", 0),
        ("c", granted(1)),
    ],
    owner_that_barges_in_loses_its_position=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        waits("d"),
        *gone("b"),
        *gone("c"),
        A_RELEASES,
        ("z", "LOCK.ACQUIRE k oc", 1),
        queue_is("ob", "od"),
        ("z", "LOCK.RELEASE k oc", 0),
        ("c2", "LOCK.FAIR k oc BLOCK 0", BLOCKS),
        queue_is("ob", "od", "oc"),
    ],
    owner_that_barges_in_ends_the_wait_of_its_other_connection=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        ("z", "MULTI", "OK"),
        ("z", "DEL k", "QUEUED"),
        ("z", "LOCK.ACQUIRE k oc", "QUEUED"),
        ("z", "EXEC", [1, 1]),
        ("c", granted(2)),
        ("b", STILL_BLOCKED),
        queue_is("ob"),
    ],
    waiter_that_another_client_writes_into_the_key=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        ("z", "MULTI", "OK"),
        ("z", "DEL k", "QUEUED"),
        ("z", "HSET k oc 1", "QUEUED"),
        ("z", "EXEC", ANY),
        ("c", granted(2)),
        queue_is("ob"),
    ],
)


@schedules(**REENTRY)
def test_owner_with_a_hold_is_not_queued(server, some_resp, schedule):
    play(server, schedule, some_resp)


TRIES = dict(
    a_try_never_queues=[
        A_HOLDS,
        ("b", "LOCK.FAIR k ob", None),
        queue_is(),
        waits("c"),
        ("b", "LOCK.FAIR k ob", None),
        queue_is("oc"),
        A_RELEASES,
        ("c", granted(1)),
        ("b", "LOCK.FAIR k ob", None),
    ],
    a_try_uses_the_position_at_the_head=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        *gone("b"),
        ("b2", "LOCK.FAIR k ob", None),
        queue_is("ob", "oc"),
        A_RELEASES,
        ("b2", "LOCK.FAIR k ob", 1),
        queue_is("oc"),
        ("b2", "LOCK.RELEASE k ob", 0),
        ("c", granted(1)),
    ],
    a_try_does_not_use_a_position_in_the_middle=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        waits("d"),
        *gone("b"),
        *gone("c"),
        A_RELEASES,
        ("c2", "LOCK.FAIR k oc", None),
        queue_is("ob", "oc", "od"),
        ("z", "LOCK.CANCEL k ob", 1),
        ("c2", "LOCK.FAIR k oc", 1),
        queue_is("od"),
    ],
    a_try_of_an_owner_that_waits_does_not_end_the_wait=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        ("b2", "LOCK.FAIR k ob", None),
        ("b", STILL_BLOCKED),
        ("c2", "LOCK.FAIR k oc", None),
        ("c", STILL_BLOCKED),
        queue_is("ob", "oc"),
    ],
    a_try_that_is_granted_ends_the_wait_with_null=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        ("z", "MULTI", "OK"),
        ("z", "DEL k", "QUEUED"),
        ("z", "LOCK.FAIR k oc", "QUEUED"),
        ("z", "LOCK.FAIR k ob", "QUEUED"),
        ("z", "EXEC", [1, None, 1]),
        ("b", answered(None)),
        ("c", STILL_BLOCKED),
        queue_is("oc"),
    ],
)


@schedules(**TRIES)
def test_try_without_BLOCK_never_queues(server, some_resp, schedule):
    play(server, schedule, some_resp)


NO_BLOCKING = {
    "MULTI": [("z", "MULTI", "OK"), ("z", "LOCK.FAIR k oz BLOCK 0", "QUEUED"), ("z", "EXEC", [None])],
    "Lua": [("z", ("EVAL", "return redis.call('LOCK.FAIR', 'k', 'oz', 'BLOCK', 0) == false", "1", "k"), 1)],
}


# A script sees null as false in RESP2; in RESP3, which scripts have to switch on, it would be nil.
@schedules(**NO_BLOCKING)
def test_request_where_no_client_may_block_is_a_try(server, some_resp, schedule):
    play(server, [A_HOLDS, waits("b"), *schedule, queue_is("ob"), ("b", STILL_BLOCKED)], some_resp)


def test_hand_off_is_part_of_the_command(server, some_resp):
    """Inside a transaction nothing else runs, not even the drain."""
    after = has(holders=lambda found: as_map(found[0])["owner"] == "ob", waiting=1)
    expected = [("LOCK.RELEASE k oa", 0), ("LOCK.INFO k", after), ("LOCK.FAIR k oz BLOCK 0", None)]
    expected += [("ZCARD lock:queue:{k}", 1)]

    def all_expected(replies):
        pairs = zip(expected, replies, strict=True)
        return all(want(got) if callable(want) else want == got for (_, want), got in pairs)

    steps = [A_HOLDS, waits("b"), waits("c"), ("z", "MULTI", "OK")]
    steps += [("z", command, "QUEUED") for command, _ in expected]
    play(server, [*steps, ("z", "EXEC", all_expected), ("b", granted(1)), ("c", STILL_BLOCKED)], some_resp)


@pytest.mark.parametrize("wrong", ["SET k x", "RPUSH k x"])
def test_lock_key_of_another_type_is_WRONGTYPE_and_queues_nothing(server, actor, some_resp, wrong):
    server.control.execute_command(*wrong.split())
    assert error("WRONGTYPE")(actor().attempt("LOCK.FAIR", "k", "ob", "BLOCK", 0))
    server.control.delete("k")
    assert info(server)["waiters"] == []


def test_owners_return_in_any_order_and_are_granted_in_queue_order(server):
    names = [f"o{number}" for number in range(8)]
    hold(server)
    lose(server, *[ask(server, name) for name in names])
    release(server, "oa")
    back = {name: ask(server, name) for name in reversed(names[1:])}
    assert order(server) == names
    back[names[0]] = server.actor(names[0])
    assert back[names[0]].call("LOCK.FAIR", "k", names[0], "BLOCK", 0) == 1
    for before, name in zip(names, names[1:], strict=False):
        assert not any(back[later].has_reply() for later in names[names.index(name) :])
        release(server, before)
        assert back[name].reply() == 1
