"""LOCK.CANCEL … RELEASE: whoever gives up leaves nothing behind, whether the grant was faster or not.

A request is what an owner of its own has asked for. Where memory is short, writes are refused, or a replica and the AOF
listen: the rows of model/mutations.py. Grants in flight: once/test_grants_in_flight.py. Random: generated/.
"""

import pytest

from harness import code_of, scaled_ms
from harness.schedule import BLOCKS, STILL_BLOCKED, answered, error, granted, has, run_schedule, schedules

IS_FREE = ("z", "EXISTS k lock:lease:{k} lock:queue:{k} lock:timeout:{k}", 0)
BOTH = error("ERR", "the owner holds the lock in both modes: READ or WRITE is required")
# How an owner that others keep out asks, what it is told when it gets it, what it gives up; and what keeps it out.
KINDS = {
    "plain": ("LOCK.ACQUIRE k o", 1, "", "LOCK.ACQUIRE k h"),
    "session": ("LOCK.ACQUIRE k o SESSION", 1, "", "LOCK.ACQUIRE k h"),
    "fair": ("LOCK.FAIR k o", 1, "", "LOCK.FAIR k h"),
    "once": ("LOCK.ACQUIRE k o ONCE", 1, "", "LOCK.ACQUIRE k h"),
    "read": ("LOCK.RWREAD k o", 1, " READ", "LOCK.RWWRITE k h"),
    "read, not said": ("LOCK.RWREAD k o", 1, "", "LOCK.RWWRITE k h"),
    "write": ("LOCK.RWWRITE k o", 1, " WRITE", "LOCK.RWREAD k h"),
    "write, not said": ("LOCK.RWWRITE k o", 1, "", "LOCK.RWREAD k h"),
    "permits": ("LOCK.SEMAPHORE k o 3 PERMITS 2", 2, " PERMITS 2", "LOCK.SEMAPHORE k h 3 PERMITS 2"),
    "permit, not said": ("LOCK.SEMAPHORE k o 1", 1, "", "LOCK.SEMAPHORE k h 1"),
    "one of several": ("LOCK.MACQUIRE 1 k o", 1, "", "LOCK.ACQUIRE k h"),
}
each_kind = pytest.mark.parametrize("asks, heard, which, holds", KINDS.values(), ids=KINDS)


def gives_up(which, reply, owner="o"):
    return ("z", f"LOCK.CANCEL k {owner} RELEASE{which}", reply)


def taken_back(holds, heard):
    """What `h` has taken, it releases."""
    return ("h", "LOCK.RELEASE k h" + (f" PERMITS {heard}" if "PERMITS" in holds else ""), 0)


# What has come of the request


@each_kind
def test_the_wait_ends(server, some_resp, asks, heard, which, holds):
    steps = [
        ("h", holds, heard),
        ("o", f"{asks} BLOCK 0", BLOCKS),
        gives_up(which, 1),
        ("o", answered(None)),
        gives_up(which, 0),
        ("z", "LOCK.INFO k", has(waiting=0)),
        taken_back(holds, heard),
        IS_FREE,
    ]
    run_schedule(server, steps, some_resp)
    assert server.info("lock")["lock_sessions"] == 0


@each_kind
def test_the_hold_goes_back_and_on_in_one_step(server, some_resp, asks, heard, which, holds):
    again = asks.replace("k o", "k p")
    steps = [
        ("h", holds, heard),
        ("o", f"{asks} BLOCK 0", BLOCKS),
        ("h2", holds.replace("k h", "k h2") + " BLOCK 0", BLOCKS),
        ("p", f"{again} BLOCK 0", BLOCKS),
        taken_back(holds, heard),
        ("o", granted(heard)),
        ("h2", STILL_BLOCKED),
        ("z", "MULTI", "OK"),
        ("z", f"LOCK.CANCEL k o RELEASE{which}", "QUEUED"),
        ("z", "LOCK.RENEW k h2", "QUEUED"),
        ("z", "EXEC", [2, heard]),
        ("h2", granted(heard)),
        gives_up(which, 0),
        ("p", STILL_BLOCKED),
        ("z", "LOCK.CANCEL k p", 1),
        ("p", answered(None)),
    ]
    run_schedule(server, steps, some_resp)
    assert server.info("lock")["lock_sessions"] == 0


@each_kind
def test_granted_at_once(server, some_resp, asks, heard, which, holds):
    run_schedule(server, [("o", asks, heard), gives_up(which, 2), IS_FREE, gives_up(which, 0)], some_resp)


