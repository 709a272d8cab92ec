"""LOCK.CANCEL … RELEASE: a client that gives up leaves no wait and no hold, whether the grant was faster or not.

Each request has its own owner. Tests that use the rows of model/mutations.py cover it without memory, where writes are
refused, and with a replica and the AOF. once/test_grants_in_flight.py has grants in flight, generated/ random walks.
"""

import pytest

from harness import code_of, scaled_ms
from harness.schedule import BLOCKS, STILL_BLOCKED, answered, error, granted, has, run_schedule, schedules

IS_FREE = ("z", "EXISTS k lock:lease:{k} lock:queue:{k} lock:timeout:{k}", 0)
BOTH = error("ERR", "the owner holds the lock in both modes: READ or WRITE is required")
# The request of an owner, the reply to its grant, the options that cancel it; and the hold for which it waits.
KINDS = {
    "plain": ("LOCK.ACQUIRE k o", 1, "", "LOCK.ACQUIRE k h"),
    "session": ("LOCK.ACQUIRE k o SESSION", 1, "", "LOCK.ACQUIRE k h"),
    "fair": ("LOCK.FAIR k o", 1, "", "LOCK.FAIR k h"),
    "once": ("LOCK.ACQUIRE k o ONCE", 1, "", "LOCK.ACQUIRE k h"),
    "read": ("LOCK.RWREAD k o", 1, " READ", "LOCK.RWWRITE k h"),
    "read, default": ("LOCK.RWREAD k o", 1, "", "LOCK.RWWRITE k h"),
    "write": ("LOCK.RWWRITE k o", 1, " WRITE", "LOCK.RWREAD k h"),
    "write, default": ("LOCK.RWWRITE k o", 1, "", "LOCK.RWREAD k h"),
    "permits": ("LOCK.SEMAPHORE k o 3 PERMITS 2", 2, " PERMITS 2", "LOCK.SEMAPHORE k h 3 PERMITS 2"),
    "permit, default": ("LOCK.SEMAPHORE k o 1", 1, "", "LOCK.SEMAPHORE k h 1"),
    "multi-key": ("LOCK.MACQUIRE 1 k o", 1, "", "LOCK.ACQUIRE k h"),
}
each_kind = pytest.mark.parametrize("command, reply, which, holds", KINDS.values(), ids=KINDS)


def cancels(which, reply, owner="o"):
    return ("z", f"LOCK.CANCEL k {owner} RELEASE{which}", reply)


def released(holds, reply):
    """h releases what it has acquired."""
    return ("h", "LOCK.RELEASE k h" + (f" PERMITS {reply}" if "PERMITS" in holds else ""), 0)


# The state of the request


@each_kind
def test_wait_ends(server, some_resp, command, reply, which, holds):
    steps = [
        ("h", holds, reply),
        ("o", f"{command} BLOCK 0", BLOCKS),
        cancels(which, 1),
        ("o", answered(None)),
        cancels(which, 0),
        ("z", "LOCK.INFO k", has(waiting=0)),
        released(holds, reply),
        IS_FREE,
    ]
    run_schedule(server, steps, some_resp)
    assert server.info("lock")["lock_sessions"] == 0


@each_kind
def test_hold_is_released_and_handed_off_in_one_step(server, some_resp, command, reply, which, holds):
    again = command.replace("k o", "k p")
    steps = [
        ("h", holds, reply),
        ("o", f"{command} BLOCK 0", BLOCKS),
        ("h2", holds.replace("k h", "k h2") + " BLOCK 0", BLOCKS),
        ("p", f"{again} BLOCK 0", BLOCKS),
        released(holds, reply),
        ("o", granted(reply)),
        ("h2", STILL_BLOCKED),
        ("z", "MULTI", "OK"),
        ("z", f"LOCK.CANCEL k o RELEASE{which}", "QUEUED"),
        ("z", "LOCK.RENEW k h2", "QUEUED"),
        ("z", "EXEC", [2, reply]),
        ("h2", granted(reply)),
        cancels(which, 0),
        ("p", STILL_BLOCKED),
        ("z", "LOCK.CANCEL k p", 1),
        ("p", answered(None)),
    ]
    run_schedule(server, steps, some_resp)
    assert server.info("lock")["lock_sessions"] == 0


