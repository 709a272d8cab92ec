"""A slot that many wait in goes to another node: all are sent on, in turns, and the node asks itself once a turn where to."""

import pytest

from harness import wait_for
from model.cluster_scene import HALF, LONG
from model.crowd import Crowd

MANY = 5000


def calls(node, command):
    return node.server.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"]


def give_away(slot, source, target):
    """By the bus: the first node hears that the slot is no longer its own, and drops its keys."""
    target.cluster("SETSLOT", slot, "IMPORTING", source.id)
    target.cluster("SETSLOT", slot, "NODE", target.id)
    wait_for(lambda: source.port_of(slot) == target.server.port, 20, "the first node to hear of it")


WAYS = {"one lock": lambda number: "{k}", "many locks": lambda number: f"{{k}}{number}"}
WAITS = {"plain": "LOCK.ACQUIRE {} o{} BLOCK 0", "fair": "LOCK.FAIR {} o{} BLOCK 0"}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
@pytest.mark.parametrize("name_of", WAYS.values(), ids=WAYS)
def test_all_who_wait_in_a_slot_are_sent_after_it(nodes, name_of, wait):
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
    assert set(crowd.answers()) == {moved}
    wait_for(lambda: source.server.info("lock")["lock_contended_locks"] == 0, 10, "the locks to be forgotten")
    assert 1 <= calls(source, "cluster|nodes") - before < MANY / 10


def test_waiters_are_sent_on_in_turns(nodes):
    """What is said at the moment at which the slot goes is answered before all of them are."""
    one, two = nodes
    slot = one.cluster("KEYSLOT", "{k}")
    source, target = (one, two) if slot <= HALF else (two, one)
    assert source.actor.call("LOCK.ACQUIRE", "{k}", "holder", "PX", LONG) == 1
    crowd = Crowd(source.server, *(f"LOCK.ACQUIRE {{k}} o{number} BLOCK 0" for number in range(MANY)))
    before = calls(source, "cluster|nodes")
    give_away(slot, source, target)
    crowd.answers()
    assert calls(source, "cluster|nodes") - before > 1, "all in one turn"
