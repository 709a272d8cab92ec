"""LOCK.TOP in a cluster: each node counts the locks of its own slots."""

from harness import wait_for
from model.cluster_scene import HALF, Scene, begin_move, is_redirection
from model.moving_scene import finish_move


def top(node):
    return {found["lock"]: found for found in node.server.client(protocol=3).execute_command("LOCK.TOP")}


def test_each_node_shows_its_own_locks(nodes, key):
    (one, two), (name, _) = nodes, key
    other = next(other for other in map(str, range(1000)) if one.cluster("KEYSLOT", other) > HALF)
    Scene(one, name)
    Scene(two, other)
    assert (list(top(one)), list(top(two))) == ([name], [other])


def test_waiters_of_a_slot_that_moves_are_no_longer_counted_here(nodes, key):
    (one, two), (name, slot) = nodes, key
    scene = Scene(one, name)
    assert top(one)[name]["waiters"] == 2
    begin_move(slot, one, two)
    finish_move(slot, one, two)
    for waiter in (scene.b, scene.c):
        assert is_redirection(waiter.outcome(timeout=10))
    wait_for(lambda: top(one)[name]["waiters"] == 0, what="the waits to end")
    before = top(one)[name]
    assert (before["waits"], before["usec_per_hold"]) == (2, None)
    assert top(two) == {}
    again = two.server.actor()
    again.send("LOCK.ACQUIRE", name, "ob", "BLOCK", 0)
    again.wait_blocked()
    assert (top(two)[name]["waits"], top(two)[name]["waiters"]) == (1, 1)
    assert top(one)[name] == before
