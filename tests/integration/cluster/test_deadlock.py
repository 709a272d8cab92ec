"""In a cluster a wait that closes a cycle is refused as on a single server, whatever the slots of its keys.

The schedules are those of model/cycle_schedules.py and model/newcomer_schedules.py. The keys k, l, m
and n are in four slots.
"""

import pytest

from harness import scaled_ms, wait_for
from harness.schedule import granted, run_schedule, schedules
from model.cluster_scene import Node
from model.cycle_schedules import CYCLES
from model.deadlock_scene import counters, holds, releases, deadlock, waits
from model.newcomer_schedules import HERE, NO_CYCLE, SAME_ITERATION, receives, together
from model.philosophers import Greedy, dinner


def one_node(make_server):
    """A cluster of one node."""
    node = Node(make_server(cluster_enabled="yes", lock_fair_reserve=60_000))
    node.cluster("ADDSLOTSRANGE", 0, 16383)
    wait_for(node.is_up, 20, "the cluster to be whole")
    return node.server


@pytest.fixture(scope="module")
def new_server():
    return one_node


def fits_a_cluster(steps):
    """Whether it uses one database, and no multi-key command with keys of several slots."""
    text = repr(steps)
    return "SELECT" not in text and ("LOCK.MACQUIRE" not in text or "{p}" in text)


OVER_SEVERAL_SLOTS = {name: steps for name, steps in (CYCLES | HERE).items() if fits_a_cluster(steps)}


@schedules(**OVER_SEVERAL_SLOTS)
def test_cycle_over_several_slots(server, schedule):
    cut = counters(server)[1]
    run_schedule(server, schedule)
    assert counters(server)[1] == cut


@schedules(**SAME_ITERATION)
def test_last_of_the_waits_that_begin_in_one_iteration_is_refused(server, schedule):
    before = counters(server)[0]
    run_schedule(server, schedule)
    assert counters(server)[0] == before + 1


@schedules(**NO_CYCLE)
def test_no_cycle_when_a_wait_has_ended_before_the_search(server, schedule):
    before = counters(server)[0]
    run_schedule(server, schedule)
    assert counters(server)[0] == before


@pytest.mark.timing
def test_no_client_waits_for_the_check_of_slots(server):
    """Once a second all locks of a cluster are checked, which would also refuse b, and then grant c."""
    rounds, began = 8, server.now_ms()
    for _ in range(rounds):
        steps = [holds("x", "k", "RWREAD"), holds("b", "l"), waits("x2", "l")]
        steps += [together(("b", "LOCK.RWWRITE k b BLOCK 0"), ("c", "LOCK.RWREAD k c BLOCK 0"))]
        steps += [receives("b", deadlock("b waits for k held by x, x waits for l held by b")), receives("c", 1)]
        steps += [releases("b", "l"), ("x2", granted(1)), releases("x", "l"), releases("x", "k"), releases("c", "k")]
        run_schedule(server, steps)
    assert server.now_ms() - began < scaled_ms(1000 * rounds // 2)


class GreedyInACluster(Greedy):
    def release(self):
        for fork in (self.right, self.left):
            assert self.call("LOCK.RELEASE", fork, self.owner) == 0


def test_philosophers_eat_in_a_cluster(server):
    assert dinner(server, GreedyInACluster, 7, 100) >= 1


# ---- names whose side keys would be of another slot ----


def test_side_keys_of_another_slot_are_not_opened(server):
    """Side keys for a fair queue or leases of such a name would be read, or written, in the wrong slot."""
    name, control = "a}b", server.control
    assert control.execute_command("LOCK.ACQUIRE", name, "o") == 1  # just started: reads the keys of a fair queue
    assert control.execute_command("LOCK.CANCEL", name, "p") == 0
    assert control.execute_command("LOCK.INFO", name)
    assert control.execute_command("LOCK.RELEASE", name, "o") == 0
    control.hset(name, mapping={"mode": "read", "o": 1})  # a read-write lock, written directly
    assert control.execute_command("LOCK.RENEW", name, "o", "PX", 60_000) == 1
    assert control.dbsize() == 1
    assert control.execute_command("LOCK.RELEASE", name, "o") == 0
    assert control.dbsize() == 0
