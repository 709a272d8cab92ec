"""Readers and writers, as schedules: each is named after the rule that it tests.

generated/test_readwrite_all.py plays all combinations; test_queue.py tests queues, test_leases.py leases.
"""

import pytest

from harness.schedule import BLOCKS, STILL_BLOCKED, answered, error, granted, has, run_schedule, schedules
from model.rw_scene import mode_is, owners_are, reads, releases, waits, writes

IS_FREE = ("z", "EXISTS k lock:lease:{k}", 0)
CYCLE = "ob waits for k held by oa, oa waits for k held by ob"
BOTH = error("ERR", "the owner holds the lock in both modes: READ or WRITE is required")

SHARING = dict(
    readers_share=[
        reads("a"),
        reads("b"),
        reads("c"),
        mode_is("read", {"oa read": 1, "ob read": 1, "oc read": 1}),
        releases("b"),
        releases("a"),
        mode_is("read", {"oc read": 1}),
        releases("c"),
        IS_FREE,
    ],
    a_writer_excludes_readers_writers_and_plain=[
        writes("a"),
        ("b", "LOCK.RWREAD k ob", None),
        ("b", "LOCK.RWWRITE k ob", None),
        ("b", "LOCK.ACQUIRE k ob", None),
        ("b", "LOCK.FAIR k ob", None),
        mode_is("write", {"oa write": 1}),
    ],
    a_reader_excludes_writers_and_plain=[
        reads("a"),
        ("b", "LOCK.RWWRITE k ob", None),
        ("b", "LOCK.ACQUIRE k ob", None),
        ("b", "LOCK.FAIR k ob", None),
        reads("b"),
    ],
    a_plain_lock_excludes_readers_and_writers=[
        ("a", "LOCK.ACQUIRE k oa", 1),
        ("b", "LOCK.RWREAD k ob", None),
        ("b", "LOCK.RWWRITE k ob", None),
        releases("a"),
        ("a", "LOCK.FAIR k oa", 1),
        ("b", "LOCK.RWREAD k ob", None),
        ("b", "LOCK.RWWRITE k ob", None),
    ],
    each_mode_has_its_count=[
        writes("a", 1),
        writes("a", 2),
        reads("a", 1),
        reads("a", 2),
        reads("a", 3),
        mode_is("write", {"oa write": 2, "oa read": 3}),
        ("z", "LOCK.RENEW k oa", 5),
        releases("a", 1, "WRITE"),
        releases("a", 2, "READ"),
        mode_is("write", {"oa write": 1, "oa read": 2}),
        releases("a", 0, "WRITE"),
        mode_is("read", {"oa read": 2}),
        releases("a", 1),
        releases("a", 0),
        IS_FREE,
    ],
    a_writer_may_read_and_remains_writer_when_its_reads_end=[
        writes("a"),
        reads("a"),
        releases("a", 0, "READ"),
        mode_is("write", {"oa write": 1}),
        ("b", "LOCK.RWREAD k ob", None),
        releases("a"),
        IS_FREE,
    ],
)

RELEASING = dict(
    without_a_mode_the_only_hold=[
        reads("a"),
        reads("a", 2),
        releases("a", 1),
        releases("a"),
        writes("a"),
        releases("a"),
        IS_FREE,
    ],
    without_a_mode_by_an_owner_with_both_is_an_error=[
        writes("a"),
        reads("a"),
        ("a", "LOCK.RELEASE k oa", BOTH),
        mode_is("write", {"oa write": 1, "oa read": 1}),
    ],
    of_a_mode_that_is_not_held=[
        reads("a"),
        ("a", "LOCK.RELEASE k oa WRITE", error("NOTHELD")),
        ("b", "LOCK.RELEASE k ob READ", error("NOTHELD")),
        ("b", "LOCK.RELEASE k ob", error("NOTHELD")),
        releases("a", 0, "read"),
        writes("a"),
        ("a", "LOCK.RELEASE k oa READ", error("NOTHELD")),
        releases("a", 0, "write"),
        ("a", "LOCK.RELEASE k oa WRITE", error("NOTHELD")),
        ("a", "LOCK.RELEASE k oa READ", error("NOTHELD")),
        ("a", "LOCK.RENEW k oa", error("NOTHELD")),
    ],
    of_a_plain_lock_as_read_or_write=[
        ("a", "LOCK.ACQUIRE k oa", 1),
        ("a", "LOCK.RELEASE k oa READ", error("NOTHELD")),
        ("a", "LOCK.RELEASE k oa WRITE", error("NOTHELD")),
        releases("a"),
    ],
    of_a_mode_that_does_not_exist_is_a_syntax_error=[
        writes("a"),
        ("a", "LOCK.RELEASE k oa EXCLUSIVE", error("ERR", "syntax")),
        ("a", "LOCK.RELEASE k oa READ WRITE", error("ERR", "syntax")),
        ("a", "LOCK.RELEASE k oa READ READ", error("ERR", "syntax")),
        releases("a"),
    ],
)

