"""Which locks clients believe to hold, by their own clocks, while servers fail; and whether two clients believe to hold
one lock at the same moment.

They follow the rules of docs/safety.md for clients: the lease counts from the moment at which the request was sent, and
each acquisition has an owner of its own.
"""

from dataclasses import dataclass

WHOLE = 1000  # the parts of a lock; a reader has 1 of them, a permit WHOLE divided by the limit


@dataclass
class Belief:
    """A client believes to hold a lock. All times are seconds of this machine's monotonic clock."""

    key: str
    owner: str
    part: int  # of WHOLE
    requested: float
    since: float  # when it received the reply
    until: float
    token: int = 0


def too_many(beliefs):
    """All beliefs that overlap: several clients believed to hold one lock at the same moment."""
    found = []
    for current in _by_key(beliefs):
        overlapping = []
        for belief in current:
            overlapping = [one for one in overlapping if one.until > belief.since and one.owner != belief.owner]
            if sum(other.part for other in overlapping) + belief.part > WHOLE:
                found.append([belief, *overlapping])
            overlapping.append(belief)
    return found


def tokens_that_did_not_grow(beliefs):
    """Pairs of one lock: the second was requested after the reply to the first, and its token is not larger."""
    return [
        (before, after)
        for fenced in _by_key([belief for belief in beliefs if belief.token])
        for at, after in enumerate(fenced)
        for before in fenced[:at]
        if before.since < after.requested and after.token <= before.token
    ]


def _by_key(beliefs):
    """For each lock its beliefs in the order in which they began, without those that had expired from the beginning."""
    found = {}
    for belief in sorted(beliefs, key=lambda one: one.since):
        if belief.until > belief.since:  # else the reply arrived too late
            found.setdefault(belief.key, []).append(belief)
    return found.values()
