"""--io-threads N, or IO_THREADS=N: all servers of a run have N I/O threads, including the main thread, and use them."""

import os

from .servers import Servers

# The options that make the threads read for few clients too, one each for Redis before 8, Valkey 8 and Valkey 9.
# Redis before 8 nevertheless waits until there is more to do; Redis 8 needs none of them.
ALWAYS = {"io-threads-do-reads": "yes", "events-per-io-thread": "0", "io-threads-always-active": "yes"}

# In INFO stats: how much the threads have read.
READS = "io_threaded_reads_processed"


def add_io_threads_option(group):
    how_many = "I/O threads of every server (default: $IO_THREADS, 1: the main thread only)"
    group.addoption("--io-threads", type=int, help=how_many)


def io_threads_wanted(option=None):
    return int(option or os.environ.get("IO_THREADS") or 1)


def io_threads_options(number, launch):
    """The server options for this many threads. A server that `launch` starts without them tells which ones it has."""
    if number == 1:
        return {}
    servers = Servers(launch)
    # By name: CONFIG GET * leaves some of them out.
    known = servers.make(load_module=False).control.config_get(*ALWAYS)
    problems = servers.end()
    assert not problems, problems
    return {"io-threads": number, **{name: value for name, value in ALWAYS.items() if name in known}}


def has_io_threads(launch):
    """Whether its servers have I/O threads besides the main thread."""
    return int(launch.options.get("io-threads", 1)) > 1
