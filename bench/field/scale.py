"""`make bench-field`: the check of docs/scale.md, what a pair costs with 1, 2 and 3 nodes of a cluster."""

import argparse
import signal
import sys

from runner import competitors, data
from runner.cluster import Cluster
from runner.figures import spreads
from runner.lockers import PROGRAMS
from runner.program import Program, ProgramFailed
from runner.server import server_program, server_version

MODULE = competitors.TOP / "lock.so"
CLIENTS, LOCKS = 64, 1000
START_S, ANSWER_S = 60, 120


def options():
    parser = argparse.ArgumentParser(prog="scale.py", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--quick", action="store_true", help="check that everything runs; the figures must not be quoted")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.rounds = 1
    return chosen


def note(text):
    print(f"bench-field: {text}", file=sys.stderr, flush=True)


def run(program, nodes, what, *arguments):
    """Pairs a second, and the CPU of all nodes together for each pair."""
    folder = data.RESULTS / "servers" / f"cluster-{nodes}"
    command = [*PROGRAMS["go"](), "cluster", what]
    with Cluster(program, folder, MODULE, nodes) as cluster:
        with Program([*command, cluster.port, *arguments], folder / "program.log") as load:
            load.expect("ready", START_S)
            before = sum(cluster.cpu_seconds())
            load.go_on()
            done = load.expect("done", ANSWER_S)
            spent = sum(cluster.cpu_seconds()) - before
    return {"a_second": sum(done["pairs"]) / (arguments[-1] / 1000), "cpu_us": spent / len(done["us"]) * 1e6}


def main():
    chosen = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if tool := competitors.missing_tool("go"):
        note(f"scale not run: no {tool}")
        return 1
    competitors.build({"go"})
    program = server_program()
    warm, length = (150, 300) if chosen.quick else (2000, 5000)
    measured = {what: {str(n): [] for n in chosen.nodes} for what in ("pair", "hot")}
    try:
        for number in range(chosen.rounds):
            # The order of the nodes alternates from round to round.
            turn = chosen.nodes[:: 1 if number % 2 == 0 else -1]
            note(f"round {number + 1} of {chosen.rounds}: {turn} nodes")
            for n in turn:
                measured["pair"][str(n)].append(run(program, n, "pair", CLIENTS, warm, length))
            for n in turn:
                measured["hot"][str(n)].append(run(program, n, "hot", CLIENTS, LOCKS, warm, length))
    except ProgramFailed as failed:
        raise SystemExit(f"bench-field: {failed}") from failed
    about = {"server": server_version(program), "machine": data.machine(), "quick": chosen.quick, "began": data.now()}
    data.store("scale", {"about": about, "measured": measured})
    for what, rounds in measured.items():
        for nodes, rows in rounds.items():
            found = spreads(rows)
            print(f"{what}: {nodes} nodes, {found['a_second']['median']:,.0f} a second, "
                  f"{found['cpu_us']['median']:.1f} µs of CPU each")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
