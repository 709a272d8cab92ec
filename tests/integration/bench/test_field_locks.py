"""What `make bench-field` computes for locks: fairness, queues, ratios, the summary. No server."""

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from harness.fieldrunner import part

figures, summary = part("figures"), part("summary")


@pytest.mark.parametrize(
    ("shares", "index"), [([5, 5, 5, 5], 1), ([8, 0, 0, 0], 0.25), ([1, 3], 0.8), ([0, 0], 1), ([7], 1)]
)
def test_jains_index_is_1_for_equal_shares_and_1_of_n_if_one_has_all(shares, index):
    assert figures.jain(shares) == pytest.approx(index)


def test_fairness_compares_the_longest_wait_with_the_mean():
    assert figures.fairness([2, 2], [1.0, 1.0, 1.0, 5.0]) == {"jain": 1, "longest_to_mean": 2.5, "longest_us": 5.0}
    assert figures.fairness([1], [0.0])["longest_to_mean"] == 1


def test_quantiles_go_from_the_smallest_to_the_largest():
    assert figures.quantiles([3, 1, 2, 5, 4], 4) == [1, 2, 3, 4, 5]
    assert figures.quantiles([9], 2) == [9, 9, 9]
    assert len(figures.quantiles(range(1000))) == 201


def place(asked, granted, released=0):
    return {"asked": asked, "granted": granted, "released": released or granted}


def test_a_queue_that_keeps_its_order_has_no_overtaken_request():
    order = figures.queue_order([place(1, 10_000, 11_000), place(2, 13_000), place(3, 0), place(4, 20_000)])
    assert order == {"gave_up": 1, "overtaken": 0, "us": [2, 7]}


def test_overtaken_counts_each_grant_after_that_of_a_later_request():
    # The first request is granted last, so it was overtaken; the others kept their order.
    assert figures.queue_order([place(1, 900), place(2, 100), place(3, 200)])["overtaken"] == 1
    assert figures.queue_order([place(1, 300), place(2, 200), place(3, 100)])["overtaken"] == 2


def test_ratios_are_of_the_same_round():
    rows, base = [{"p50": 10, "gone": None}, {"p50": 40}], [{"p50": 5, "gone": 1}, {"p50": 4}]
    assert figures.ratio_rows(rows, base, ["p50", "gone"]) == [{"p50": 2}, {"p50": 10}]
    assert figures.ratio_rows(rows, [{"p50": 0}, {}], ["p50"]) == [{}]


def test_alternating_measurements_are_compared_pair_by_pair():
    """In the second pair the machine was ten times as slow for both."""
    row = figures.by_turns([[1, 2, 3], [20, 20, 20]], [[4, 4, 4], [20, 20, 40]])
    assert row["p50"] == 11 and row["other_p50"] == 12
    assert row["p50_ratio"] == 0.75
    assert row["p99"] == 11.5 and row["other_p99"] == 22 and row["p99_ratio"] == 0.625


def test_spreads_leave_out_figures_that_were_not_measured():
    rows = [{"a": 1, "b": None, "c": [1]}, {"a": 3, "b": 2}]
    assert figures.common_spreads(rows) == {
        "a": {"median": 2, "low": 1, "high": 3},
        "b": {"median": 2, "low": 2, "high": 2},
    }


LOCKERS = [SimpleNamespace(name="ours", beside="ours"), SimpleNamespace(name="theirs", beside="ours")]


def test_a_summary_has_figures_and_ratios_to_ours_in_each_round():
    ours = [{"p50": 10, "quantiles": [1, 9]}, {"p50": 20, "quantiles": [3, 7]}, {"p50": 30, "quantiles": [5, 5]}]
    theirs = [{"p50": 30}, {"p50": 100}, {"p50": 60}]
    measured = {"pair-1": {"ours": ours, "theirs": theirs}, "killed": {"theirs": [{"ms": None}]}}
    found = summary.summarize(measured, LOCKERS)
    assert found["pair-1"]["theirs"]["figures"]["p50"] == {"median": 60, "low": 30, "high": 100}
    assert found["pair-1"]["theirs"]["ratios"]["p50"] == {"median": 3, "low": 2, "high": 5}
    assert found["pair-1"]["ours"]["ratios"]["p50"]["median"] == 1
    assert found["pair-1"]["ours"]["quantiles"] == [3, 7]
    assert found["pair-1"]["theirs"]["quantiles"] == []
    assert "ms" not in found["killed"]["theirs"]["figures"]


def test_only_figures_that_are_shown_are_kept():
    row = {"quantiles": [1, 2], "jain": 1, "p50": 3, "bytes": None}
    assert summary.kept("pair-1", row) == {"p50": 3, "bytes": None, "quantiles": [1, 2]}
    assert summary.kept("pair-16", row) == {"p50": 3, "bytes": None}
    assert summary.kept("hot-1", {"failed": "no memory"}) == {"failed": "no memory"}


def test_a_failure_in_one_round_is_a_failure():
    measured = {"pair-1": {"ours": [{"p50": 1}, {"failed": "no memory"}]}}
    assert summary.summarize(measured, LOCKERS)["pair-1"]["ours"] == {"failed": "no memory"}


def test_each_round_begins_with_another_competitor_and_has_all():
    rounds = part("rounds")
    turns = [rounds.turn(list("abcdefg"), number) for number in range(7)]
    assert {turn[0] for turn in turns} == set("abcdefg")
    assert all(sorted(turn) == list("abcdefg") for turn in turns)


def test_competitors_without_figures_are_missing_in_an_ended_run():
    able = [SimpleNamespace(name=name, offers={"drain"}) for name in "abc"]
    unable = SimpleNamespace(name="d", offers=set())
    rounds = {"a": [{"p50": 1}, {"p50": 2}], "b": [{"failed": "no memory"}]}
    assert part("rounds").missing(rounds, 0, [*able, unable], "drain") == [able[2]]
    assert part("rounds").missing(rounds, 1, [*able, unable], "drain") == able[1:]


def test_cpu_time_is_counted_in_finer_steps_than_clock_ticks():
    processes = part("processes")
    before, began = processes.cpu_seconds(os.getpid()), time.process_time()
    while time.process_time() - began < 0.0005:
        pass
    grown = processes.cpu_seconds(os.getpid()) - before
    assert 0.0004 < grown, "steps of 10 ms would mostly show nothing"
    assert grown < 0.5


def test_cpu_time_of_a_child_that_has_ended_counts_for_its_parent():
    processes = part("processes")
    before = processes.cpu_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.1: pass"], check=True)
    assert processes.cpu_seconds(os.getpid()) - before > 0.08


def test_each_competitor_names_one_of_our_clients_in_its_language():
    lockers = part("lockers").LOCKERS
    by_name = {locker.name: locker for locker in lockers}
    assert len(by_name) == len(lockers)
    for locker in lockers:
        beside = by_name[locker.beside]
        assert beside.ours and beside.language == locker.language and beside.beside == beside.name


def test_each_measurement_has_a_column_a_title_and_a_deciding_figure():
    report, markdown, lockers = part("report"), part("markdown"), part("lockers")
    kinds = frozenset().union(*(locker.offers for locker in lockers.LOCKERS))
    assert kinds == set(report.COLUMNS) == set(markdown.TITLES) == set(markdown.JUDGED_BY)
    for kind, (field, _) in markdown.JUDGED_BY.items():
        assert field in dict(report.COLUMNS[kind])
