"""Servers with I/O threads under the load of many connections. `--load-minutes 10` loads each for 10 minutes."""

import pytest

from harness import wait_for
from harness.iothreads import READS, io_threads_options
from model.pipelines import Pipeline, run_pipelines

pytestmark = pytest.mark.newest
THREADS = 3
CONNECTIONS = 40
COMMANDS = 40_000

# Multi-key commands, and others between them. `k` is the key of the client, `o` its owner.
MULTIKEY = (
    "LOCK.MACQUIRE 2 {{h}}a {k} {o} PX 50",
    "LOCK.ACQUIRE {k} {o} PX 50",
    "LOCK.GUARD {k} {o} HLEN {k}",
    "LOCK.GUARD {k} {o} SET x{{h}} {o}",
    "GET x{{h}}",
    "SET x{{h}} {o}",
    "LOCK.MRELEASE 2 {{h}}a {k} {o}",
    "LOCK.MACQUIRE 2 {{h}}r {k}w {o} MODES READ WRITE PX 50",
    "LOCK.MRENEW 2 {{h}}r {k}w {o} PX 60",
    "LOCK.MRELEASE 2 {{h}}r {k}w {o} MODES READ WRITE",
)
EVERY_COMMAND = (
    "LOCK.ACQUIRE {k} {o} PX 50",
    "LOCK.RENEW {k} {o} PX 60",
    "LOCK.WATCH {k} {o}",
    "LOCK.INFO {k}",
    "LOCK.RELEASE {k} {o}",
    "LOCK.FAIR {k}f {o} PX 50",
    "LOCK.RWREAD {k}rw {o} PX 50",
    "LOCK.RWWRITE {k}rw {o} PX 50",
    "LOCK.SEMAPHORE {k}s {o} 2 PX 50",
    "LOCK.CANCEL {k} {o}",
    "LOCK.FORCE {k}f",
    "LOCK.TOP",
    "LATCH.SET {k}l 2",
    "LATCH.DOWN {k}l",
    "LATCH.WAIT {k}l",
    "DELAY.PUSH {k}d {o} 1 value",
    "DELAY.LIST {k}d",
    "DELAY.CANCEL {k}d {o}",
    "LTRIM {k}d 0 9",
    "LOCK.ACQUIRE {k} {o} PX 50 BLOCK 1",
    *MULTIKEY,
)
# Another owner has the lock, or the lease has expired.
ALLOWED = {"NOTHELD"}


@pytest.fixture(scope="module")
def io_threads(launch):
    return io_threads_options(THREADS, launch)


@pytest.fixture(params=[False, True], ids=["standalone", "cluster"])
def threaded(request, make_server, io_threads):
    """A server with I/O threads; or the only node of a cluster."""
    if not request.param:
        return make_server(appendonly="yes", **io_threads)
    server = make_server(appendonly="yes", cluster_enabled="yes", **io_threads)
    server.control.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    wait_for(lambda: server.control.cluster("INFO")["cluster_state"] == "ok", 20, "the node to serve its slots")
    return server


def test_threads_read_even_for_a_single_client(make_server, io_threads):
    server = make_server(**io_threads)
    assert server.control.config_get(*io_threads) == {**io_threads, "io-threads": str(THREADS)}
    for _ in range(10):
        assert server.client().ping()
    if server.is_valkey or server.version >= (8,):  # Redis 7 does not use its threads until it is busy
        assert server.info("stats")[READS] > 0


def test_load_sends_every_command_of_the_module(server):
    commands = server.actor().call("COMMAND", "LIST", "FILTERBY", "MODULE", "lock")
    assert {name.upper() for name in commands} <= {line.split()[0] for line in EVERY_COMMAND}


def _pipelines(server, commands):
    def one(number):
        lines = [line.format(k=f"{{h}}{number % 5}", o=f"o{number}") for line in commands]
        modes = ("HELLO 3", "CLIENT TRACKING ON BCAST" if number % 2 else "CLIENT TRACKING ON")
        return Pipeline(server.port, lines, modes if number % 3 == 0 else ())

    return [one(number) for number in range(CONNECTIONS)]


@pytest.mark.parametrize(
    "commands, number", [(MULTIKEY, COMMANDS), (EVERY_COMMAND, COMMANDS // 2)], ids=["multikey", "every-command"]
)
def test_server_with_io_threads_survives_pipelines(threaded, commands, number, request):
    pipelines = _pipelines(threaded, commands)
    try:
        errors = run_pipelines(pipelines, number, request.config.getoption("--load-minutes"))
    finally:
        for pipeline in pipelines:
            pipeline.close()
    assert threaded.control.ping()
    assert set(errors) <= ALLOWED, errors
    assert threaded.info("stats")[READS] > 0
