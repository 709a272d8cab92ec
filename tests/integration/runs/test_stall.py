"""When a failed test is run again: harness/stall.py."""

import math
import time

import pytest

from harness import limits, process, scaled
from harness.stall import STALL_S, Excuse


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


def test_stall_counts_only_from_the_beginning_of_the_test():
    excuse = Excuse()
    watch = excuse._watch
    began = time.monotonic()
    watch._seen.append((began + 1, 3.0))
    assert watch.longest_since(began) == pytest.approx(1.0, abs=0.5)
    assert watch.longest_since(began + 2) == 0
