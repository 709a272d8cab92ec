"""The data file that is kept with the pages: it stays small, has one measurement in a line, and makes the pages."""

import json
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "bench" / "field"))

import report  # noqa: E402
from runner import data  # noqa: E402
from runner.summary import kept  # noqa: E402

FOLDER = TOP / "docs" / "benchmarks"
FILE = FOLDER / "data.json"
FOUND = data.load(FILE)
MEASURED = [
    (section, measure, name, figures)
    for section, content in FOUND.items()
    for measure, of in content["measured"].items()
    for name, figures in of.items()
]


def test_the_file_is_small():
    assert FILE.stat().st_size <= 400_000


def test_each_measurement_is_one_line():
    lines = [line.rstrip(",") for line in FILE.read_text().splitlines()]
    rest = iter(lines)
    for section, measure, name, figures in MEASURED:
        assert f'    "{name}": {json.dumps(figures)}' in rest, (section, measure)
    # The other lines describe the machine and the versions.
    assert len(lines) < len(MEASURED) + 150


def test_the_file_has_the_format_that_a_run_writes():
    assert data.as_text(FOUND) == FILE.read_text()


def test_the_file_contains_only_what_is_shown():
    for section, measure, name, rows in MEASURED:
        if section == "locks":
            assert rows == [kept(measure, row) for row in rows], (measure, name)
    plotted = {measure for _, measure, _, figures in MEASURED if "quantiles" in json.dumps(figures)}
    assert plotted == {"pair-1", "flow-1000"}


@pytest.fixture(scope="module")
def summary():
    return report.summary_of(FOUND)


def test_the_data_file_makes_the_page(summary):
    assert report.benchmarks(FOUND, summary) == (TOP / "docs" / "benchmarks.md").read_text()


def test_the_data_file_makes_the_plots(summary):
    made = report.all_plots(FOUND, summary)
    assert made.keys() == {file.name for file in FOLDER.glob("*.svg")}
    assert [name for name, text in made.items() if text != (FOLDER / name).read_text()] == []