CHANGING = dict(
    downgrade_grants_the_waiting_readers=[
        writes("a"),
        waits("b", "RWREAD"),
        waits("c", "RWREAD"),
        reads("a"),
        ("b", STILL_BLOCKED),
        releases("a", 0, "WRITE"),
        ("b", granted(1)),
        ("c", granted(1)),
        mode_is("read", {"oa read": 1, "ob read": 1, "oc read": 1}),
    ],
    downgrade_with_two_write_holds_needs_two_releases=[
        writes("a"),
        writes("a", 2),
        reads("a"),
        waits("b", "RWREAD"),
        releases("a", 1, "WRITE"),
        ("b", STILL_BLOCKED),
        releases("a", 0, "WRITE"),
        ("b", granted(1)),
    ],
    downgrade_grants_no_writer=[
        writes("a"),
        reads("a"),
        waits("b", "RWWRITE"),
        waits("c", "RWREAD"),
        releases("a", 0, "WRITE"),
        ("b", STILL_BLOCKED),
        ("c", STILL_BLOCKED),
        releases("a"),
        ("b", granted(1)),
        releases("b"),
        ("c", granted(1)),
    ],
    sole_reader_upgrades_without_a_wait=[
        reads("a"),
        writes("a"),
        mode_is("write", {"oa read": 1, "oa write": 1}),
        ("b", "LOCK.RWREAD k ob", None),
        releases("a", 0, "WRITE"),
        ("b", "LOCK.RWREAD k ob", 1),
    ],
    sole_reader_upgrades_ahead_of_waiters=[
        reads("a"),
        waits("b", "RWWRITE"),
        waits("c", "RWREAD"),
        writes("a"),
        releases("a", 0, "WRITE"),
        ("b", STILL_BLOCKED),
        releases("a"),
        ("b", granted(1)),
        ("c", STILL_BLOCKED),
    ],
    reader_reenters_ahead_of_a_waiting_writer=[
        reads("a"),
        waits("b", "RWWRITE"),
        reads("a", 2),
        releases("a", 1),
        ("b", STILL_BLOCKED),
        releases("a"),
        ("b", granted(1)),
    ],
    upgrade_waits_for_the_other_readers_at_the_head=[
        reads("a"),
        reads("b"),
        waits("c", "RWWRITE"),
        waits("d", "ACQUIRE"),
        waits("a", "RWWRITE"),
        ("z", "LOCK.INFO k", has(waiters=owners_are("oa", "oc", "od"))),
        releases("b"),
        ("a", granted(1)),
        mode_is("write", {"oa read": 1, "oa write": 1}),
        releases("a", 0, "WRITE"),
        ("c", STILL_BLOCKED),
        releases("a"),
        ("c", granted(1)),
        ("d", STILL_BLOCKED),
    ],
    readers_queue_behind_a_waiting_upgrade=[
        reads("a"),
        reads("b"),
        waits("a", "RWWRITE"),
        ("c", "LOCK.RWREAD k oc", None),
        waits("c", "RWREAD"),
        releases("b"),
        ("a", granted(1)),
        ("c", STILL_BLOCKED),
        releases("a", 0, "WRITE"),
        ("c", granted(1)),
    ],
    second_upgrade_is_refused=[
        reads("a"),
        reads("b"),
        waits("a", "RWWRITE"),
        ("b", "LOCK.RWWRITE k ob BLOCK 0", error("DEADLOCK", CYCLE)),
        ("b", "LOCK.RWWRITE k ob BLOCK 100000", error("DEADLOCK")),
        ("b", "LOCK.RWWRITE k ob", None),
        ("a", STILL_BLOCKED),
        mode_is("read", {"oa read": 1, "ob read": 1}),
        releases("b"),
        ("a", granted(1)),
    ],
    upgrade_is_allowed_after_the_first_is_cancelled=[
        reads("a"),
        reads("b"),
        waits("a", "RWWRITE"),
        ("z", "LOCK.CANCEL k oa", 1),
        ("a", answered(None)),
        waits("b", "RWWRITE"),
        ("a", "LOCK.RWWRITE k oa BLOCK 0", error("DEADLOCK")),
        releases("a"),
        ("b", granted(1)),
    ],
    an_upgrade_that_does_not_block_is_null=[reads("a"), reads("b"), ("a", "LOCK.RWWRITE k oa", None)],
    two_waits_of_one_upgrading_owner_are_no_cycle=[
        reads("a"),
        reads("b"),
        waits("a1", "RWWRITE", "oa"),
        waits("a2", "RWWRITE", "oa"),
        releases("b"),
        ("a2", granted(1)),
        ("a1", granted(2)),
    ],
    plain_owner_would_wait_for_itself_as_reader_or_writer=[
        ("a", "LOCK.ACQUIRE k oa", 1),
        ("a", "LOCK.RWREAD k oa BLOCK 0", error("DEADLOCK", "oa waits for k held by oa")),
        ("a", "LOCK.RWWRITE k oa BLOCK 5000", error("DEADLOCK", "oa waits for k held by oa")),
        ("a", "LOCK.RWREAD k oa", None),
        ("a", "LOCK.RWWRITE k oa", None),
    ],
    reader_or_writer_would_wait_for_itself_as_plain_owner=[
        reads("a"),
        ("a", "LOCK.ACQUIRE k oa BLOCK 0", error("DEADLOCK", "oa waits for k held by oa")),
        ("a", "LOCK.FAIR k oa BLOCK 0", error("DEADLOCK", "oa waits for k held by oa")),
        ("a", "LOCK.ACQUIRE k oa", None),
        ("a", "LOCK.FAIR k oa", None),
        releases("a"),
        writes("a"),
        ("a", "LOCK.ACQUIRE k oa BLOCK 0", error("DEADLOCK")),
        ("a", "LOCK.FAIR k oa", None),
    ],
)


