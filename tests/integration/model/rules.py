"""Modes, conflicts, and whether a request is compatible with the holds. Rule numbers are those of docs/design.md."""

from dataclasses import dataclass

# Modes
READ, WRITE, EXCLUSIVE = "read", "write", "exclusive"

# Disciplines: a plain request may barge in, an ordered one queues behind the waiters that it conflicts with.
PLAIN, ORDERED = "plain", "ordered"

# Verdicts
FITS, WAITS, WAITS_FIRST, NEVER = "fits", "waits", "waits first", "never"


@dataclass(frozen=True)
class Request:
    """A request; `client` sent it, so that two requests of one owner differ."""

    owner: str
    client: str
    mode: str = EXCLUSIVE
    discipline: str = PLAIN


def conflict(mode, other):
    return not (mode == other == READ)


def decide(request, holds):
    """The verdict on a request for a lock with these holds, {(owner, mode): count}. Rules 1, 2."""
    own = {mode for owner, mode in holds if owner == request.owner}
    if own and (request.mode == EXCLUSIVE) != (EXCLUSIVE in own):
        return NEVER  # a plain lock and a read-write lock on one key
    others = {mode for owner, mode in holds if owner != request.owner}
    if any(conflict(request.mode, mode) for mode in others):
        return WAITS_FIRST if own else WAITS
    return FITS


def owns(request, holds):
    return any(owner == request.owner for owner, _ in holds)


def is_behind(request, queue):
    """Whether a new request has to queue behind one that waits already. Rule 3."""
    if request.discipline == PLAIN:
        return False
    return any(other.owner != request.owner and conflict(request.mode, other.mode) for other in queue)
