"""The seed of all that a run draws: schedules, storms, moments at which something is killed.

A new one in each run, or LOCK_SEED, with which another run can be repeated. `.ci/run` takes it from the name of the
commit, so that whoever tries a commit once more draws what was drawn before.
"""

import os
import random

_seed = int(os.environ.get("LOCK_SEED") or random.randrange(2**32))


def seed_of_run(number=0):
    """The seed; of tests that are alike, that of this one. It is in the output of a test that fails."""
    print(f"LOCK_SEED={_seed}")
    return _seed + number
