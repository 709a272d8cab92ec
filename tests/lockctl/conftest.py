"""Options, servers, and lockctl processes that leave nothing behind."""

import tempfile
from pathlib import Path

import pytest

import runs
from harness import launching
from harness.proxy import CommandProxy
from harness.share import leave_out
from harness.suite import add_server_logs, add_slowness_option, fail_for, make_server, set_limits
from witness import Witness

__all__ = ["make_server"]

# The factor for all time limits with lockctl under Valgrind.
VALGRIND_SLOWDOWN = 3


def pytest_addoption(parser):
    group = parser.getgroup("lockctl")
    group.addoption("--valgrind", action="store_true", help="run every lockctl under Valgrind, but no server")
    add_slowness_option(group)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    scale = config.getoption("--slowness") * (VALGRIND_SLOWDOWN if config.getoption("--valgrind") else 1)
    set_limits(config, scale)


def pytest_collection_modifyitems(config, items):
    if config.getoption("--valgrind"):
        leave_out(config, items, lambda item: item.get_closest_marker("as_it_is"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    add_server_logs(report)
    if report.failed:
        for run in runs.Run.live:
            report.sections.append((f"what {run} said", run.stdout[-2000:] + run.stderr[-2000:]))
    return report


# Servers


@pytest.fixture(scope="session")
def launch():
    with launching("lockctl", others=[(runs.PROGRAM, "make lockctl")]) as run:
        yield run


@pytest.fixture
def server(make_server):
    return make_server()


@pytest.fixture
def wire(server):
    """A proxy between a lockctl and `server`."""
    with CommandProxy(server.port) as wire:
        yield wire


# lockctl


@pytest.fixture
def run(request, launch):
    """run(server, "--wait", 0, "key", "command") starts `lockctl run` and returns a runs.Run. All end with the test."""
    folder = Path(tempfile.mkdtemp(dir=launch.root, prefix="run-"))
    started = runs.Runs(folder, request.config.getoption("--valgrind"))
    yield started.start
    fail_for(started.end())


@pytest.fixture
def witness(launch):
    """witness("beat") returns a witness.Witness: a command that records what happens to it."""
    folder = Path(tempfile.mkdtemp(dir=launch.root, prefix="witness-"))
    made = []

    def make(*options, **numbers):
        made.append(Witness(folder / str(len(made)), *options, **numbers))
        return made[-1]

    return make
