"""Whose turn it is, and what a run that was ended lacks. Pure."""

from .lockers import offered

# How many places further each round begins.
STEP = 5


def turn(present, number):
    """All contestants, in the order of that round."""
    first = number * STEP % len(present)
    return present[first:] + present[:first]


def missing(rounds, number, turn, kind):
    """Those who have what the measure needs, and no figures of that round; a failure is one."""
    return [locker for locker in turn if len(rounds.get(locker.name, [])) <= number and not offered(locker, kind)]
