"""The README's table shows the run whose data file is stored next to the pages. No server."""

import re
from pathlib import Path

import pytest
from harness.fieldrunner import part

TOP = Path(__file__).resolve().parents[3]
MEASURE = "handoff-16"


def rows():
    """{label: [cells]} of the table."""
    text = (TOP / "README.md").read_text().partition("## How fast")[2].partition("\n## ")[0]
    found = [re.split(r" *\| *", line.strip("| ")) for line in text.splitlines() if re.match(r"\| (?!\|)", line)]
    return {label.strip("*").removesuffix(", on disk"): cells for label, *cells in found}


def measured():
    lockers = part("lockers").LOCKERS
    locks = part("data").load(TOP / "docs" / "benchmarks" / "data.json")["locks"]
    summary = part("summary").summarize(locks["measured"], lockers)[MEASURE]
    return {locker.label: summary[locker.name]["figures"] for locker in lockers if locker.name in summary}


@pytest.mark.parametrize("label", rows())
def test_each_row_has_the_measured_figures(label):
    p50, p99, *commands = [float(cell) for cell in rows()[label] if cell]
    figures = measured()[label]
    # The table has two digits.
    assert p50 * 1000 == pytest.approx(figures["p50"]["median"], rel=0.05)
    assert p99 * 1000 == pytest.approx(figures["p99"]["median"], rel=0.05)
    for count in commands:
        assert count == pytest.approx(figures["commands"]["median"], rel=0.05)


def test_locks_that_write_their_grant_to_disk_are_marked():
    text = (TOP / "README.md").read_text()
    durable = {locker.label for locker in part("lockers").LOCKERS if locker.durable} & rows().keys()
    assert durable
    assert all(f"{label}, on disk |" in text for label in durable)
