"""A plugin for each conftest.py: a test that failed while the machine or a server stalled is run again. See stall.py.

At its end a run reports how many tests would have been excused if they had failed: the number must be small, or faults
would be hidden.
"""

import types

import pytest

from . import limits
from .stall import TRIES, Excuse

_EXCUSED = "the machine stalled"


def register(config):
    """For pytest_configure."""
    config.pluginmanager.register(_Reruns())


def _functions_of(item):
    """The test and its fixtures, without those of pytest and its plugins, which are wrapped."""
    fixtures = (found[-1].func for found in item._fixtureinfo.name2fixturedefs.values())
    return [function for function in (item.function, *fixtures) if isinstance(function, types.FunctionType)]


class _Reruns:
    def __init__(self):
        self._excuse = Excuse()

    def pytest_collection_modifyitems(self, items):
        for item in items:
            item.add_marker(pytest.mark.flaky(reruns=TRIES - 1, condition=self._excuse))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        """Before all fixtures: the test begins, or is run again."""
        limits.begin(item.path, _functions_of(item))
        self._excuse.begin()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item, call):
        if call.when == "call" and self._excuse.applies():
            item.user_properties.append((_EXCUSED, True))

    def pytest_terminal_summary(self, terminalreporter):
        ran = [report for what in ("passed", "failed", "rerun") for report in terminalreporter.getreports(what)]
        ran = [report for report in ran if report.when == "call"]
        excused = sum((_EXCUSED, True) in map(tuple, report.user_properties) for report in ran)
        if excused:
            share = f"{excused} of {len(ran)} tests ({excused / len(ran):.1%})"
            terminalreporter.write_line(f"STALLED for longer than half of the shortest time limit: in {share}")