@each_kind
def test_tried_without_success(server, some_resp, asks, heard, which, holds):
    steps = [("h", holds, heard), ("o", asks, None), gives_up(which, 0), taken_back(holds, heard), IS_FREE]
    run_schedule(server, steps, some_resp)


@each_kind
def test_never_heard_of(server, some_client, asks, heard, which, holds):
    before = server.info("lock")
    assert some_client.execute_command("LOCK.CANCEL", "k", "o", "RELEASE", *which.split()) == 0
    assert some_client.dbsize() == 0
    assert server.info("lock") == before


def test_it_is_counted_as_what_it_was(server, some_client, actor):
    waiter = actor()
    some_client.execute_command("LOCK.ACQUIRE", "k", "o")
    waiter.send("LOCK.ACQUIRE", "k", "w", "BLOCK", 0)
    waiter.wait_blocked()
    before = server.info("lock")
    for owner in "w", "o", "o":
        some_client.execute_command("LOCK.CANCEL", "k", owner, "RELEASE")
    after = server.info("lock")
    assert after["lock_cancelled"] - before["lock_cancelled"] == 1
    assert after["lock_releases"] - before["lock_releases"] == 1
    assert waiter.reply() is None


# Which hold

WHICH = dict(
    one_of_two_goes=[
        ("o", "LOCK.ACQUIRE k o", 1),
        ("o", "LOCK.ACQUIRE k o", 2),
        gives_up("", 2),
        ("z", "HGET k o", "1"),
        gives_up("", 2),
        IS_FREE,
    ],
    both_modes_have_to_be_told_apart=[
        ("o", "LOCK.RWWRITE k o", 1),
        ("o", "LOCK.RWREAD k o", 1),
        gives_up("", BOTH),
        gives_up(" READ", 2),
        gives_up(" READ", 0),
        ("z", "HGET k o:write", "1"),
        gives_up(" WRITE", 2),
        IS_FREE,
    ],
    an_upgrade_that_waits_ends_and_the_read_stays=[
        ("o", "LOCK.RWREAD k o", 1),
        ("h", "LOCK.RWREAD k h", 1),
        ("o", "LOCK.RWWRITE k o BLOCK 0", BLOCKS),
        gives_up(" WRITE", 1),
        ("o", answered(None)),
        gives_up(" WRITE", 0),
        ("z", "HGET k o", "1"),
        ("h", "LOCK.RELEASE k h", 0),
        ("o", "LOCK.RELEASE k o", 0),
    ],
    an_upgrade_that_was_granted_goes_back_and_the_read_stays=[
        ("o", "LOCK.RWREAD k o", 1),
        ("o", "LOCK.RWWRITE k o BLOCK 0", 1),
        gives_up(" WRITE", 2),
        ("z", "HGETALL k", lambda got: got in (["mode", "read", "o", "1"], {"mode": "read", "o": "1"})),
        ("h", "LOCK.RWREAD k h", 1),
        gives_up("", 2),
        ("h", "LOCK.RELEASE k h", 0),
    ],
    fewer_permits_than_that_are_not_those_that_were_asked_for=[
        ("o", "LOCK.SEMAPHORE k o 9 PERMITS 2", 2),
        gives_up(" PERMITS 3", 0),
        ("z", "HGET k o", "2"),
        gives_up("", 2),
        ("z", "HGET k o", "1"),
        gives_up(" PERMITS 1", 2),
        IS_FREE,
    ],
    another_kind_is_not_what_was_asked_for=[
        ("o", "LOCK.ACQUIRE k o", 1),
        *(gives_up(which, 0) for which in (" READ", " WRITE", " PERMITS 1")),
        ("z", "HGET k o", "1"),
        gives_up("", 2),
    ],
    a_hold_stays_while_its_owner_waits=[
        ("h", "LOCK.SEMAPHORE k h 3 PERMITS 2", 2),
        ("o", "LOCK.SEMAPHORE k o 3", 1),
        ("o", "LOCK.SEMAPHORE k o 3 PERMITS 2 BLOCK 0", BLOCKS),
        gives_up(" PERMITS 1", 1),
        ("o", answered(None)),
        ("z", "HGET k o", "1"),
        gives_up(" PERMITS 1", 2),
        ("h", "LOCK.RELEASE k h PERMITS 2", 0),
    ],
    permits_that_go_back_let_in_those_that_fit=[
        ("o", "LOCK.SEMAPHORE k o 3 PERMITS 3", 3),
        ("p", "LOCK.SEMAPHORE k p 3 BLOCK 0", BLOCKS),
        ("q", "LOCK.SEMAPHORE k q 3 BLOCK 0", BLOCKS),
        ("r", "LOCK.SEMAPHORE k r 3 BLOCK 0", BLOCKS),
        gives_up(" PERMITS 2", 2),
        ("p", granted(1)),
        ("q", granted(1)),
        ("r", STILL_BLOCKED),
        gives_up("", 2),
        ("r", granted(1)),
        ("z", "LOCK.FORCE k", 1),
    ],
    somebody_elses_hold_stays=[("h", "LOCK.ACQUIRE k h", 1), gives_up("", 0), ("h", "LOCK.RELEASE k h", 0)],
    of_several_keys_only_this_one=[
        ("o", "LOCK.MACQUIRE 2 k l o", 2),
        gives_up("", 2),
        ("z", "EXISTS k", 0),
        ("z", "LOCK.MRELEASE 2 k l o", error("NOTHELD")),
        ("z", "LOCK.CANCEL l o RELEASE", 2),
    ],
    a_wait_for_several_ends_in_all_of_them=[
        ("h", "LOCK.ACQUIRE l h", 1),
        ("o", "LOCK.MACQUIRE 2 k l o BLOCK 0", BLOCKS),
        ("p", "LOCK.MACQUIRE 1 k p BLOCK 0", BLOCKS),
        gives_up("", 1),
        ("o", answered(None)),
        ("p", granted(1)),
        ("z", "LOCK.CANCEL l o RELEASE", 0),
        ("h", "LOCK.RELEASE l h", 0),
        ("p", "LOCK.RELEASE k p", 0),
    ],
    two_waits_that_one_grant_has_answered_are_one_hold=[
        ("h", "LOCK.ACQUIRE k h", 1),
        ("o", "LOCK.ACQUIRE k o ONCE BLOCK 0", BLOCKS),
        ("o2", "LOCK.ACQUIRE k o ONCE BLOCK 0", BLOCKS),
        ("h", "LOCK.RELEASE k h", 0),
        ("o", granted(1)),
        ("o2", granted(1)),
        gives_up("", 2),
        gives_up("", 0),
        IS_FREE,
    ],
    a_hash_that_is_no_lock_of_ours_is_nobodys=[
        ("z", "HSET k a 1 b 1", 2),
        gives_up("", 0, "a"),
        ("z", "HLEN k", 2),
    ],
    what_is_left_of_the_dead_is_no_hold=[
        ("o", "LOCK.RWREAD k o", 1),
        ("h", "LOCK.RWREAD k h", 1),
        ("h", "LOCK.RWWRITE k h BLOCK 0", BLOCKS),
        ("o", f"LOCK.RENEW k o PX {scaled_ms(30)}", 1),
        ("h", granted(1)),
        gives_up(" READ", 0),
        gives_up(" WRITE", 2, "h"),
        gives_up("", 2, "h"),
    ],
    options_in_any_order_and_case=[
        ("o", "LOCK.RWREAD k o", 1),
        ("z", "lock.cancel k o read release", 2),
        ("o", "LOCK.SEMAPHORE k o 3 PERMITS 3", 3),
        ("z", "lock.cancel k o Release perMits 3", 2),
        IS_FREE,
    ],
)


