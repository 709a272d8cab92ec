"""The simulated cluster: its results match what can be computed without it, and the same seed gives the same figures."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "field"))

from runner import model  # noqa: E402
from runner.simulation import Load, simulate  # noqa: E402

COSTS = model.Costs(pair_us=20, handoff_us=20, held_bytes=200, waiter_bytes=50_000)
EVEN = Load(nodes=1, busy=0.7, locks=1_000_000, hold_us=0, trip_us=0, asks=20_000)


def test_the_same_seed_gives_the_same_figures():
    load = replace(EVEN, asks=2000)
    assert simulate(COSTS, load) == simulate(COSTS, load)
    assert simulate(COSTS, load) != simulate(COSTS, load, seed=2)


def test_a_client_alone_waits_for_the_round_trip_and_its_own_command():
    figures = simulate(COSTS, replace(EVEN, busy=0.001, trip_us=100, asks=500))
    assert figures["p50"] == pytest.approx(100 + COSTS.pair_us / 2)
    assert figures["contended"] == 0


@pytest.mark.parametrize("busy", [0.35, 0.7])
def test_an_event_loop_is_as_busy_as_configured(busy):
    figures = simulate(COSTS, replace(EVEN, busy=busy))
    assert figures["loop"] == pytest.approx(busy, rel=0.05)
    assert figures["busiest"] == figures["loop"]


def test_a_lock_that_is_requested_faster_than_it_is_released_is_the_limit():
    """At 35,000 requests a second the queue grows: the last client waits as long as all before it hold the lock."""
    few = replace(EVEN, locks=1, hold_us=1000, asks=200)
    many = replace(few, asks=400)
    assert simulate(COSTS, few)["p99"] > 150 * few.hold_us
    assert simulate(COSTS, many)["p99"] == pytest.approx(2 * simulate(COSTS, few)["p99"], rel=0.1)


def test_uneven_keys_make_one_node_busier_than_the_others():
    even = Load(nodes=10, busy=0.35, locks=1000, hold_us=0, asks=20_000)
    uneven = replace(even, skew=1)
    assert simulate(COSTS, even)["busiest"] < 0.45
    assert simulate(COSTS, uneven)["busiest"] > 1.2 * simulate(COSTS, even)["busiest"]


def test_a_node_of_a_cluster_behaves_like_a_single_node():
    one = simulate(COSTS, EVEN)
    ten = simulate(COSTS, replace(EVEN, nodes=10, locks=100_000, asks=100_000))
    assert ten["p99"] == pytest.approx(one["p99"], rel=0.15)
