"""The programs of docs/recipes.md, next to other clients."""

import os
import re
import signal
from pathlib import Path

from harness import scaled, wait_for
from harness.examples import programs_of
from harness.schedule import as_map

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "recipes.md").read_text()


def source_of(title, language, number=0, changes=()):
    """A program of the page, without its cleaning up, and with the changes for the test. The language `package` is
    Python with the client package."""
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    source = [source for name, source in map(with_language, programs_of(section)) if name == language][number]
    source = re.sub(r".*# tidy up\n", "", source)
    for old, new in changes:
        assert source.count(old) >= 1, f"{old!r} is not in the program"
        source = source.replace(old, new)
    return source


def with_language(program):
    name, source = program
    return ("package" if "import Locks" in source else name), source


def kill(program):
    """Kills it and all processes that it has started."""
    try:
        os.killpg(program.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    program.communicate()


def output_of(program):
    """Its output, when it and all processes that it has started have ended."""
    said, complaints = program.communicate(timeout=scaled(60))
    assert complaints == ""
    return said


def wait_waiting(server, count, what="lock_waiters"):
    wait_for(lambda: server.info("lock")[what] == count, scaled(20), f"{count} to wait")


def holder_of(server, key):
    info = as_map(server.control.execute_command("LOCK.INFO", key) or {})
    return [as_map(holder)["owner"] for holder in info.get("holders", [])]
