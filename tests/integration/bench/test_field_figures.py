"""What `make bench-field` computes from its raw figures, bench/field/runner/figures.py. No server."""

from collections import Counter

import pytest
from harness.fieldrunner import part


@pytest.fixture(scope="module")
def figures():
    return part("figures")


@pytest.mark.parametrize(
    ("count", "percent", "expected"),
    [(100, 50, 50), (100, 99, 99), (100, 100, 100), (101, 99, 100), (1, 1, 1), (1, 99, 1), (3, 50, 2), (1000, 99, 990)],
)
def test_a_percentile_is_a_number_that_was_measured(figures, count, percent, expected):
    assert figures.percentile(range(count, 0, -1), percent) == expected


def test_spread_is_the_median_between_the_lowest_and_the_highest_round(figures):
    assert figures.spread([5, 1, 4]) == {"median": 4, "low": 1, "high": 5}
    assert figures.spreads([{"p50": 1, "max": 7}, {"p50": 3, "max": 5}]) == {
        "p50": {"median": 2, "low": 1, "high": 3},
        "max": {"median": 6, "low": 5, "high": 7},
    }


def test_commands_before_the_measurement_are_not_counted(figures):
    assert figures.difference({"get": 3, "set": 2}, {"get": 5, "set": 2, "del": 1}) == {"get": 2, "del": 1}


def test_commands_are_split_in_the_shares_that_monitor_has_seen(figures):
    seen = Counter({("client", "blpop"): 10, ("script", "rpush"): 30, ("client", "rpush"): 10, ("module", "hdel"): 5})
    shares = figures.client_shares(seen)
    assert shares == {"blpop": 1, "rpush": 0.25, "hdel": 0}
    # MONITOR has not seen ZREM, so no client sends it; a subcommand belongs to its command.
    clients, nested = figures.split_calls({"blpop": 100, "rpush": 40, "zrem": 7, "blpop|of": 1}, shares)
    assert (clients, nested) == (111, 37)


def test_a_minute_of_waiting_counts_what_clients_send(figures):
    seen = Counter({("client", "ping"): 4, ("client", "evalsha"): 2, ("script", "get"): 9})
    assert figures.per_minute(seen, 30) == {"sum": 12, "commands": {"ping": 8, "evalsha": 4}}
