"""Steps of schedules (harness/schedule.py) about the fair queue of the lock `k`.

A client `b` has the owner `ob` unless a test sets another one.
"""

from harness import wait_for
from harness.schedule import BLOCKS, DIES, run_schedule

from .fair_scene import detached, order, written_is_right

A_HOLDS = ("a", "LOCK.ACQUIRE k oa", 1)
A_RELEASES = ("a", "LOCK.RELEASE k oa", 0)


def waits(name, owner=None, block_ms=0):
    """It begins to wait, or takes over the position of its owner."""
    return (name, f"LOCK.FAIR k {owner or 'o' + name} BLOCK {block_ms}", BLOCKS)


def waits_plainly(name, owner=None):
    return (name, f"LOCK.ACQUIRE k {owner or 'o' + name} BLOCK 0", BLOCKS)


def releases(name, owner=None):
    return (name, f"LOCK.RELEASE k {owner or 'o' + name}", 0)


def gone(name, owner=None):
    """The steps that reset its connection and wait until only the position of its owner is left."""
    return (name, DIES), (lambda run: _is_detached(run, owner or "o" + name),)


def _is_detached(run, owner):
    wait_for(lambda: owner in detached(run.server), what=f"{owner} to be detached")


def queue_is(*owners):
    """Exactly these owners are in the queue, in this order."""
    return (lambda run: _queue_is(run, owners),)


def _queue_is(run, owners):
    assert order(run.server) == list(owners)


def time_passes(ms):
    return (lambda run: run.server.settle(ms),)


def play(server, schedule, protocol):
    """Runs the schedule; then the keys must agree with memory."""
    run_schedule(server, schedule, protocol)
    wait_for(lambda: written_is_right(server), what="the keys to agree with memory")
