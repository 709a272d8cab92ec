"""What a node remembers of a semaphore goes with its slot, of which no event tells on some servers."""

from harness import wait_for
from model.cluster_scene import LONG


def give(slot, source, target):
    """With no key of it: what the one that had it still has, it deletes."""
    target.cluster("BUMPEPOCH")  # first: whose epoch is the higher one takes it back
    target.cluster("SETSLOT", slot, "NODE", target.id)
    wait_for(lambda: source.port_of(slot) == target.server.port, 20, "the slot to go over")


def test_semaphore_in_a_slot_that_comes_back_is_a_new_one(nodes, key):
    (one, two), (name, slot) = nodes, key

    def takes(owner, limit, permits):
        return one.server.actor().attempt("LOCK.SEMAPHORE", name, owner, limit, "PERMITS", permits, "PX", LONG)

    assert [takes("p", 2, 1), takes("q", 2, 1), takes("r", 2, 1)] == [1, 1, None]  # now the sum is known
    give(slot, one, two)
    assert one.cluster("COUNTKEYSINSLOT", slot) == 0
    give(slot, two, one)
    assert takes("a", 5, 5) == 5
    assert one.actor.call("LOCK.RELEASE", name, "a") == 4
    assert takes("b", 5, 4) is None
    assert takes("b", 5, 1) == 1
