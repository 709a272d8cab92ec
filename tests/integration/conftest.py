"""Options, fixtures and failure reports. README.md in this folder is the cheat sheet."""

import os
import resource
import zlib
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase

from harness import Servers, failpoint, launching, valgrind
from harness.clock import Clock
from harness.iothreads import add_io_threads_option
from harness.reset import Baseline
from harness.share import add_covering_option, add_share_option, add_whole_option, keep_share, leave_out
from harness.suite import add_slowness_option, fail_for, make_server, pytest_runtest_makereport, set_limits

__all__ = ["make_server", "pytest_runtest_makereport"]

# Asserts of the code that the tests share are explained as those of the tests are.
pytest.register_assert_rewrite("model")

TOP = Path(__file__).resolve().parents[2]
BUILD = TOP / "build"

settings.register_profile(
    "lock",
    # A reply of a server may take any time.
    deadline=None,
    print_blob=True,
    database=DirectoryBasedExampleDatabase(BUILD / "hypothesis"),
)
settings.load_profile("lock")


def pytest_addoption(parser):
    group = parser.getgroup("servers")
    group.addoption("--server", help="the server program (default: $SERVER, redis-server, valkey-server)")
    group.addoption("--module", help="the module (default: $MODULE, lock.so at the top level)")
    group.addoption(
        "--old-module",
        default=os.environ.get("OLD_MODULE"),
        help="the module that server/test_upgrade.py replaces (default: $OLD_MODULE, or a copy of the module)",
    )
    add_slowness_option(group)
    group.addoption(
        "--thorough",
        action="store_true",
        default=os.environ.get("THOROUGH", "") not in ("", "0"),
        help="all random schedules, not one of four, and `some_resp` by both protocols (default: $THOROUGH)",
    )
    group.addoption("--valgrind", action="store_true", help="run every server under Valgrind")
    add_io_threads_option(group)
    group.addoption(
        "--load-minutes",
        type=float,
        default=os.environ.get("LOAD_MINUTES", 0),
        help="how long server/test_io_threads.py loads each server, at least (default: $LOAD_MINUTES, 0: seconds)",
    )
    add_share_option(group)
    add_covering_option(group)
    add_whole_option(group)
    group.addoption("--keep-files", action="store_true", help="keep the server folders of failed tests")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    _allow_many_sockets()
    fewer = valgrind.SLOWDOWN if config.getoption("--valgrind") else 1
    scale = config.getoption("--slowness") * fewer
    seconds = 120 + 60 * config.getoption("--load-minutes")
    set_limits(config, scale, seconds, fewer=fewer, thorough=config.getoption("--thorough"))


def _allow_many_sockets():
    # Tests with thousands of clients; servers inherit the limit.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def pytest_collection_modifyitems(config, items):
    if config.getoption("--valgrind"):
        # Measured times mean nothing under Valgrind.
        leave_out(config, items, lambda item: item.get_closest_marker("timing"))
    keep_share(config, items)


# What all servers have in common


@pytest.fixture(scope="session")
def launch(request):
    option = request.config.getoption
    with launching(
        "run",
        option("--server"),
        option("--module"),
        valgrind=option("--valgrind"),
        io_threads=option("--io-threads"),
        keeps=lambda: option("--keep-files") and request.session.testsfailed > 0,
    ) as run:
        yield run


# Servers


class _Shared:
    """The server that the tests of one file share. After a test that left it in a bad state, there is a new one."""

    def __init__(self, launch, new_server):
        self._servers, self._new_server = Servers(launch), new_server
        self._baseline = None

    def get(self):
        if self._baseline is None:
            self._baseline = Baseline(self._new_server(self._servers.make))
        return self._baseline.server

    def clean(self):
        try:
            self._baseline.restore()
        except Exception:
            self._baseline = None
            self._servers.end()
            raise

    def end(self):
        return self._servers.end()


@pytest.fixture(scope="module")
def new_server():
    """How `server` is made. A file whose tests share another kind of server overrides this fixture."""
    return lambda make: make()


@pytest.fixture(scope="module")
def _shared(launch, new_server):
    shared = _Shared(launch, new_server)
    yield shared
    fail_for(shared.end())


@pytest.fixture
def server(_shared):
    """A server in its initial state; the test may do anything with it except end it."""
    yield _shared.get()
    _shared.clean()


@pytest.fixture(params=[0, 5], ids=["db0", "db5"])
def db(request):
    """Runs the test twice, in two databases."""
    return request.param


@pytest.fixture
def no_active_expiry(server):
    """The server does not look for expired keys by itself: if nothing opens a key, only the module notices that it has
    expired."""
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    yield
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 1)


@pytest.fixture
def no_lease_ends(server):
    """For tests that make thousands of holds: on a slow machine that takes longer than a lease."""
    server.control.config_set("lock.default-lease", 3_600_000)


@pytest.fixture
def clock(tmp_path, monkeypatch):
    """The wall clock of the servers that the test makes: harness/clock.py."""
    return Clock(tmp_path, monkeypatch)


# The checking build


@pytest.fixture(scope="session")
def _has_failpoints(launch):
    servers = Servers(launch)
    found = failpoint.has_failpoints(servers.make())
    servers.end()
    return found


@pytest.fixture
def checking_build(_has_failpoints):
    """For tests that set failpoints: skipped with any other build."""
    if not _has_failpoints:
        pytest.skip("the module is not the checking build, which `make integration` tests")


# Clients


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def resp(request):
    """Runs the test twice, once with each protocol."""
    return request.param


def pytest_generate_tests(metafunc):
    used = {"resp", "some_resp"}.intersection(metafunc.fixturenames)
    if used == {"some_resp"} and metafunc.config.getoption("--thorough"):
        metafunc.parametrize("some_resp", [2, 3], ids=["resp2", "resp3"], indirect=True)


@pytest.fixture
def some_resp(request):
    """One of the protocols, for a test in each run the same: for behaviour that does not depend on the protocol.

    Tests of replies that differ in RESP3 use `resp`.
    """
    if "resp" in request.fixturenames:
        return request.getfixturevalue("resp")
    if request.config.getoption("--valgrind"):
        return 2
    return getattr(request, "param", None) or 2 + zlib.crc32(request.node.name.encode()) % 2


@pytest.fixture
def client(server, resp):
    """A redis.Redis on `server`; the test runs once with each protocol."""
    return server.client(resp)


@pytest.fixture
def some_client(server, some_resp):
    """A redis.Redis on `server`, with one of the protocols."""
    return server.client(some_resp)


@pytest.fixture
def actor(request, server):
    """A factory of actors on `server`: actor("a"); their protocol is `resp` or `some_resp` if the test uses these."""
    fixture = next((name for name in ("resp", "some_resp") if name in request.fixturenames), None)
    protocol = request.getfixturevalue(fixture) if fixture else 2
    return lambda name=None, **options: server.actor(name, options.pop("protocol", protocol), **options)


@pytest.fixture
def at_once(server):
    """at_once("DEL k", …): sends all commands in one packet."""

    def send(*commands):
        pipeline = server.client().pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command.split())
        return pipeline.execute()

    return send
