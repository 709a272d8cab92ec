"""Several keys at once, as schedules: all or none are acquired, and all or none are released.

test_order.py tests which requests wait, and in which order; test_waits.py tests how a wait ends, and what happens to
the keys meanwhile.
"""

from itertools import permutations

import pytest

from harness import code_of
from harness.schedule import BLOCKS, STILL_BLOCKED, error, granted, has, run_schedule, schedules
from model.multikey_scene import free, gives, held, knows_of, one, queue, releases, takes, waits

MANY = [f"key{i}" for i in range(1024)]


NOT_HELD = error("NOTHELD")

ACQUIRING = dict(
    all_or_none=[
        takes("a", "k l m", 3),
        held("k", "oa"),
        held("l", "oa"),
        held("m", "oa"),
        gives("a", "k l m", 3),
        free("k", "l", "m"),
        one("b", "l", 1),
        takes("a", "k l m", None),
        free("k", "m"),
        held("l", "ob"),
    ],
    the_first_or_the_last_is_held=[
        one("b", "k", 1),
        takes("a", "k l m", None),
        takes("a", "l m k", None),
        free("l", "m"),
    ],
    one_key=[
        takes("a", "k", 1),
        takes("a", "k", 1),
        held("k", "oa", 2),
        takes("b", "k", None),
        gives("a", "k", 0),
        gives("a", "k", 1),
        free("k"),
    ],
    the_largest_number_of_keys=[
        takes("a", MANY, 1024),
        ("z", ("EXISTS", *MANY), 1024),
        takes("b", MANY[::-1], BLOCKS, "BLOCK", "0"),
        knows_of(waiters=1, locks=1024),
        gives("a", MANY, 1024),
        ("b", granted(1024)),
        gives("b", MANY, 1024),
        free(*MANY),
    ],
    too_many_keys=[
        takes("a", [*MANY, "k"], error("ERR")),
        gives("a", [*MANY, "k"], error("ERR")),
        free(*MANY, "k"),
    ],
    numkeys_and_keys_do_not_match=[
        ("a", "LOCK.MACQUIRE 0 oa", error("ERR")),
        ("a", "LOCK.MACQUIRE 0 k oa", error("ERR")),
        ("a", "LOCK.MACQUIRE -1 k oa", error("ERR")),
        ("a", "LOCK.MACQUIRE x k oa", error("ERR")),
        ("a", "LOCK.MACQUIRE 2 k oa", error("ERR")),
        ("a", "LOCK.MACQUIRE 1 k l oa", error("ERR")),
        ("a", "LOCK.MACQUIRE 1 k mode", error("ERR")),
        ("a", "LOCK.MACQUIRE 2 k l oa FENCED", error("ERR")),
        ("a", "LOCK.MACQUIRE 2 k l oa PX 0", error("ERR")),
        ("a", "LOCK.MACQUIRE 2 k l oa PX 5 EX 5", error("ERR")),
        ("a", "LOCK.MACQUIRE 2 k l oa BLOCK -1", error("ERR")),
        ("a", "LOCK.MRELEASE 3 k l oa", error("ERR")),
        ("a", "LOCK.MRELEASE 1 k l oa", error("ERR")),
        ("a", "LOCK.MRELEASE 0 k oa", error("ERR")),
        free("k", "l"),
    ],
    a_key_given_twice_is_one=[
        takes("a", "k l k k", 2),
        held("k", "oa"),
        held("l", "oa"),
        waits("b", "l k l"),
        queue("k", "ob"),
        queue("l", "ob"),
        gives("a", "l l k", 2),
        ("b", granted(2)),
        held("k", "ob"),
        gives("b", "k l k", 2),
        free("k", "l"),
    ],
    one_key_given_twice_while_it_is_held=[
        one("a", "k", 1),
        waits("b", "k k"),
        queue("k", "ob"),
        releases("a", "k"),
        ("b", granted(1)),
        held("k", "ob"),
    ],
    part_of_them_is_held_already=[
        one("a", "l", 1),
        one("a", "l", 2),
        takes("a", "k l m", 3),
        held("k", "oa"),
        held("l", "oa", 3),
        held("m", "oa"),
        gives("a", "k l m", 2),
        held("l", "oa", 2),
    ],
    holds_are_counted_for_each_key=[
        takes("a", "k l", 2),
        takes("a", "l m", 2),
        takes("a", "k l m", 3),
        held("k", "oa", 2),
        held("l", "oa", 3),
        held("m", "oa", 2),
        gives("a", "k l m", 0),
        gives("a", "k l m", 2),
        held("l", "oa"),
        releases("a", "l"),
        free("k", "l", "m"),
    ],
    part_is_held_and_another_holds_the_rest=[
        one("a", "k", 1),
        one("b", "l", 1),
        takes("a", "k l", None),
        held("k", "oa"),
        waits("a", "k l"),
        queue("k", "oa"),
        queue("l", "oa"),
        held("k", "oa"),
        releases("b", "l"),
        ("a", granted(2)),
        held("k", "oa", 2),
        held("l", "oa"),
    ],
    held_read_write_lock_is_waited_for=[
        ("b", "LOCK.RWREAD l ob", 1),
        takes("a", "k l", None),
        waits("a", "k l"),
        ("b", "LOCK.RELEASE l ob", 0),
        ("a", granted(2)),
    ],
    own_read_write_lock_is_a_deadlock=[
        ("a", "LOCK.RWREAD l oa", 1),
        takes("a", "k l", None),
        takes("a", "k l", error("DEADLOCK", "oa waits for l held by oa"), "BLOCK", "0"),
        free("k"),
        queue("l"),
    ],
    count_at_its_limit=[
        ("z", "HSET l oa 2147483647", 1),
        takes("a", "k l m", error("ERR")),
        takes("a", "k l m", error("ERR"), "BLOCK", "0"),
        free("k", "m"),
        held("l", "oa", 2147483647),
    ],
    what_can_never_be_granted_is_not_waited_for=[
        ("a", "LOCK.RWREAD l oa", 1),
        ("z", "HSET m oa 2147483647", 1),
        one("b", "k", 1),
        one("b", "n", 1),
        takes("a", "k l n", error("DEADLOCK", "oa waits for l held by oa"), "BLOCK", "0"),
        takes("a", "n m k", error("ERR"), "BLOCK", "0"),
        queue("k"),
        queue("n"),
    ],
    one_key_is_no_lock=[
        ("z", "SET m x", "OK"),
        takes("a", "k l m", error("WRONGTYPE")),
        takes("a", "m k l", error("WRONGTYPE"), "BLOCK", "0"),
        one("b", "k", 1),
        takes("a", "k l m", error("WRONGTYPE"), "BLOCK", "0"),
        free("l"),
        ("z", "GET m", "x"),
        queue("k"),
    ],
    several_databases=[
        ("b", "SELECT 5", "OK"),
        ("c", "SELECT 5", "OK"),
        takes("a", "k l", 2),
        takes("b", "k l", 2),
        waits("d", "l k"),
        waits("c", "l k"),
        gives("b", "k l", 2),
        ("c", granted(2)),
        ("d", STILL_BLOCKED),
        gives("a", "k l", 2),
        ("d", granted(2)),
    ],
)