@each_kind
def test_grant_without_a_wait_is_released(server, some_resp, command, reply, which, holds):
    run_schedule(server, [("o", command, reply), cancels(which, 2), IS_FREE, cancels(which, 0)], some_resp)


@each_kind
def test_request_that_was_not_granted_leaves_nothing_to_cancel(server, some_resp, command, reply, which, holds):
    steps = [("h", holds, reply), ("o", command, None), cancels(which, 0), released(holds, reply), IS_FREE]
    run_schedule(server, steps, some_resp)


@each_kind
def test_owner_without_a_request_has_nothing_to_cancel(server, some_client, command, reply, which, holds):
    before = server.info("lock")
    assert some_client.execute_command("LOCK.CANCEL", "k", "o", "RELEASE", *which.split()) == 0
    assert some_client.dbsize() == 0
    assert server.info("lock") == before


def test_cancelled_wait_and_released_hold_are_counted_as_such(server, some_client, actor):
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
    one_of_two_holds_is_released=[
        ("o", "LOCK.ACQUIRE k o", 1),
        ("o", "LOCK.ACQUIRE k o", 2),
        cancels("", 2),
        ("z", "HGET k o", "1"),
        cancels("", 2),
        IS_FREE,
    ],
    the_mode_is_required_if_both_are_held=[
        ("o", "LOCK.RWWRITE k o", 1),
        ("o", "LOCK.RWREAD k o", 1),
        cancels("", BOTH),
        cancels(" READ", 2),
        cancels(" READ", 0),
        ("z", "HGET k o:write", "1"),
        cancels(" WRITE", 2),
        IS_FREE,
    ],
    an_upgrade_that_waits_ends_and_the_read_remains=[
        ("o", "LOCK.RWREAD k o", 1),
        ("h", "LOCK.RWREAD k h", 1),
        ("o", "LOCK.RWWRITE k o BLOCK 0", BLOCKS),
        cancels(" WRITE", 1),
        ("o", answered(None)),
        cancels(" WRITE", 0),
        ("z", "HGET k o", "1"),
        ("h", "LOCK.RELEASE k h", 0),
        ("o", "LOCK.RELEASE k o", 0),
    ],
    a_granted_upgrade_is_released_and_the_read_remains=[
        ("o", "LOCK.RWREAD k o", 1),
        ("o", "LOCK.RWWRITE k o BLOCK 0", 1),
        cancels(" WRITE", 2),
        ("z", "HGETALL k", lambda got: got in (["mode", "read", "o", "1"], {"mode": "read", "o": "1"})),
        ("h", "LOCK.RWREAD k h", 1),
        cancels("", 2),
        ("h", "LOCK.RELEASE k h", 0),
    ],
    fewer_permits_than_given_are_not_released=[
        ("o", "LOCK.SEMAPHORE k o 9 PERMITS 2", 2),
        cancels(" PERMITS 3", 0),
        ("z", "HGET k o", "2"),
        cancels("", 2),
        ("z", "HGET k o", "1"),
        cancels(" PERMITS 1", 2),
        IS_FREE,
    ],
    a_hold_of_another_kind_is_not_released=[
        ("o", "LOCK.ACQUIRE k o", 1),
        *(cancels(which, 0) for which in (" READ", " WRITE", " PERMITS 1")),
        ("z", "HGET k o", "1"),
        cancels("", 2),
    ],
    a_hold_remains_while_its_owner_waits=[
        ("h", "LOCK.SEMAPHORE k h 3 PERMITS 2", 2),
        ("o", "LOCK.SEMAPHORE k o 3", 1),
        ("o", "LOCK.SEMAPHORE k o 3 PERMITS 2 BLOCK 0", BLOCKS),
        cancels(" PERMITS 1", 1),
        ("o", answered(None)),
        ("z", "HGET k o", "1"),
        cancels(" PERMITS 1", 2),
        ("h", "LOCK.RELEASE k h PERMITS 2", 0),
    ],
    released_permits_are_granted_to_waiters_that_fit=[
        ("o", "LOCK.SEMAPHORE k o 3 PERMITS 3", 3),
        ("p", "LOCK.SEMAPHORE k p 3 BLOCK 0", BLOCKS),
        ("q", "LOCK.SEMAPHORE k q 3 BLOCK 0", BLOCKS),
        ("r", "LOCK.SEMAPHORE k r 3 BLOCK 0", BLOCKS),
        cancels(" PERMITS 2", 2),
        ("p", granted(1)),
        ("q", granted(1)),
        ("r", STILL_BLOCKED),
        cancels("", 2),
        ("r", granted(1)),
        ("z", "LOCK.FORCE k", 1),
    ],
    the_hold_of_another_owner_remains=[("h", "LOCK.ACQUIRE k h", 1), cancels("", 0), ("h", "LOCK.RELEASE k h", 0)],
    only_this_one_of_several_keys=[
        ("o", "LOCK.MACQUIRE 2 k l o", 2),
        cancels("", 2),
        ("z", "EXISTS k", 0),
        ("z", "LOCK.MRELEASE 2 k l o", error("NOTHELD")),
        ("z", "LOCK.CANCEL l o RELEASE", 2),
    ],
    a_multi_key_wait_ends_in_all_queues=[
        ("h", "LOCK.ACQUIRE l h", 1),
        ("o", "LOCK.MACQUIRE 2 k l o BLOCK 0", BLOCKS),
        ("p", "LOCK.MACQUIRE 1 k p BLOCK 0", BLOCKS),
        cancels("", 1),
        ("o", answered(None)),
        ("p", granted(1)),
        ("z", "LOCK.CANCEL l o RELEASE", 0),
        ("h", "LOCK.RELEASE l h", 0),
        ("p", "LOCK.RELEASE k p", 0),
    ],
    two_waits_with_one_grant_are_one_hold=[
        ("h", "LOCK.ACQUIRE k h", 1),
        ("o", "LOCK.ACQUIRE k o ONCE BLOCK 0", BLOCKS),
        ("o2", "LOCK.ACQUIRE k o ONCE BLOCK 0", BLOCKS),
        ("h", "LOCK.RELEASE k h", 0),
        ("o", granted(1)),
        ("o2", granted(1)),
        cancels("", 2),
        cancels("", 0),
        IS_FREE,
    ],
    a_foreign_hash_has_no_owner=[
        ("z", "HSET k a 1 b 1", 2),
        cancels("", 0, "a"),
        ("z", "HLEN k", 2),
    ],
    what_is_left_of_an_expired_hold_is_no_hold=[
        ("o", "LOCK.RWREAD k o", 1),
        ("h", "LOCK.RWREAD k h", 1),
        ("h", "LOCK.RWWRITE k h BLOCK 0", BLOCKS),
        ("o", f"LOCK.RENEW k o PX {scaled_ms(30)}", 1),
        ("h", granted(1)),
        cancels(" READ", 0),
        cancels(" WRITE", 2, "h"),
        cancels("", 2, "h"),
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
def test_hold_or_wait_that_is_meant_ends(server, resp, schedule):
    run_schedule(server, schedule, resp)


# Keys that are no locks, and permissions


def test_wait_ends_although_the_key_is_no_lock_any_more(server, some_client, actor):
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
def test_write_permission_is_required(server, some_client, actor, keys):
    some_client.execute_command("LOCK.ACQUIRE", "k", "o")
    some_client.execute_command("ACL", "SETUSER", "u", "on", "nopass", "+@all", keys)
    client = actor()
    client.call("AUTH", "u", "any")
    assert code_of(client.attempt("LOCK.CANCEL", "k", "o", "RELEASE")) == "NOPERM"
    some_client.execute_command("ACL", "SETUSER", "u", "resetkeys", "%RW~k")
    assert client.call("LOCK.CANCEL", "k", "o", "RELEASE") == 2
    client.close()
    some_client.execute_command("ACL", "DELUSER", "u")
