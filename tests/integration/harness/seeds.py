"""The random seed of a run: for schedules, storms, and the moments at which processes are killed.

Each run has a new one, unless LOCK_SEED is set, with which a run can be repeated. `.ci/run` derives it from the name of
the commit, so that another run of the same commit draws the same random numbers.
"""

import os
import random

from .waiting import drawn

_seed = int(os.environ.get("LOCK_SEED") or random.randrange(2**32))
# The workers of pytest-xdist must collect the same tests: they inherit it.
os.environ["LOCK_SEED"] = str(_seed)


def seed_of_run(number=0):
    """The seed; `number` tells apart tests of the same kind. It is printed, so that the output of a failed test has
    it."""
    print(f"LOCK_SEED={_seed}")
    return _seed + number


def drawn_from(cases):
    """The parameters that this run draws: a quarter of the cases, or all with --thorough, where each can be selected by
    its name."""
    cases = list(cases)
    return random.Random(_seed).sample(cases, drawn(len(cases)))
