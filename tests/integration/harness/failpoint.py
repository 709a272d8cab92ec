"""Failpoints of the checking build: a test makes the server die, stop, or have a call fail at a named point.

module/common/failpoint.h describes them, CONTRIBUTING.md how to add one.
"""

import os
import re
import signal
from contextlib import contextmanager
from pathlib import Path

from .waiting import wait_for

CONFIG = "lock.failpoint"
MODULE = Path(__file__).resolve().parents[3] / "module"
TABLE = MODULE / "common" / "failpoint.c"


def has_failpoints(server):
    """Whether the module is the checking build."""
    return CONFIG in server.control.config_get(CONFIG)


def points():
    """The names of all points, from the module's own table."""
    found = re.findall(r'^ +\[FAILPOINT_\w+\] = "(\S+)",$', TABLE.read_text(), re.M)
    assert found, "the table in failpoint.c has another form"
    return set(found)


def points_that_fail():
    """The points that can fail: those whose return value the module uses."""
    calls = ["FAILPOINT_OPEN"]  # called by a function of its own, which counts keys
    for file in MODULE.glob("*/*.c"):
        calls += re.findall(r"\b(?:if \(|return )failpoint\((\w+)\)", file.read_text())
    names = dict(re.findall(r'\[(FAILPOINT_\w+)\] = "(\S+)"', TABLE.read_text()))
    return {names[call] for call in calls}


def arm(server, point, action, count=1):
    """Sets a failpoint: `action` happens the `count`th time that the server reaches this point."""
    server.control.config_set(CONFIG, f"{point} {action} {count}")


def armed(server):
    """The failpoint that is set and has not been reached yet; or an empty string."""
    return server.control.config_get(CONFIG)[CONFIG]


@contextmanager
def key_in_use(server, count):
    """From now on the `count`th key that is opened for writing is in use. Yields a function: is there such a key?"""
    arm(server, "open", "fail", count)
    try:
        yield lambda: armed(server) == "open in-use"
    finally:
        server.control.config_set(CONFIG, "")


def wait_passed(server):
    wait_for(lambda: armed(server) == "", 10, "the failpoint to be reached")


def wait_dead(server):
    """Waits until the server has died; its replies can still be read. Call server.has_died() afterwards."""
    wait_for(lambda: not server.is_running(), 10, "the server to die at its failpoint")


def is_stopped(server):
    """Whether the server has stopped itself."""
    state = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "T"


@contextmanager
def stopped(server):
    """Waits until the server has stopped at its failpoint; at the end it continues, also if the test has failed."""
    try:
        wait_for(lambda: is_stopped(server), 10, "the server to stop at its failpoint")
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)
