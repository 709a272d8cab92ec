"""Clients that wait for a latch, or watch a lock, in a slot that moves to another node."""

import pytest

from harness import scaled_ms, wait_for
from model.cluster_scene import LONG, begin_move, is_redirection, migrate, is_moved
from model.moving_scene import SHORT, TRY_AGAIN, call_off, finish_move, side

COMMANDS = ["LATCH.SET {} 1", "LATCH.DOWN {}", "LATCH.WAIT {}", "LATCH.WAIT {} BLOCK 0", "LOCK.WATCH {} o BLOCK 0"]
# The hold that is watched, and another hold of the same lock: then there is a set of leases.
LEASED = {
    "read": ("LOCK.RWREAD {} o", "LOCK.RWREAD {} p"),
    "write": ("LOCK.RWWRITE {} o", "LOCK.RWREAD {} o"),
    "permit": ("LOCK.SEMAPHORE {} o 9", "LOCK.SEMAPHORE {} p 9"),
}


def latch_waiter(node, name):
    if not node.actor.call("EXISTS", name):
        node.actor.call("LATCH.SET", name, 1)
    waiter = node.server.actor()
    waiter.send("LATCH.WAIT", name, "BLOCK", 0)
    return waiter.wait_blocked()


def watcher(node, name, hold="LOCK.ACQUIRE {} o"):
    assert node.actor.call(*hold.format(name).split(), "PX", LONG) == 1
    watching = node.server.actor()
    watching.send("LOCK.WATCH", name, "o", "BLOCK", 0)
    return watching.wait_blocked()


WAITS = {"latch": latch_waiter, "watch": watcher}
each_wait = pytest.mark.parametrize("begins", WAITS.values(), ids=WAITS)


def none_is_left(node):
    info = node.server.info("lock")
    assert (info["lock_latch_waiters"], info["lock_watchers"]) == (0, 0)


def test_commands_for_another_nodes_slot_are_redirected(nodes, key):
    (one, two), (name, slot) = nodes, key
    client = two.server.actor()
    for command in COMMANDS:
        assert is_moved(slot, one)(client.attempt(*command.format(name).split()))


def test_latch_and_watch_work_as_on_a_single_server(nodes, key):
    (one, _), (name, _) = nodes, key
    waiter = latch_waiter(one, name)
    assert one.actor.call("LATCH.DOWN", name) == 0
    assert waiter.reply() == 1
    watching = watcher(one, name, LEASED["read"][0])
    assert one.actor.call("PEXPIRE", name, scaled_ms(20)) == 1
    assert watching.reply() == "LOST"


@each_wait
def test_wait_is_redirected_when_its_slot_moves(nodes, key, begins):
    (one, two), (name, slot) = nodes, key
    waiter = begins(one, name)
    begin_move(slot, one, two)
    finish_move(slot, one, two)
    assert is_redirection(waiter.outcome(timeout=10))
    none_is_left(one)


@each_wait
def test_wait_is_redirected_when_another_node_takes_over_its_slot(nodes, key, begins):
    """A message on the bus; this node deletes the keys: that does not open the latch, and the lock is not lost."""
    (one, two), (name, slot) = nodes, key
    waiter = begins(one, name)
    two.cluster("SETSLOT", slot, "IMPORTING", one.id)
    two.cluster("SETSLOT", slot, "NODE", two.id)
    wait_for(lambda: one.port_of(slot) == two.server.port, 20, "the first node to learn of it")
    assert is_redirection(waiter.outcome(timeout=10))
    none_is_left(one)


@each_wait
def test_wait_is_redirected_when_its_key_moves_before_the_slot(nodes, key, begins):
    (one, two), (name, slot) = nodes, key
    waiter = begins(one, name)
    begin_move(slot, one, two)
    one.server.settle(30)
    assert not waiter.has_reply()
    migrate(name, one, two)
    assert str(waiter.outcome()).startswith(f"ASK {slot} ")
    none_is_left(one)


def test_latch_that_is_opened_before_its_slot_has_moved_is_open(nodes, key):
    """A waiter is notified of the opening, and not redirected."""
    (one, two), (name, slot) = nodes, key
    waiter = latch_waiter(one, name)
    begin_move(slot, one, two)
    assert one.actor.call("LATCH.DOWN", name) == 0
    assert waiter.reply() == 1


@pytest.mark.parametrize("hold, other", LEASED.values(), ids=LEASED)
def test_watch_of_a_lock_whose_leases_have_moved_waits(nodes, key, hold, other):
    """This node cannot know whether the holds have expired; the watch is notified when it can."""
    (one, two), (name, slot) = nodes, key
    watching = watcher(one, name, hold)
    assert one.actor.call(*other.format(name).split(), "PX", LONG) == 1
    begin_move(slot, one, two)
    migrate(side("lease", name), one, two)
    assert str(one.server.actor().attempt("LOCK.WATCH", name, "o")) == TRY_AGAIN
    one.server.settle(300)
    assert not watching.has_reply()
    call_off(nodes, slot)
    two.cluster("SETSLOT", slot, "NODE", one.id)
    assert one.actor.call("PEXPIRE", name, SHORT) == 1
    assert watching.reply(timeout=10) == "LOST"


@each_wait
def test_cluster_that_is_down_for_a_while_leaves_no_client_hanging(nodes, key, begins):
    (one, _), (name, slot) = nodes, key
    waiter = begins(one, name)
    other_slot = slot + 1 if slot < 100 else slot - 1
    one.cluster("DELSLOTS", other_slot)
    wait_for(lambda: not one.is_up(), 10, "the cluster to be down")
    one.server.settle(30)
    one.cluster("ADDSLOTS", other_slot)
    wait_for(one.is_up, 20, "the cluster to be up")
    if waiter.has_reply():  # some servers send an error to their blocked clients
        assert str(waiter.outcome()).startswith("CLUSTERDOWN")
    else:
        assert one.actor.call("DEL", name) == 1
        assert waiter.outcome() in (1, "LOST")
