"""Writes docs/benchmarks.md, docs/scale.md and their plots from the data file of a run, and keeps a copy of that file with
the plots."""

import argparse
import sys
from pathlib import Path

from runner import competitors, data, markdown, plots, scalepage, simulation
from runner.lockers import LOCKERS, offered
from runner.report import SLEEPER, rates
from runner.summary import DRAWN, summarize

METHOD, READINGS = competitors.HERE / "method.md", competitors.HERE / "readings.md"
LANGUAGES = {"java": "Java", "go": "Go", "node": "Node", "python": "Python"}


def options():
    parser = argparse.ArgumentParser(prog="report.py", description=__doc__)
    parser.add_argument("--data", type=Path, default=data.FILE)
    parser.add_argument("--docs", type=Path, default=competitors.TOP / "docs")
    return parser.parse_args()


def summary_of(found):
    return data.rounded(summarize(found["locks"]["measured"], LOCKERS))


def by_language(lines_of):
    """A panel for each language in which something was measured: {title: [(label, ours, points)]}."""
    groups = {}
    for language, title in LANGUAGES.items():
        lines = [(c.label, c.ours, lines_of(c.name)) for c in LOCKERS if c.language == language and lines_of(c.name)]
        if lines:
            groups[title] = lines
    return groups


def handoff_points(summary):
    """A function that returns the points of a competitor: {waiters: (p50, p99)}."""

    def of(name):
        points = {}
        for measure, found in summary.items():
            kind, _, waiters = measure.partition("-")
            figures = found.get(name, {}).get("figures")
            if kind == "handoff" and figures:
                points[int(waiters)] = (figures["p50"]["median"], figures["p99"]["median"])
        return points

    return of


def all_plots(found, summary):
    """{file: SVG}"""
    drawn = {}
    latency = by_language(lambda name: summary.get(DRAWN, {}).get(name, {}).get("quantiles"))
    if latency:
        drawn["latency.svg"] = plots.drawn(plots.latency, latency)
    handoffs = by_language(handoff_points(summary))
    if handoffs:
        drawn["handoff.svg"] = plots.drawn(plots.handoffs, handoffs)
    if "delay" in found:
        measured = found["delay"]["measured"]
        labels = [(c.name, c.label, c.ours) for c in competitors.DELAYED] + [(SLEEPER, "(a sleeping process)", False)]
        rate = rates(measured)[0]
        figures = measured[f"flow-{rate}"]
        lines = [(label, ours, figures[name]["quantiles"]) for name, label, ours in labels if name in figures]
        drawn["lateness.svg"] = plots.drawn(plots.lateness, lines, rate)
    if scalepage.costs_from(summary):
        drawn["scale.svg"] = plots.drawn(plots.scale, *scalepage.lines(scalepage.costs_from(summary)))
    return drawn


def benchmarks(found, summary):
    prose = [READINGS.read_text(), METHOD.read_text()]
    return markdown.page(found, summary, LOCKERS, competitors.DELAYED, prose, offered)


def main():
    chosen = options()
    found = data.load(chosen.data)
    if "locks" not in found:
        raise SystemExit(f"bench-field: no figures of locks in {chosen.data}: make bench-field")
    summary = summary_of(found)
    costs = scalepage.costs_from(summary)
    folder = chosen.docs / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "data.json").write_text(data.as_text(found))
    for name, text in all_plots(found, summary).items():
        (folder / name).write_text(text)
    (chosen.docs / "benchmarks.md").write_text(benchmarks(found, summary))
    written = "benchmarks.md"
    if costs:
        simulated = simulation.simulate_all(costs)
        (chosen.docs / "scale.md").write_text(scalepage.page(found, summary, costs, simulated))
        written += " and scale.md"
    print(f"bench-field: {written} written into {chosen.docs}", file=sys.stderr)


if __name__ == "__main__":
    main()
