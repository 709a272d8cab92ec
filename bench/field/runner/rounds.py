"""Whose turn it is, and what a run that was ended lacks. Pure."""

from .lockers import offered

# How many places further each round begins.
STEP = 5


def turn(present, number):
    """All contestants, in the order of that round."""
    first = number * STEP % len(present)
    return present[first:] + present[:first]


def missing(row, turn, kind):
    """Those who have what the measure needs, and no figures in its row; a failure is one."""
    return [locker for locker in turn if locker.name not in row and not offered(locker, kind)]
