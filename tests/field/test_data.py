"""The data file that is kept next to the pages: it stays small, one measurement a line, and the pages are made from it."""

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


def test_it_is_small():
    assert FILE.stat().st_size <= 400_000


def test_it_has_one_measurement_a_line():
    lines = [line.rstrip(",") for line in FILE.read_text().splitlines()]
    rest = iter(lines)
    for section, measure, name, figures in MEASURED:
        assert f'    "{name}": {json.dumps(figures)}' in rest, (section, measure)
    # What is not a measurement says on what machine, and with what versions.
    assert len(lines) < len(MEASURED) + 150


def test_it_is_as_a_run_writes_it():
    assert data.as_text(FOUND) == FILE.read_text()


def test_it_has_only_what_is_shown():
    for section, measure, name, rows in MEASURED:
        if section == "locks":
            assert rows == [kept(measure, row) for row in rows], (measure, name)
    drawn = {measure for _, measure, _, figures in MEASURED if "quantiles" in json.dumps(figures)}
    assert drawn == {"pair-1", "flow-1000"}


@pytest.fixture(scope="module")
def summary():
    return report.summary_of(FOUND)


def test_the_page_is_what_it_makes(summary):
    assert report.benchmarks(FOUND, summary) == (TOP / "docs" / "benchmarks.md").read_text()


def test_the_plots_are_what_it_makes(summary):
    made = report.pictures(FOUND, summary)
    assert made.keys() == {file.name for file in FOLDER.glob("*.svg")}
    assert [name for name, text in made.items() if text != (FOLDER / name).read_text()] == []
