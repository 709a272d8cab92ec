"""What a node has in memory of a semaphore is discarded with its slot; some servers send no event when a slot moves."""

from harness import wait_for
from model.cluster_scene import LONG


def give(slot, source, target):
    """Without its keys: the old node deletes those that it still has."""
    target.cluster("BUMPEPOCH")  # first: the node with the higher epoch would take the slot back
    target.cluster("SETSLOT", slot, "NODE", target.id)
    wait_for(lambda: source.port_of(slot) == target.server.port, 20, "the slot to move")


def test_semaphore_in_a_slot_that_moves_back_is_a_new_one(nodes, key):
    (one, two), (name, slot) = nodes, key

    def takes(owner, limit, permits):
        return one.server.actor().attempt("LOCK.SEMAPHORE", name, owner, limit, "PERMITS", permits, "PX", LONG)

    assert [takes("p", 2, 1), takes("q", 2, 1), takes("r", 2, 1)] == [1, 1, None]  # now the node has the sum in memory
    give(slot, one, two)
    assert one.cluster("COUNTKEYSINSLOT", slot) == 0
    give(slot, two, one)
    assert takes("a", 5, 5) == 5
    assert one.actor.call("LOCK.RELEASE", name, "a") == 4
    assert takes("b", 5, 4) is None
    assert takes("b", 5, 1) == 1
