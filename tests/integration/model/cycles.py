"""The naive detection of cycles: each time it finds out again who waits for whom. docs/design/cycles.md.

A lock here is any object with `holds`, whose keys are (owner, mode), and `queue`, a list of requests with an owner and
a mode, head first.
"""

from .rules import conflict


def obstacles(owner, modes, lock, index):
    """Whom an owner waits for that requests these modes at this index in the queue: {owner: "held by" or "behind"}."""
    ahead = {one.owner for one in lock.queue[:index] if any(conflict(mode, one.mode) for mode in modes)}
    holders = {other for other, held in lock.holds if any(conflict(mode, held) for mode in modes)}
    found = {**dict.fromkeys(ahead, "behind"), **dict.fromkeys(holders, "held by")}
    found.pop(owner, None)
    return found


def waits_for(owner, lock):
    """The same for an owner that is in the queue. Of several positions the first counts: the others are re-entries."""
    own = [at for at, one in enumerate(lock.queue) if one.owner == owner]
    return obstacles(owner, [lock.queue[at].mode for at in own], lock, own[0]) if own else {}


def closes_a_cycle(request, aims, locks):
    """Whether this request, which is in no queue yet, would wait for itself.

    `aims` are (lock, at the head) of the locks whose queues it would join. If that is ahead of another waiter, the
    owner's existing waits count too: there may be a cycle that was not closed by a wait.
    """
    found = set()
    for lock, first in aims:
        own = [at for at, one in enumerate(lock.queue) if one.owner == request.owner]
        index = 0 if first else own[0] if own else len(lock.queue)
        found |= set(obstacles(request.owner, [request.mode], lock, index))
        if first or own:
            found |= {other for waited in locks for other in waits_for(request.owner, waited)}
    reached = set()
    while found:
        owner = found.pop()
        reached.add(owner)
        for lock in locks:
            found |= set(waits_for(owner, lock)) - reached
    return request.owner in reached
