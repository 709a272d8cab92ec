"""Servers with the module, from the harness of the integration tests."""

import os

import pytest

from harness import Servers, launching
from harness.waiting import set_scale


def pytest_configure():
    set_scale(os.environ.get("SLOWNESS", 1))


@pytest.fixture(scope="session")
def launch():
    with launching("python") as found:
        yield found


@pytest.fixture
def servers(launch):
    made = Servers(launch)
    yield made
    problems = made.end()
    assert not problems, problems


@pytest.fixture
def server(servers):
    return servers.make()
