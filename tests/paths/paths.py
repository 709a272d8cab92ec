"""Shows how much of the module's code the common paths run through: functions, files, changes of file, depth of calls.

A path with many files is a path that a reader has to follow through many files. Run it by `make paths`; with
`VERBOSE=1` it also prints each call. The module is compiled with record.c.
"""

import mmap
import os
import re
import struct
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.launch import launching
from harness.servers import Servers

MODULE_SOURCES = Path(__file__).resolve().parents[2] / "module"
MODULE = Path(os.environ["MODULE"]).resolve()
HEADER = struct.Struct("QQ")
HEAD = "| path | calls | functions | files | changes of file | depth |"


class Symbols:
    """The name and the file of each function of the module, by its address relative to `recordBase`."""

    def __init__(self, library):
        lines = subprocess.run(["nm", "--defined-only", library], capture_output=True, text=True, check=True).stdout
        by_address = {}
        for address, kind, name in map(str.split, lines.splitlines()):
            if kind in "tT":
                by_address[int(address, 16)] = name
        base = next(address for address, name in by_address.items() if name == "recordBase")
        where = subprocess.run(
            ["addr2line", "-e", library, *map(hex, by_address)], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        headers = "".join(path.read_text() for path in MODULE_SOURCES.glob("*/*.h"))
        self._inline = set(re.findall(r"^static inline .*?\b(\w+)\(", headers, re.M))
        self._by_offset = {
            address - base: (name, place.rsplit(":", 1)[0].rpartition("/module/")[2])
            for (address, name), place in zip(by_address.items(), where, strict=True)
        }

    def of(self, offset):
        return self._by_offset[offset]

    def is_inline(self, function):
        """Whether a header defines it, so that it is compiled into the functions that use it."""
        return function in self._inline


class Recorder:
    """Reads the events that the server's module has recorded."""

    def __init__(self, path, symbols):
        self._symbols = symbols
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)

    def count(self):
        return HEADER.unpack_from(self._memory)[0]

    def count_at_rest(self):
        """The count when the module has nothing left to do: its timers run within 10 ms."""
        seen = -1
        while seen != self.count():
            seen = self.count()
            time.sleep(0.03)
        return seen

    def calls(self, since, until):
        """(depth, function, file) of each call, except of inline functions and what the server calls at intervals."""
        running, found = [], []  # running: whether each function that has not returned yet is shown
        for number in range(since, until):
            (event,) = struct.unpack_from("q", self._memory, HEADER.size + 8 * number)
            if event % 2:
                running.pop()
                continue
            function, file = self._symbols.of(event // 2)
            if not running:
                periodic = function == "onCron"
            running.append(not periodic and not self._symbols.is_inline(function))
            if running[-1]:
                found.append((sum(running), function, file))
        return found


# Each path gets a warm server on which `k` is free, and returns what makes the path run.


def acquire(server):
    client = server.actor()
    client.call("LOCK.ACQUIRE", "k", "o")
    client.call("LOCK.RELEASE", "k", "o")
    return lambda: client.call("LOCK.ACQUIRE", "k", "o")


def release(server):
    client = server.actor()
    client.call("LOCK.ACQUIRE", "k", "o")
    return lambda: client.call("LOCK.RELEASE", "k", "o")


def _waiter(server):
    waiter = server.actor()
    waiter.send("LOCK.ACQUIRE", "k", "next", "BLOCK", 0)
    waiter.wait_blocked()
    server.all_searched()
    server.settle(20)
    return waiter


def hand_off(server):
    client = server.actor()
    client.call("LOCK.ACQUIRE", "k", "o")
    waiter = _waiter(server)

    def run():
        client.call("LOCK.RELEASE", "k", "o")
        assert waiter.reply() == 1

    return run


def lease_end(server):
    client = server.actor()
    client.call("LOCK.ACQUIRE", "k", "o", "PX", 300)
    waiter = _waiter(server)

    def run():
        assert waiter.reply() == 1

    return run


PATHS = {
    "`LOCK.ACQUIRE`, uncontended": acquire,
    "`LOCK.RELEASE`, no client waits": release,
    "`LOCK.RELEASE` that hands off": hand_off,
    "a lease ends, a client waits": lease_end,
}


def measure(server, recorder, path):
    for _ in range(3):  # the first ones subscribe to events, and allocate
        run = path(server)
        before = recorder.count()
        run()
        after = recorder.count_at_rest()
        server.control.execute_command("LOCK.FORCE", "k")
    return recorder.calls(before, after)


def main():
    symbols = Symbols(MODULE)
    with TemporaryDirectory() as folder:
        record = Path(folder) / "record"
        os.environ["LOCK_PATHS"] = str(record)
        with launching("paths", os.environ.get("SERVER"), str(MODULE)) as launch:
            servers = Servers(launch)
            # A short time for which positions of a fair queue are reserved: a server that has just started looks for them.
            server = servers.make(lock_fair_reserve=1)
            server.settle(20)
            recorder = Recorder(record, symbols)
            print(HEAD)
            print("|---" * (HEAD.count("|") - 1) + "|")
            for name, path in PATHS.items():
                calls = measure(server, recorder, path)
                files = [file for _, _, file in calls]
                changes = sum(one != other for one, other in pairwise(files))
                figures = (
                    len(calls),
                    len({call[1:] for call in calls}),
                    len(set(files)),
                    changes,
                    max(depth for depth, *_ in calls),
                )
                print(f"| {name} | {' | '.join(map(str, figures))} |")
                if os.environ.get("VERBOSE"):
                    for depth, function, file in calls:
                        print(f"{'  ' * depth}{function}  {file}")
            problems = servers.end()
            if problems:
                sys.exit("\n".join(problems))


main()
