"""A pytest plugin that records the result of each test, and separately for each test file which code it runs.

MUTATION_RECORD is a file, to which a line of JSON is written for each event of a test. With MUTATION_GCOV, a folder, the
servers of each test file write the counts of a module built for gcov to a folder with that file's name.
"""

import json
import os
from pathlib import Path

import pytest


def file_of(test):
    """The name of a test's file, from the test's id: fair/test_keys."""
    return test.partition("::")[0].removesuffix(".py").removeprefix("integration/")


def folder_of(file):
    """The folder of its counts, whose name has no slash."""
    return file.replace("/", ".")


def file_in(folder):
    return folder.replace(".", "/")


def pytest_configure(config):
    # With xdist all reports arrive at the controller, so only the controller writes.
    if "MUTATION_RECORD" in os.environ and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Recorder(os.environ["MUTATION_RECORD"]))


class _Recorder:
    def __init__(self, path):
        self._file = open(path, "a", buffering=1, encoding="utf-8")

    def _write(self, **event):
        self._file.write(json.dumps(event) + "\n")

    def pytest_runtest_logstart(self, nodeid):
        self._write(test=nodeid, event="start")

    def pytest_runtest_logreport(self, report):
        self._write(test=report.nodeid, event=report.outcome, when=report.when, seconds=report.duration)

    def pytest_collectreport(self, report):
        if report.failed:
            self._write(test=report.nodeid, event="failed", when="collect", seconds=0)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if "MUTATION_GCOV" in os.environ:
        os.environ["GCOV_PREFIX"] = str(Path(os.environ["MUTATION_GCOV"]) / folder_of(file_of(item.nodeid)))


@pytest.fixture(scope="session", autouse=True)
def _servers_folder(request):
    # A run that is killed does not remove its folder: suite.py does, with the help of this file.
    if "MUTATION_RECORD" in os.environ:
        root = request.getfixturevalue("launch").root
        with open(os.environ["MUTATION_RECORD"] + ".folders", "a", encoding="utf-8") as file:
            file.write(f"{root}\n")
