"""When a failed test is run again: harness/stall.py."""

import math
import os
import threading
import time
from collections import defaultdict
from itertools import count

import pytest

from harness import limits, process, scaled, wait_for
from harness.stall import STALL_S, Excuse, Watch
from model import session_scene


class Stalls:
    """Replaces a Watch: the test sets how long the machine has stalled."""

    def __init__(self):
        self.longest = 0.0

    def longest_since(self, moment):
        return self.longest


@pytest.fixture
def machine():
    return Stalls()


@pytest.fixture
def excuse(machine):
    return Excuse(machine)


@pytest.mark.parametrize(
    "limits_s, longest_s, is_excused",
    [
        ([], 3600, False),
        ([2, 60], 0.9, False),
        ([2, 60], 1.1, True),
        ([60, 2], 1.1, True),
        ([0.01], STALL_S * 0.9, False),
        ([0.01], STALL_S * 1.1, True),
    ],
)
def test_stall_excuses_if_longer_than_half_the_shortest_limit(machine, excuse, limits_s, longest_s, is_excused):
    limits.begin("a file without limits")
    for limit in limits_s:
        limits.note(limit, "")
    machine.longest = longest_s
    assert excuse(AssertionError()) == is_excused


def test_fault_of_a_server_is_not_excused(machine, excuse, monkeypatch):
    limits.note(0.01, "")
    machine.longest = 10
    assert excuse(AssertionError())
    monkeypatch.setattr(process, "_faults", [*process._faults, "it had ended"])
    assert not excuse(AssertionError())


def test_interrupted_run_is_not_excused(machine, excuse):
    limits.note(0.01, "")
    machine.longest = 10
    assert not excuse(KeyboardInterrupt())


def test_limit_is_one_of_the_test_or_of_its_file(monkeypatch):
    monkeypatch.setattr(limits, "_of_files", {})
    monkeypatch.setattr(limits, "_runs", False)
    scaled(7)
    scaled(-1)
    limits.begin(__file__)
    of_the_file = limits.shortest()
    scaled(3)
    of_the_test = limits.shortest()
    limits.begin("another file")
    assert of_the_file / of_the_test == pytest.approx(7 / 3) and limits.shortest() == math.inf


LIMIT_MS = limits.Milliseconds(1500)
NO_LIMIT_MS = 20


def helper():
    return [LIMIT_MS for _ in range(2)]


def uses_it():
    return helper()


def uses_none():
    return NO_LIMIT_MS, unused_name  # noqa: F821


def test_limit_of_another_module_counts_where_it_is_used():
    limits.begin("another file", [uses_none])
    assert limits.shortest() == math.inf
    limits.begin("another file", [uses_none, uses_it])
    assert limits.shortest() == 1.5


def test_lease_of_a_scene_is_a_limit_of_what_uses_it():
    limits.begin("another file", [session_scene.leases_pass])
    assert limits.shortest() == pytest.approx(session_scene.LEASE / 1000)


def test_server_that_waits_for_a_processor_has_stalled(monkeypatch):
    # For each watch, that of the run too, the wait grows by as much from one query to the next.
    waits = defaultdict(lambda: count(0, 2 * STALL_S))
    monkeypatch.setattr(process, "running", lambda: {1})
    monkeypatch.setattr(process, "waited", lambda pid: next(waits[threading.get_ident()]))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: [])  # only the servers are watched
    began = time.monotonic()
    watch = Watch()
    # At first only the part of a stall since `began` counts.
    wait_for(lambda: watch.longest_since(began) == pytest.approx(2 * STALL_S), what="a whole stall to be seen")
    wait_for(lambda: time.monotonic() > began + 6 * STALL_S, what="more of them")
    assert watch.longest_since(began) == pytest.approx(2 * STALL_S)


def test_wait_of_a_server_is_known(server):
    assert server.pid in process.running()
    wait_for(lambda: server.control.ping() and process.waited(server.pid) > 0, what="the server to have waited")


def test_stall_counts_only_from_the_beginning_of_the_test():
    excuse = Excuse()
    watch = excuse._watch
    began = time.monotonic()
    watch._seen.append((began + 1, 3.0))
    assert watch.longest_since(began) == pytest.approx(1.0, abs=0.5)
    assert watch.longest_since(began + 2) == 0
