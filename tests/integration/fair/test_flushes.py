"""Flushes and loads with fair waiters: waiters keep their positions, in memory and in the keys, whatever else happens.

A flush, a swap, a load and a cluster's check of its slots may all run before the drain: each is sent in one packet with
the flush, or paused with it.
"""

import pytest

from harness import wait_for
from model.fair_scene import ask, ask_all, detached, hold, lose, nothing_left, order, release
from model.fair_scene import server, written, written_is_right  # noqa: F401

SLOT_CHECK_MS = 1000
LONG = 600_000


def at_once(server, *commands):
    """Sends all commands in one packet."""
    pipeline = server.client().pipeline(transaction=False)
    for command in commands:
        pipeline.execute_command(*command.split())
    return pipeline.execute(raise_on_error=False)


def flushed_at_once(server, *commands):
    """In a transaction: outside of one newer servers flush in the background and serve other clients."""
    replies = at_once(server, "MULTI", "FLUSHALL", *commands, "EXEC")[-1]
    assert replies[0] in (True, "OK"), replies
    return replies


def mirrored(server):
    wait_for(lambda: written_is_right(server), what="the keys to agree with memory")
    return [owner for owner, _, _ in written(server)]


def all_are_granted(server, holder, **actors):
    for owner, actor in actors.items():
        release(server, holder)
        assert actor.reply() == 1
        holder = owner
    release(server, holder)
    wait_for(lambda: nothing_left(server), what="the last position to leave no trace")


EVENTS = {
    "flushed": (),
    "flushed twice": ("FLUSHALL",),
    "flushed, swapped": ("SWAPDB 0 5",),
    "flushed, swapped there and back": ("SWAPDB 0 5", "SWAPDB 5 0"),
    "swapped, flushed": ("SWAPDB 0 5", "FLUSHDB"),
    "flushed, others swapped": ("SWAPDB 5 6",),
}


@pytest.mark.parametrize("events", EVENTS.values(), ids=EVENTS)
def test_positions_of_waiters_are_written_again_reserved_ones_are_gone(server, events):
    hold(server)
    b, dead, d = ask_all(server, "ob", "oc", "od")
    lose(server, dead)
    before = [position for position in written(server) if position[0] != "oc"]
    flushed_at_once(server, *events, "LOCK.ACQUIRE k oz PX 600000")
    assert mirrored(server) == order(server) == ["ob", "od"]
    assert written(server) == before
    all_are_granted(server, "oz", ob=b, od=d)


LOADS = {
    "flushed, loaded": ("FLUSHALL ASYNC", "DEBUG RELOAD"),
    "flushed, swapped, loaded": ("FLUSHALL ASYNC", "SWAPDB 0 5", "DEBUG RELOAD"),
    "loaded, flushed": ("DEBUG RELOAD", "FLUSHALL ASYNC"),
    "loaded": ("DEBUG RELOAD",),
    "swapped, loaded": ("SWAPDB 0 5", "DEBUG RELOAD"),
}


@pytest.mark.parametrize("events", LOADS.values(), ids=LOADS)
def test_positions_of_waiters_are_kept_after_a_load(server, events):
    """The file that is loaded has the data after the flush."""
    hold(server)
    b, c = ask_all(server, "ob", "oc")
    at_once(server, *events, "LOCK.ACQUIRE k oa PX 600000")
    assert mirrored(server) == order(server) == ["ob", "oc"]
    server.control.execute_command("LOCK.FORCE", "k")
    assert b.reply() == 1
    all_are_granted(server, "ob", oc=c)


def test_loading_an_earlier_file_does_not_restore_cancelled_positions(server):
    hold(server)
    b, c = ask_all(server, "ob", "oc")
    server.control.save()
    assert server.control.execute_command("LOCK.CANCEL", "k", "ob") == 1
    assert b.reply() is None
    d = ask(server, "od")
    assert server.control.execute_command("DEBUG", "RELOAD", "NOSAVE") == "OK"
    assert mirrored(server) == order(server) == ["oc", "od"]
    all_are_granted(server, "oa", oc=c, od=d)


def test_load_keeps_reserved_positions(server):
    hold(server)
    lose(server, *ask_all(server, "ob", "oc"))
    before = written(server)
    assert server.control.execute_command("DEBUG", "RELOAD") == "OK"
    assert mirrored(server) == detached(server) == ["ob", "oc"]
    assert written(server) == before


@pytest.fixture
def node(make_server):
    """A cluster of one node, which has all slots."""
    node = make_server(cluster_enabled="yes", lock_fair_reserve=LONG)
    node.control.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    # The command is refused until the node serves the slot.
    actor = node.actor()
    wait_for(lambda: actor.attempt("EXISTS", "k") == 0, 20, "the cluster to be whole")
    return node


def test_check_of_the_slots_does_not_discard_a_pending_flush(node):
    """The pause delays the drain, but not the check."""
    hold(node)
    b, c = ask_all(node, "ob", "oc")
    before = written(node)
    flushed_at_once(node, f"CLIENT PAUSE {LONG} WRITE")
    node.let_pass(SLOT_CHECK_MS + 100)
    assert written(node) == []
    node.control.execute_command("CLIENT", "UNPAUSE")
    assert b.reply() == 1
    assert mirrored(node) == ["oc"] and written(node) == before[1:]
    all_are_granted(node, "ob", oc=c)
