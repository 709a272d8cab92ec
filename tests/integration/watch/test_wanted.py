"""WANTED: another owner waits for the lock."""

import pytest

from harness import scaled_ms, wait_for
from harness.schedule import BLOCKS, DIES, STILL_BLOCKED, answered, run_schedule, schedules
from model.watch_scene import HOUR, Scene, watchers, watches

HOLDS = ("a", f"LOCK.ACQUIRE k oa PX {HOUR}", 1)
WATCHES = ("w", "LOCK.WATCH k oa WANTED BLOCK 0", BLOCKS)
WAITS = ("b", "LOCK.ACQUIRE k ob BLOCK 0", BLOCKS)
NO_WAITER_LEFT = (lambda s: wait_for(lambda: s.server.info("lock")["lock_waiters"] == 0, what="the waiter to leave"),)


SCHEDULES = dict(
    a_waiter_arrives=[HOLDS, WATCHES, WAITS, ("w", answered("WANTED"))],
    a_client_waits_already=[HOLDS, WAITS, ("w", "LOCK.WATCH k oa WANTED BLOCK 0", "WANTED")],
    fair=[HOLDS, WATCHES, ("b", "LOCK.FAIR k ob BLOCK 0", BLOCKS), ("w", answered("WANTED"))],
    multi_key_waiter=[HOLDS, WATCHES, ("b", "LOCK.MACQUIRE 2 l k ob BLOCK 0", BLOCKS), ("w", answered("WANTED"))],
    reader_by_writer=[
        ("a", f"LOCK.RWREAD k oa PX {HOUR}", 1), WATCHES,
        ("c", "LOCK.RWREAD k oc", 1), ("w", STILL_BLOCKED),
        ("b", "LOCK.RWWRITE k ob BLOCK 0", BLOCKS), ("w", answered("WANTED")),
    ],
    both_readers=[
        ("a", f"LOCK.RWREAD k oa PX {HOUR}", 1), ("c", f"LOCK.RWREAD k oc PX {HOUR}", 1), WATCHES,
        ("v", "LOCK.WATCH k oc WANTED BLOCK 0", BLOCKS),
        ("b", "LOCK.RWWRITE k ob BLOCK 0", BLOCKS), ("w", answered("WANTED")), ("v", answered("WANTED")),
    ],
    own_wait_does_not_count=[
        ("a", f"LOCK.RWREAD k oa PX {HOUR}", 1), ("c", f"LOCK.RWREAD k oc PX {HOUR}", 1), WATCHES,
        ("v", "LOCK.WATCH k oc WANTED BLOCK 0", BLOCKS),
        ("u", "LOCK.RWWRITE k oa BLOCK 0", BLOCKS), ("v", answered("WANTED")), ("w", STILL_BLOCKED),
        ("b", "LOCK.RWWRITE k ob BLOCK 0", BLOCKS), ("w", answered("WANTED")),
    ],
    try_without_a_wait=[HOLDS, WATCHES, ("b", "LOCK.ACQUIRE k ob", None), ("w", STILL_BLOCKED)],
    not_requested=[HOLDS, ("w", "LOCK.WATCH k oa BLOCK 0", BLOCKS), WAITS, ("w", STILL_BLOCKED)],
    other_lock=[
        HOLDS, WATCHES, ("c", "LOCK.ACQUIRE l oc", 1), ("b", "LOCK.ACQUIRE l ob BLOCK 0", BLOCKS), ("w", STILL_BLOCKED),
    ],
    waiter_that_has_disconnected=[HOLDS, WAITS, ("b", DIES), NO_WAITER_LEFT, WATCHES, ("w", STILL_BLOCKED)],
    reserved_position_counts=[
        ("a", "CONFIG SET lock.fair-reserve 600000", "OK"), HOLDS,
        ("b", "LOCK.FAIR k ob BLOCK 0", BLOCKS), ("b", DIES), NO_WAITER_LEFT,
        ("w", "LOCK.WATCH k oa WANTED", "WANTED"), ("a", "LOCK.CANCEL k ob", 1), ("w", "LOCK.WATCH k oa WANTED", None),
    ],
    handed_off=[
        HOLDS, WATCHES, WAITS, ("w", answered("WANTED")), ("a", "LOCK.RELEASE k oa", 0), ("b", answered(1)),
        ("w", "LOCK.WATCH k ob WANTED BLOCK 0", BLOCKS), ("a", "LOCK.ACQUIRE k oa BLOCK 0", BLOCKS),
        ("w", answered("WANTED")),
    ],
    lost_before_wanted=[
        HOLDS, WATCHES, WAITS, ("w", answered("WANTED")), ("w", "LOCK.WATCH k oa BLOCK 0", BLOCKS),
        ("a", "LOCK.RELEASE k oa", 0), ("b", answered(1)), ("w", answered("LOST")),
    ],
)  # fmt: skip


