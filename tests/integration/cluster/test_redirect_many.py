"""A slot with many waiters moves to another node: all are redirected, in time slices, and the module looks up the
target once in each slice."""

import pytest

from harness import wait_for
from model.cluster_scene import HALF, LONG
from model.crowd import Crowd

MANY = 5000


def calls(node, command):
    return node.server.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"]


def give_away(slot, source, target):
    """A message on the bus: the first node learns that it no longer serves the slot, and deletes its keys."""
    target.cluster("SETSLOT", slot, "IMPORTING", source.id)
    target.cluster("SETSLOT", slot, "NODE", target.id)
    wait_for(lambda: source.port_of(slot) == target.server.port, 20, "the first node to learn of it")


WAYS = {"one lock": lambda number: "{k}", "many locks": lambda number: f"{{k}}{number}"}
WAITS = {"plain": "LOCK.ACQUIRE {} o{} BLOCK 0", "fair": "LOCK.FAIR {} o{} BLOCK 0"}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
@pytest.mark.parametrize("name_of", WAYS.values(), ids=WAYS)
def test_all_waiters_of_a_slot_are_redirected_when_it_moves(nodes, name_of, wait):
    one, two = nodes
    slot = one.cluster("KEYSLOT", "{k}")
    source, target = (one, two) if slot <= HALF else (two, one)
    pipeline = source.server.client().pipeline(transaction=False)
    for name in {name_of(number) for number in range(MANY)}:
        pipeline.execute_command("LOCK.ACQUIRE", name, "holder", "PX", LONG)
    assert set(pipeline.execute()) == {1}
    crowd = Crowd(source.server, *(wait.format(name_of(number), number) for number in range(MANY)))
    before = calls(source, "cluster|nodes")
    give_away(slot, source, target)
    moved = f"-MOVED {slot} 127.0.0.1:{target.server.port}\r\n".encode()
    assert set(crowd.replies()) == {moved}
    wait_for(lambda: source.server.info("lock")["lock_contended_locks"] == 0, 10, "the locks to be gone from memory")
    assert 1 <= calls(source, "cluster|nodes") - before < MANY / 10


def test_waiters_are_redirected_in_time_slices(nodes):
    """A command that is sent when the slot moves has its reply before all waiters are redirected."""
    one, two = nodes
    slot = one.cluster("KEYSLOT", "{k}")
    source, target = (one, two) if slot <= HALF else (two, one)
    assert source.actor.call("LOCK.ACQUIRE", "{k}", "holder", "PX", LONG) == 1
    crowd = Crowd(source.server, *(f"LOCK.ACQUIRE {{k}} o{number} BLOCK 0" for number in range(MANY)))
    before = calls(source, "cluster|nodes")
    give_away(slot, source, target)
    crowd.replies()
    assert calls(source, "cluster|nodes") - before > 1, "all in one slice"
