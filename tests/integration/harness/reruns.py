"""For each conftest.py: a test that failed while the machine stood still is run again. standstill.py says why, and when."""

import pytest

from .standstill import TRIES, Excuse

_EXCUSE = pytest.StashKey()


def allow(config, items):
    """For pytest_collection_modifyitems: these tests may be run again."""
    excuse = config.stash[_EXCUSE] = Excuse()
    for item in items:
        item.add_marker(pytest.mark.flaky(reruns=TRIES - 1, condition=excuse))


def begin(item):
    """For pytest_runtest_setup, before all fixtures: its test begins, or is run again."""
    item.config.stash[_EXCUSE].begin()
