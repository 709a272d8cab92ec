"""Failpoints of the checking build: where a test has the server die, stand still or be refused something.

module/server/failpoint.h tells what they are, CONTRIBUTING.md how to add one.
"""

import os
import re
import signal
from contextlib import contextmanager
from pathlib import Path

from .waiting import wait_for

CONFIG = "lock.failpoint"
MODULE = Path(__file__).resolve().parents[3] / "module"
TABLE = MODULE / "server" / "failpoint.c"


def has_failpoints(server):
    """Whether the module is the checking build."""
    return CONFIG in server.control.config_get(CONFIG)


def points():
    """The names of all points, from the module's own table."""
    found = re.findall(r'^ +\[FAILPOINT_\w+\] = "(\S+)",$', TABLE.read_text(), re.M)
    assert found, "the table in failpoint.c looks different"
    return set(found)


def points_that_fail():
    """Those among them that are there to fail: what they return is asked for."""
    calls = ["FAILPOINT_OPEN"]  # by a function of its own, which counts keys
    for file in MODULE.glob("*/*.c"):
        calls += re.findall(r"\bif \(failpoint\((\w+)\)", file.read_text())
    names = dict(re.findall(r'\[(FAILPOINT_\w+)\] = "(\S+)"', TABLE.read_text()))
    return {names[call] for call in calls}


def arm(server, point, action, count=1):
    """The `count`th time that the server comes there."""
    server.control.config_set(CONFIG, f"{point} {action} {count}")


def armed(server):
    """What is set and has not happened yet; or an empty text."""
    return server.control.config_get(CONFIG)[CONFIG]


@contextmanager
def key_in_use(server, count):
    """The `count`th key that is opened to be written to from here on is in use. Yields a function: is there such a key?"""
    arm(server, "open", "fail", count)
    try:
        yield lambda: armed(server) == "open in-use"
    finally:
        server.control.config_set(CONFIG, "")


def wait_passed(server):
    wait_for(lambda: armed(server) == "", 10, "the failpoint to be reached")


def wait_dead(server):
    """Until the server has died; what it said to its clients can still be read. Then server.has_died()."""
    wait_for(lambda: not server.is_running(), 10, "the server to die at its failpoint")


def is_standing(server):
    """Whether the server has stopped itself."""
    state = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "T"


@contextmanager
def standing(server):
    """Until the server stands still at its failpoint; afterwards it goes on, also if the test has failed."""
    try:
        wait_for(lambda: is_standing(server), 10, "the server to stop at its failpoint")
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)
