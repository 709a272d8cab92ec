"""The order of the competitors in a round, and what an interrupted run has not measured. Pure."""

from .lockers import offered

# By how many places the first competitor moves from round to round.
STEP = 5


def turn(present, number):
    """All competitors, in the order of that round."""
    first = number * STEP % len(present)
    return present[first:] + present[:first]


def missing(rounds, number, turn, kind):
    """The competitors that offer what the measure needs and have no figures for that round; a failure counts as figures."""
    return [locker for locker in turn if len(rounds.get(locker.name, [])) <= number and not offered(locker, kind)]
