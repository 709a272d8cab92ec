"""Readers and writers in the queue, as schedules: which waiter is behind which, and which are granted together."""

from harness import scaled_ms
from harness.schedule import BLOCKS, CLOSES, DIES, STILL_BLOCKED, answered, error, granted, has, run_schedule, schedules
from model.rw_scene import mode_is, owners_are, reads, releases, waits, writes

QUEUING = dict(
    readers_behind_a_waiting_writer_wait=[
        reads("a"),
        waits("b", "RWWRITE"),
        ("c", "LOCK.RWREAD k oc", None),
        waits("c", "RWREAD"),
        releases("a"),
        ("b", granted(1)),
        ("c", STILL_BLOCKED),
        releases("b"),
        ("c", granted(1)),
    ],
    consecutive_readers_are_granted_together_up_to_the_next_writer=[
        writes("a"),
        waits("b", "RWREAD"),
        waits("c", "RWREAD"),
        waits("d", "RWWRITE"),
        waits("e", "RWREAD"),
        releases("a"),
        ("b", granted(1)),
        ("c", granted(1)),
        ("d", STILL_BLOCKED),
        ("e", STILL_BLOCKED),
        releases("b"),
        ("d", STILL_BLOCKED),
        releases("c"),
        ("d", granted(1)),
        ("e", STILL_BLOCKED),
        releases("d"),
        ("e", granted(1)),
    ],
    writers_are_granted_one_by_one=[
        writes("a"),
        waits("b", "RWWRITE"),
        waits("c", "RWWRITE"),
        releases("a"),
        ("b", granted(1)),
        ("c", STILL_BLOCKED),
        releases("b"),
        ("c", granted(1)),
    ],
    FORCE_grants_the_next_waiter=[
        reads("a"),
        reads("b"),
        waits("c", "RWWRITE"),
        waits("d", "RWREAD"),
        ("z", "LOCK.FORCE k", 1),
        ("c", granted(1)),
        ("d", STILL_BLOCKED),
        ("a", "LOCK.RELEASE k oa", error("NOTHELD")),
        ("z", "LOCK.FORCE k", 1),
        ("d", granted(1)),
    ],
    plain_fair_and_read_write_waiters_share_one_queue=[
        reads("a"),
        waits("b", "FAIR"),
        waits("c", "RWREAD"),
        waits("d", "ACQUIRE"),
        waits("e", "RWREAD"),
        releases("a"),
        ("b", granted(1)),
        releases("b"),
        ("c", granted(1)),
        ("d", STILL_BLOCKED),
        ("e", STILL_BLOCKED),
        releases("c"),
        ("d", granted(1)),
        releases("d"),
        ("e", granted(1)),
    ],
    read_and_write_of_an_owner_on_two_connections_are_granted_in_one_pass=[
        writes("x"),
        waits("a1", "RWREAD", "oa"),
        waits("b", "RWREAD"),
        waits("a2", "RWWRITE", "oa"),
        releases("x"),
        ("a1", granted(1)),
        ("a2", granted(1)),
        ("b", STILL_BLOCKED),
        ("z", "LOCK.RELEASE k oa WRITE", 0),
        ("b", granted(1)),
    ],
    an_owner_that_is_granted_a_read_waits_to_write_at_the_head=[
        reads("r"),
        waits("x", "RWWRITE"),
        waits("a1", "RWREAD", "oa"),
        waits("b", "RWWRITE"),
        waits("a2", "RWWRITE", "oa"),
        ("z", "LOCK.CANCEL k ox", 1),
        ("x", answered(None)),
        ("a1", granted(1)),
        ("z", "LOCK.INFO k", has(waiters=owners_are("oa", "ob"))),
        ("r", "LOCK.RWWRITE k or BLOCK 0", error("DEADLOCK")),
        releases("r"),
        ("a2", granted(1)),
        ("b", STILL_BLOCKED),
    ],
    DEL_grants_waiting_readers_together=[
        writes("a"),
        waits("b", "RWREAD"),
        waits("c", "RWREAD"),
        ("z", "DEL k", 1),
        ("b", granted(1)),
        ("c", granted(1)),
        mode_is("read", {"ob read": 1, "oc read": 1}),
    ],
    the_same_key_in_another_database_is_another_lock=[
        writes("a"),
        ("b", "SELECT 1", "OK"),
        writes("b"),
        ("c", "SELECT 1", "OK"),
        waits("c", "RWREAD"),
        releases("a"),
        ("c", STILL_BLOCKED),
        releases("b"),
        ("c", granted(1)),
    ],
)


def writer_leaves(*how):
    return [
        reads("a"),
        waits("b", "RWWRITE"),
        waits("c", "RWREAD"),
        waits("d", "RWREAD"),
        *how,
        ("c", granted(1)),
        ("d", granted(1)),
    ]


LEAVING = dict(
    cancelled_writer_and_readers_behind_it_are_granted=writer_leaves(
        ("z", "LOCK.CANCEL k ob", 1),
        ("b", answered(None)),
    ),
    killed_writer_and_readers_behind_it_are_granted=writer_leaves(("b", DIES)),
    closed_writer_and_readers_behind_it_are_granted=writer_leaves(("b", CLOSES)),
    writer_that_times_out_and_readers_behind_it_are_granted=[
        reads("a"),
        ("b", f"LOCK.RWWRITE k ob BLOCK {scaled_ms(900)}", BLOCKS),
        waits("c", "RWREAD"),
        ("b", answered(None)),
        ("c", granted(1)),
    ],
    upgrade_whose_client_dies_leaves_its_owner_a_reader=[
        reads("a"),
        reads("b"),
        waits("a2", "RWWRITE", "oa"),
        waits("c", "RWREAD"),
        ("a2", DIES),
        ("c", granted(1)),
        mode_is("read", {"oa read": 1, "ob read": 1, "oc read": 1}),
    ],
)


def queue(*owners):
    return ("z", "LOCK.INFO k", has(waiters=owners_are(*owners)))


def acquires_while_it_waits(holds, others, command):
    """`a2` is a second connection of oa, which acquires another hold after a2 has begun to wait."""
    return [
        writes("x"),
        waits("a", holds),
        waits("b", others),
        waits("a2", command, "oa"),
        releases("x"),
        ("a", granted(1)),
        queue("ob", "oa"),
        ("a", f"LOCK.{holds} k oa", 2),
        queue("ob", "oa"),
        releases("a", 1),
        releases("a"),
        ("b", granted(1)),
        ("a2", STILL_BLOCKED),
        releases("b"),
        ("a2", granted(1)),
    ]


BLOCKED_BY_OWN_HOLD = {
    f"{holds}_and_{command}": acquires_while_it_waits(holds, others, command)
    for holds, others in (("RWREAD", "RWWRITE"), ("RWWRITE", "RWREAD"))
    for command in ("ACQUIRE", "FAIR")
}


@schedules(**BLOCKED_BY_OWN_HOLD)
def test_owner_that_requests_another_kind_of_lock_waits_in_order(server, schedule):
    """Its own hold conflicts with the request, which is no upgrade."""
    run_schedule(server, schedule)


@schedules(**QUEUING)
def test_waiters_are_granted_in_order_of_the_queue(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


@schedules(**LEAVING)
def test_end_of_a_waiting_writer_grants_the_readers_behind_it(server, schedule):
    run_schedule(server, schedule)
