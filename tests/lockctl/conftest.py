"""Options, servers, and lockctl as processes that leave nothing behind."""

import os
import tempfile
from pathlib import Path

import pytest

import runs
from harness import Server, Servers, launching, reruns
from harness.waiting import set_scale
from wire import Wire
from witness import Witness

# How much longer everything may take with lockctl under Valgrind.
VALGRIND_SLOWDOWN = 3


def pytest_addoption(parser):
    group = parser.getgroup("lockctl")
    group.addoption("--valgrind", action="store_true", help="run every lockctl under Valgrind, but no server")
    group.addoption(
        "--slowness", type=float, default=os.environ.get("SLOWNESS", 1), help="so many times longer everything may take"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    scale = config.getoption("--slowness") * (VALGRIND_SLOWDOWN if config.getoption("--valgrind") else 1)
    set_scale(scale)
    if config.getoption("timeout", None) is None:
        config.option.timeout = 120 * scale


def pytest_collection_modifyitems(config, items):
    if config.getoption("--valgrind"):
        others = [item for item in items if item.get_closest_marker("as_it_is")]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]
    reruns.allow(config, items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    reruns.begin(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        for server in Server.live:
            report.sections.append((f"log of {server}", server.log()[-1000:]))
        for run in runs.Run.live:
            report.sections.append((f"what {run} said", run.stdout[-2000:] + run.stderr[-2000:]))
    return report


# Servers


@pytest.fixture(scope="session")
def launch():
    with launching("lockctl", others=[(runs.PROGRAM, "make lockctl")]) as run:
        yield run


@pytest.fixture
def make_server(launch):
    """make_server(appendonly="yes"): servers of the test's own, as in the integration tests."""
    servers = Servers(launch)
    yield servers.make
    problems = servers.end()
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


@pytest.fixture
def server(make_server):
    return make_server()


@pytest.fixture
def wire(server):
    """Between a lockctl and `server`, a wire.Wire."""
    with Wire(server.port) as wire:
        yield wire


# lockctl


@pytest.fixture
def run(request, launch):
    """run(server, "--wait", 0, "key", "command"): `lockctl run`, a runs.Run. All end with the test."""
    folder = Path(tempfile.mkdtemp(dir=launch.root, prefix="run-"))
    started = runs.Runs(folder, request.config.getoption("--valgrind"))
    yield started.start
    problems = started.end()
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


@pytest.fixture
def witness(launch):
    """witness("beat"): a command that tells what happens to it, a witness.Witness."""
    folder = Path(tempfile.mkdtemp(dir=launch.root, prefix="witness-"))
    made = []

    def make(*options, **numbers):
        made.append(Witness(folder / str(len(made)), *options, **numbers))
        return made[-1]

    return make
