"""Modes, conflicts, and whether a request fits the holds. Rule numbers are those of docs/design.md."""

from dataclasses import dataclass

# Modes
READ, WRITE, EXCLUSIVE = "read", "write", "exclusive"

# Disciplines: a plain newcomer may barge in, an ordered one stands behind whom it conflicts with.
PLAIN, ORDERED = "plain", "ordered"

# Verdicts
FITS, WAITS, WAITS_FIRST, NEVER = "fits", "waits", "waits first", "never"


@dataclass(frozen=True)
class Request:
    """What somebody asks for; `client` is who, so that two requests of one owner differ."""

    owner: str
    client: str
    mode: str = EXCLUSIVE
    discipline: str = PLAIN


def conflict(mode, other):
    return not (mode == other == READ)


def decide(request, holds):
    """What becomes of a request for a lock that is held like this: {(owner, mode): count}. Rules 1, 2."""
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
    """Whether a newcomer has to stand behind one who waits already. Rule 3."""
    if request.discipline == PLAIN:
        return False
    return any(other.owner != request.owner and conflict(request.mode, other.mode) for other in queue)