@schedules(**WHICH)
def test_which_hold(server, resp, schedule):
    run_schedule(server, schedule, resp)


# Keys that are no locks, and permissions


def test_a_wait_ends_though_the_key_is_no_lock_any_more(server, some_client, actor):
    waiter = actor()
    some_client.execute_command("LOCK.ACQUIRE", "k", "o")
    waiter.send("LOCK.ACQUIRE", "k", "w", "BLOCK", 0)
    waiter.wait_blocked()
    some_client.set("k", "a text")
    assert some_client.execute_command("LOCK.CANCEL", "k", "w", "RELEASE") == 1
    assert waiter.reply() is None
    assert code_of(actor().attempt("LOCK.CANCEL", "k", "w", "RELEASE")) == "WRONGTYPE"
    assert some_client.get("k") == "a text"


@pytest.mark.parametrize("keys", ["%R~k", "~l"], ids=["reads", "another key"])
def test_it_takes_the_permission_to_write(server, some_client, actor, keys):
    some_client.execute_command("LOCK.ACQUIRE", "k", "o")
    some_client.execute_command("ACL", "SETUSER", "u", "on", "nopass", "+@all", keys)
    client = actor()
    client.call("AUTH", "u", "any")
    assert code_of(client.attempt("LOCK.CANCEL", "k", "o", "RELEASE")) == "NOPERM"
    some_client.execute_command("ACL", "SETUSER", "u", "resetkeys", "%RW~k")
    assert client.call("LOCK.CANCEL", "k", "o", "RELEASE") == 2
    client.close()
    some_client.execute_command("ACL", "DELUSER", "u")