@schedules(**SCHEDULES)
def test_watch_receives_wanted_when_another_owner_waits(server, some_resp, schedule):
    # At the end of the test the connections that still watch or wait are closed.
    run_schedule(server, schedule, some_resp)


def test_lost_and_wanted_at_once_is_lost(server):
    """A lock that is handed off is lost first: waiters behind the new holder do not concern watches of the old one."""
    scene = Scene(server, words=("WANTED",))
    waiter = server.raw_connection()
    waiter.sendall(b"MULTI\r\nLOCK.RELEASE k o\r\nLOCK.ACQUIRE k p PX 600000\r\nEXEC\r\nLOCK.ACQUIRE k q BLOCK 0\r\n")
    scene.both_receive("LOST")


def test_watch_does_not_delay_a_hand_off_and_is_in_no_queue(server, actor):
    scene = Scene(server, words=("WANTED",))
    waiter = actor()
    waiter.send("LOCK.ACQUIRE", "k", "p", "BLOCK", 0)
    waiter.wait_blocked()
    scene.both_receive("WANTED")
    again = watches(server, "o")
    scene.do("LOCK.RELEASE k o")
    assert (waiter.reply(), again.reply()) == (1, "LOST")


def test_watch_closes_no_cycle(server, actor):
    a, b, w = actor("a"), actor("b"), actor("w")
    before = server.info("lock")["lock_deadlocks_refused"]
    assert a.call("LOCK.ACQUIRE", "k", "oa") == b.call("LOCK.ACQUIRE", "l", "ob") == 1
    w.send("LOCK.WATCH", "l", "ob", "BLOCK", 0)  # as a process of oa would
    w.wait_blocked()
    assert b.call("LOCK.ACQUIRE", "k", "ob", "BLOCK", scaled_ms(30)) is None
    assert server.info("lock")["lock_deadlocks_refused"] == before


@pytest.mark.parametrize("how", ["close", "kill_socket"])
def test_watcher_that_disconnects_leaves_no_watch(server, actor, how):
    scene = Scene(server, words=("WANTED",))
    for watcher in scene.waiters:
        getattr(watcher, how)()
    wait_for(lambda: watchers(server) == 0, what="the watches to end")
    waiter = actor()
    waiter.send("LOCK.ACQUIRE", "k", "p", "BLOCK", 0)
    waiter.wait_blocked()
    scene.do("LOCK.RELEASE k o")
    assert waiter.reply() == 1


def test_request_refused_as_a_deadlock_has_waited_and_is_wanted(server):
    """It waits for the few milliseconds until the search."""
    first, second, watch, other = (server.actor() for _ in range(4))
    other.call("LOCK.ACQUIRE", "k", "oa", "PX", HOUR)
    other.call("LOCK.ACQUIRE", "l", "ob", "PX", HOUR)
    first.send("LOCK.ACQUIRE", "l", "oa", "BLOCK", 0)
    first.wait_blocked()
    watch.send("LOCK.WATCH", "k", "oa", "WANTED", "BLOCK", 0)
    watch.wait_blocked()
    second.send("LOCK.ACQUIRE", "k", "ob", "BLOCK", 0)
    assert watch.reply() == "WANTED"
    assert str(second.outcome()).startswith("DEADLOCK")
