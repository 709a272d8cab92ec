"""Servers with the module, from the harness of the integration tests."""

import asyncio
import os
import threading

import pytest
import redis
import redis.asyncio

from harness import Servers, launching
from harness.waiting import set_scale
from lock_so import Locks, aio


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


@pytest.fixture(params=["sync", "asyncio"])
def do(request):
    """Awaits what a method of asyncio returns."""
    if request.param == "sync":
        found = lambda result: result  # noqa: E731
        found.is_asyncio = False
        found.locks = lambda server, **settings: Locks(redis.Redis(port=server.port), **settings)
        yield found
        return
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    found = lambda work: asyncio.run_coroutine_threadsafe(work, loop).result(60)  # noqa: E731
    found.loop, found.is_asyncio = loop, True
    found.locks = lambda server, **settings: aio.Locks(redis.asyncio.Redis(port=server.port), **settings)
    yield found
    loop.call_soon_threadsafe(loop.stop)
    thread.join(60)
    loop.close()
