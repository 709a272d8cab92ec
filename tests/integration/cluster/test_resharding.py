"""A thousand locks of all kinds in use while `redis-cli --cluster` moves their slots back and forth.

Every move succeeds; no two clients hold one lock; tokens always grow.
"""

from harness import wait_for
from harness.cluster import manage
from model.cluster_scene import HALF, LONG, make_nodes
from model.resharding import LOCKS, SLOTS, Workers


def wait_whole(nodes):
    """Waits until the nodes agree: redis-cli refuses to begin before."""

    def agree():
        manage("check", nodes[0])
        return True

    wait_for(agree, 30, "the nodes to agree")


def reshard(source, target):
    manage("reshard", source, "--cluster-from", source.id, "--cluster-to", target.id, "--cluster-slots", SLOTS, "--cluster-yes")


def rebalance(nodes, slots):
    """With weights that give the first node `slots` more, or fewer, than half of the slots."""
    weights = [f"{node.id}={HALF + 1 + more}" for node, more in zip(nodes, (slots, -slots), strict=True)]
    manage("rebalance", nodes[0], "--cluster-weight", *weights, "--cluster-threshold", "0.01")


def served_by(nodes):
    """The node that serves the slots of the locks."""
    [found] = [node for node in nodes if all(node.port_of(slot) == node.server.port for slot in range(SLOTS))]
    return found


def test_slots_with_a_thousand_locks_in_use_move_back_and_forth(make_server):
    nodes = one, two = make_nodes(make_server, lock_default_lease=LONG)
    moves = [lambda: reshard(one, two), lambda: reshard(two, one)] * 4
    moves += [lambda: rebalance(nodes, -2 * SLOTS), lambda: rebalance(nodes, 0)]
    with Workers(one) as workers:
        for number, move in enumerate(moves):
            wait_whole(nodes)
            move()
            wait_for(lambda number=number: served_by(nodes) is nodes[(number + 1) % 2], 20, "the slots to have moved")
            workers.wait_progress()
        given = workers.register.tokens_given
    workers.all_run()
    found = workers.redirections()
    assert given > LOCKS // 8 and all(found[code] for code in ("MOVED", "ASK", "TRYAGAIN")), found
    for node in nodes:
        assert node.server.info("lock")["lock_waiters"] == 0
        left = {name for slot in range(SLOTS) for name in node.cluster("GETKEYSINSLOT", slot, 1000)}
        assert all(name.startswith("lock:token:") for name in left), left