@schedules(**ACQUIRING)
def test_all_or_none_are_acquired(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


# Why a cannot acquire a key, by increasing precedence, and the reply to a. Only the first is waited for.
WORSE = {
    "another's": ("LOCK.ACQUIRE {} ob", None),
    "held by itself to read": ("LOCK.RWREAD {} oa", "DEADLOCK"),
    "hold count at its limit": ("HSET {} oa 2147483647", "ERR"),
    "no lock": ("SET {} x", "WRONGTYPE"),
}


@pytest.mark.parametrize("first, second", list(permutations(WORSE, 2)))
def test_of_two_keys_that_cannot_be_acquired_the_worse_is_reported(server, actor, first, second):
    for key, state in (("k", first), ("l", second)):
        server.control.execute_command(*WORSE[state][0].format(key).split())
    before = server.dump()
    expected = WORSE[max(first, second, key=list(WORSE).index)][1]
    assert code_of(actor().attempt("LOCK.MACQUIRE", 3, "free", "k", "l", "oa", "BLOCK", 0)) == expected
    assert server.dump() == before
    assert server.info("lock")["lock_waiters"] == 0


RELEASING = dict(
    one_is_not_held=[
        takes("a", "k l", 2),
        gives("a", "k l m", NOT_HELD),
        gives("a", "m k l", NOT_HELD),
        held("k", "oa"),
        held("l", "oa"),
        one("b", "m", 1),
        waits("c", "k"),
        gives("a", "k l m", NOT_HELD),
        ("c", STILL_BLOCKED),
        gives("b", "k", NOT_HELD),
    ],
    one_is_no_lock=[
        takes("a", "k l", 2),
        ("z", "SET m x", "OK"),
        gives("a", "k m l", error("WRONGTYPE")),
        held("k", "oa"),
        held("l", "oa"),
    ],
    one_is_held_in_both_modes=[
        ("a", "LOCK.RWWRITE k oa", 1),
        ("a", "LOCK.RWREAD k oa", 1),
        one("a", "l", 1),
        gives("a", "l k", error("ERR")),
        held("l", "oa"),
    ],
    every_kind_of_lock=[
        ("a", "LOCK.RWWRITE k oa", 1),
        ("a", "LOCK.RWREAD l oa", 1),
        ("b", "LOCK.RWREAD l ob", 1),
        ("a", "LOCK.FAIR m oa", 1),
        one("a", "n", 1),
        gives("a", "k l m n", 4),
        free("k", "m", "n"),
        ("z", "LOCK.INFO l", has(mode="read")),
    ],
    what_is_released_is_handed_off=[
        takes("a", "k l m", 3),
        one("b", "k", BLOCKS, "BLOCK", "0"),
        one("c", "m", BLOCKS, "BLOCK", "0"),
        gives("a", "k l m", 3),
        ("b", granted(1)),
        ("c", granted(1)),
        free("l"),
    ],
    handed_off_after_all_are_released=[
        # Two clients wait for all three keys, in different orders; the first is granted in the same command.
        takes("a", "k l m", 3),
        waits("b", "m k l"),
        waits("c", "l m k"),
        ("z", "MULTI", "OK"),
        ("z", "LOCK.MRELEASE 3 k l m oa", "QUEUED"),
        ("z", "HKEYS k", "QUEUED"),
        ("z", "HKEYS l", "QUEUED"),
        ("z", "HKEYS m", "QUEUED"),
        ("z", "LOCK.MRELEASE 3 m l k ob", "QUEUED"),
        ("z", "HKEYS k", "QUEUED"),
        ("z", "HKEYS m", "QUEUED"),
        ("z", "EXEC", [3, ["ob"], ["ob"], ["ob"], 3, ["oc"], ["oc"]]),
        ("b", granted(3)),
        ("c", granted(3)),
    ],
    a_hold_that_remains_hands_nothing_off=[
        takes("a", "k l", 2),
        one("a", "k", 2),
        waits("b", "k l"),
        gives("a", "k l", 1),
        ("b", STILL_BLOCKED),
        held("k", "oa"),
        free("l"),
        gives("a", "l", NOT_HELD),
        gives("a", "k", 1),
        ("b", granted(2)),
    ],
)


@schedules(**RELEASING)
def test_all_or_none_are_released(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)
