"""The naive detector of cycles: who waits for whom, asked anew each time. docs/design.md, "Cycles".

A lock here is anything with `holds`, whose keys are (owner, mode), and `queue`, requests with an owner and a
mode, the head first.
"""

from .rules import conflict


def in_the_way(owner, modes, lock, stands_at):
    """Whom an owner waits for that asks for these modes and stands there: {owner: "held by" or "behind"}."""
    ahead = {one.owner for one in lock.queue[:stands_at] if any(conflict(mode, one.mode) for mode in modes)}
    holders = {other for other, held in lock.holds if any(conflict(mode, held) for mode in modes)}
    found = {**dict.fromkeys(ahead, "behind"), **dict.fromkeys(holders, "held by")}
    found.pop(owner, None)
    return found


def waits_for(owner, lock):
    """The same for one that stands there already. Of several positions the first counts: the others are re-entries."""
    own = [at for at, one in enumerate(lock.queue) if one.owner == owner]
    return in_the_way(owner, [lock.queue[at].mode for at in own], lock, own[0]) if own else {}


def closes_a_cycle(request, aims, locks):
    """Whether this request, which stands nowhere yet, would wait for itself.

    `aims` are (lock, at the head) of the locks in whose queues it is going to stand. If that is ahead of somebody, what
    the owner waits for already counts too: there may be a cycle that something else than a wait has closed.
    """
    found = set()
    for lock, first in aims:
        own = [at for at, one in enumerate(lock.queue) if one.owner == request.owner]
        stands_at = 0 if first else own[0] if own else len(lock.queue)
        found |= set(in_the_way(request.owner, [request.mode], lock, stands_at))
        if first or own:
            found |= {other for waited in locks for other in waits_for(request.owner, waited)}
    reached = set()
    while found:
        owner = found.pop()
        reached.add(owner)
        for lock in locks:
            found |= set(waits_for(owner, lock)) - reached
    return request.owner in reached
