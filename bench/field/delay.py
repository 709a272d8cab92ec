"""`make bench-field`: the delayed queue compared with its alternatives. README.md says what is measured."""

import argparse
import json
import os
import platform
import signal
import sys
import time
from pathlib import Path

from runner import competitors, data, delay
from runner.figures import quantiles, spread, spreads
from runner.program import ProgramFailed
from runner.report import SLEEPER, print_delay
from runner.server import server_program, server_version

RESULTS = data.RESULTS
MODULE = competitors.TOP / "lock.so"


def options():
    parser = argparse.ArgumentParser(prog="bench-field", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rates", type=int, nargs="+", default=[1000, 100], help="elements a second")
    parser.add_argument("--seconds", type=int, default=5, help="of pushing at each rate")
    parser.add_argument("--idle", type=int, default=120, help="seconds of waiting")
    parser.add_argument("--quick", action="store_true", help="check that everything runs; the figures must not be quoted")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.rounds, chosen.seconds, chosen.idle = 1, 1, 10
    return chosen


def note(text):
    print(f"bench-field: {text}", file=sys.stderr, flush=True)


def measure(field, present, chosen):
    """The raw figures. In each round all competitors are measured, and each round begins with a different one."""
    raw = {"anatomy": {}, "rounds": []}
    for competitor in present:
        note(f"what {competitor.label} sends")
        raw["anatomy"][competitor.name] = delay.anatomy(field, competitor)
    for number in range(chosen.rounds):
        turn = present[number % len(present):] + present[: number % len(present)]
        row = {"flow": {}, "sleeper": {}}
        for rate in chosen.rates:
            note(f"round {number + 1} of {chosen.rounds}, {rate} elements a second")
            row["sleeper"][str(rate)] = delay.sleeper(rate, chosen.seconds)
            row["flow"][str(rate)] = {c.name: delay.flow(field, c, rate, chosen.seconds) for c in turn}
        note(f"round {number + 1} of {chosen.rounds}, the death of the client")
        row["death"] = delay.all_at_once(lambda c: delay.death(field, c), present)
        raw["rounds"].append(row)
    note(f"{chosen.idle} seconds of waiting")
    raw["idle"] = delay.all_at_once(lambda c: delay.idle(field, c, chosen.idle), present)
    return raw


def summarize(raw, present, chosen):
    """Medians of the rounds, with the lowest and highest; for the highest rate, which is plotted, distributions too."""
    summary = {"death": {}, "idle": raw["idle"]}
    for rate in chosen.rates:
        late = spreads([row["sleeper"][str(rate)]["late"] for row in raw["rounds"]])
        summary[f"flow-{rate}"] = {SLEEPER: late} | {
            c.name: spreads([flow_row(raw, row["flow"][str(rate)][c.name], c, rate * chosen.seconds)
                             for row in raw["rounds"]])
            for c in present
        }
    for competitor in present:
        rows = [row["death"][competitor.name] for row in raw["rounds"]]
        summary["death"][competitor.name] = death_row(rows)
    for name, numbers in distributions(raw, present, max(chosen.rates)).items():
        summary[f"flow-{max(chosen.rates)}"][name]["quantiles"] = numbers
    return summary


def flow_row(raw, result, competitor, count):
    shares = raw["anatomy"][competitor.name]["shares"]
    return {**result["late"], **delay.cost(result, shares, count)}


def death_row(rows):
    def of(numbers):
        known = [number for number in numbers if number is not None]
        return spread(known) if known else None

    return {
        "ready": of([row["ready"] for row in rows]),
        "all_ready_ms": of([row["all_ready_ms"] for row in rows]),
        "plain_got": of([row["plain"]["got"] for row in rows if "plain" in row]),
        "own_got": of([row["own"]["got"] for row in rows]),
        "last_ms": of([row["own"]["last_ms"] for row in rows]),
    }


def distributions(raw, present, rate):
    """The distributions for the plot, of all rounds together."""

    def of(parts):
        return quantiles([ms for part in parts for ms in part["late_ms"]])

    return {
        **{c.name: of([row["flow"][str(rate)][c.name] for row in raw["rounds"]]) for c in present},
        SLEEPER: of([row["sleeper"][str(rate)] for row in raw["rounds"]]),
    }


def main():
    chosen = options()
    # Then the servers end with this process, as they do on Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    missing = {language: competitors.missing_tool(language) for language in competitors.TOOLS}
    left_out = {c.name: f"no {missing[c.language]}" for c in competitors.DELAYED if missing[c.language]}
    present = [c for c in competitors.DELAYED if c.name not in left_out]
    languages = {c.language for c in present}
    note("building the competitors' programs")
    competitors.build(languages)

    program = server_program()
    field = delay.Field(program, MODULE, Path(RESULTS) / "servers")
    about = {
        "server": server_version(program),
        "versions": competitors.versions(languages),
        "machine": {"cpus": os.cpu_count(), "system": platform.platform(), "load_before": os.getloadavg()},
        "options": vars(chosen),
        "left_out": left_out,
        "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    try:
        raw = measure(field, present, chosen)
    except ProgramFailed as failed:
        raise SystemExit(f"bench-field: {failed}") from failed
    summary = summarize(raw, present, chosen)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "delay.json").write_text(json.dumps({"about": about, "summary": summary, "raw": raw}, indent=1) + "\n")
    data.store("delay", {"about": about, "measured": summary})
    print(about["server"], *(f"{name} {version}" for name, version in about["versions"].items()), sep="\n", end="\n\n")
    print_delay(competitors.DELAYED, left_out, summary)
    note(f"raw figures: {RESULTS / 'delay.json'}")
    for name, why in left_out.items():
        note(f"{name} not run: {why}")
    return 1 if left_out else 0


if __name__ == "__main__":
    sys.exit(main())