@schedules(**SHARING)
def test_readers_share_and_writers_exclude(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


@schedules(**RELEASING)
def test_release_is_of_one_mode(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


@schedules(**CHANGING)
def test_upgrades_and_downgrades_follow_the_rules(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


@pytest.mark.parametrize("detection", ["yes", "no"])
def test_second_upgrade_is_refused_with_and_without_deadlock_detection(server, actor, detection):
    server.control.config_set("lock.deadlock-detection", detection)
    run_schedule(server, CHANGING["second_upgrade_is_refused"])


@pytest.mark.parametrize("command", ["LOCK.ACQUIRE", "LOCK.FAIR"])
def test_upgrade_behind_the_owners_wait_for_a_plain_lock_is_granted(server, command):
    """The wait at the head does not fit as long as its owner holds the lock to read: the upgrade behind it must not wait
    for that. Detection would refuse the wait at the head, which waits for its own owner."""
    server.control.config_set("lock.deadlock-detection", "no")
    steps = [
        reads("a"),
        ("b1", f"{command} k ob BLOCK 0", BLOCKS),
        ("b2", "LOCK.RWWRITE k ob BLOCK 0", BLOCKS),
        ("b3", "LOCK.RWREAD k ob", 1),
        releases("a"),
        ("b2", granted(1)),
        ("z", "LOCK.CANCEL k ob", 1),
        ("b1", answered(None)),
    ]
    run_schedule(server, steps)
