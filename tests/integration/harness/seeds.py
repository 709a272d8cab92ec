"""The seed of all that a run draws: schedules, storms, moments at which something is killed.

A new one in each run, or LOCK_SEED, with which another run can be repeated. `.ci/run` takes it from the name of the
commit, so that whoever tries a commit once more draws what was drawn before.
"""

import os
import random

from .waiting import drawn

_seed = int(os.environ.get("LOCK_SEED") or random.randrange(2**32))
# The workers of pytest-xdist must collect the same tests: they inherit it.
os.environ["LOCK_SEED"] = str(_seed)


def seed_of_run(number=0):
    """The seed; of tests that are alike, that of this one. It is in the output of a test that fails."""
    print(f"LOCK_SEED={_seed}")
    return _seed + number


def drawn_from(cases):
    """The parameters that this run draws: a quarter of the cases, all with --thorough, which finds each by its name."""
    cases = list(cases)
    return random.Random(_seed).sample(cases, drawn(len(cases)))
