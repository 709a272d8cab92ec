"""What all suites of tests with servers share: a conftest.py imports these hooks and fixtures, or calls them."""

import os

import pytest

from . import reruns
from .server import Server
from .servers import Servers
from .waiting import set_scale


def add_slowness_option(group):
    group.addoption(
        "--slowness",
        type=float,
        default=os.environ.get("SLOWNESS", 1),
        help="how many times longer everything may take (default: $SLOWNESS, 1)",
    )


def set_limits(config, scale, seconds=120, **options):
    """`seconds`: how long a test may take, at a scale of 1. `options`: those of set_scale()."""
    set_scale(scale, **options)
    reruns.register(config)
    if config.getoption("timeout", None) is None:
        config.option.timeout = seconds * scale


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    add_server_logs(report)
    return report


def add_server_logs(report):
    """Adds the logs of all running servers to the report of a failure."""
    if report.failed:
        for server in filter(lambda server: server.in_use, Server.live):
            report.sections.append((f"log of {server}", _part_to_show(server.log())))


def _part_to_show(log):
    """The end of the log; or the checking build's message on the first broken invariant, which a long crash report
    follows."""
    broken = log.find("broken invariant")
    return log[-3000:] if broken < 0 else log[broken : broken + 3000]


@pytest.fixture
def make_server(launch):
    """A factory of servers of the test's own: make_server(appendonly="yes", lock_default_lease=500)."""
    servers = Servers(launch)
    yield servers.make
    fail_for(servers.end())


def fail_for(problems):
    """Fails the test if there are any problems, a list of strings."""
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)
