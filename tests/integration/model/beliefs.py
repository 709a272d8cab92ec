"""What clients count on, by their own clocks, while servers fail; and whether two count on one lock at the same moment.

As docs/safety.md asks of a client: the lease counts from the question, and an owner is one acquisition.
"""

from dataclasses import dataclass

WHOLE = 1000  # of a lock; a reader has 1 of it, a permit as much as lets so many in


@dataclass
class Belief:
    """A client counts on a lock. All times are seconds of this machine's monotonic clock."""

    key: str
    owner: str
    part: int  # of WHOLE
    asked: float
    since: float  # when it was told
    until: float
    token: int = 0


def too_many(beliefs):
    """All who counted on a lock that others counted on in the same moment."""
    found = []
    for current in _by_key(beliefs):
        beside = []
        for belief in current:
            beside = [other for other in beside if other.until > belief.since and other.owner != belief.owner]
            if sum(other.part for other in beside) + belief.part > WHOLE:
                found.append([belief, *beside])
            beside.append(belief)
    return found


def tokens_that_did_not_grow(beliefs):
    """Pairs, of one lock: the second was asked for when the first had been told."""
    return [
        (before, after)
        for fenced in _by_key([belief for belief in beliefs if belief.token])
        for at, after in enumerate(fenced)
        for before in fenced[:at]
        if before.since < after.asked and after.token <= before.token
    ]


def _by_key(beliefs):
    """Of each lock those that could be counted on at all, in the order in which they began."""
    found = {}
    for belief in sorted(beliefs, key=lambda one: one.since):
        if belief.until > belief.since:  # else the answer came too late
            found.setdefault(belief.key, []).append(belief)
    return found.values()
