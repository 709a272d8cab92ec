"""`make bench-field`: locks compared with their alternatives. README.md says what is measured."""

import argparse
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from runner import competitors, data, locks, rounds
from runner.lockers import LOCKERS, NOTICED_AT_ONCE, offered, why_not
from runner.otherservers import OTHERS
from runner.program import ProgramFailed
from runner.report import print_locks
from runner.server import server_program, server_version
from runner.summary import kept, summarize

MODULE = competitors.TOP / "lock.so"

# The measures that only wait for a minute: this many run at the same time.
AT_ONCE = {"crowd": 3}


def options():
    parser = argparse.ArgumentParser(prog="locks.py", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--go-on", action="store_true", help="measure what the last run, which was interrupted, has not measured")
    parser.add_argument("--quick", action="store_true", help="check that everything runs; the figures must not be quoted")
    parser.add_argument("--measures", nargs="+", metavar="NAME", help="names of measures, such as pair, or handoff-16")
    parser.add_argument("--competitors", nargs="+", metavar="NAME", choices=[c.name for c in LOCKERS])
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.rounds = 1
    return chosen


def note(text):
    print(f"bench-field: {text}", file=sys.stderr, flush=True)


def measures(sizes):
    """In this order: name, what a competitor must offer for it, the function, whether it is measured only once."""
    rows = [(f"pair-{n}", "pair", partial(locks.pair, clients=n), False) for n in sizes.clients]
    rows += [(f"turns-{n}", "turns", partial(locks.turns, clients=n), False) for n in sizes.clients]
    rows += [(f"handoff-{n}", "handoff", partial(locks.handoff, waiters=n), False) for n in sizes.waiters]
    rows += [(f"hot-{n}", "hot", partial(locks.hot, locks=n), False) for n in (1, 1000)]
    rows += [
        ("drain", "drain", partial(locks.drain, waiters=sizes.queue), False),
        ("rw", "rw", partial(locks.rw, readers=sizes.readers), False),
        ("semaphore", "semaphore", partial(locks.semaphore, clients=sizes.semaphore[0]), False),
        ("latch", "latch", partial(locks.latch, waiters=sizes.queue), False),
        ("held", "held", lambda ground, locker, sizes, _: locks.held(ground, locker, sizes), True),
        ("crowd", "crowd", locks.crowd, True),
    ]
    return rows


def wanted(names, name):
    return names is None or any(name == n or name.startswith(f"{n}-") for n in names)


def attempt(function, *arguments):
    """Reports a competitor that fails; the others are measured."""
    try:
        return function(*arguments)
    except ProgramFailed as failed:
        note(f"failed: {failed}")
        return {"failed": str(failed)}


def measure(ground, present, sizes, chosen, measured, keep):
    """Adds the rounds that are missing, and stores them after each measure. In each round all competitors are measured, and
    each round begins with a different one."""
    shares = {}

    def add(name, found):
        for locker, row in found:
            measured.setdefault(name, {}).setdefault(locker.name, []).append(kept(name, row))
        keep()

    def rows(number, wanted_rows, turn):
        for name, kind, function, _ in wanted_rows:
            missing = rounds.missing(measured.get(name, {}), number, turn, kind)
            for locker in missing:
                if locker.name not in shares:
                    note(f"what {locker.label} sends")
                    shares[locker.name] = attempt(locks.anatomy, ground, locker, sizes).get("shares")

            def one(locker):
                note(f"{name}, {locker.label}")
                return attempt(function, ground, locker, sizes, shares[locker.name])

            with ThreadPoolExecutor(AT_ONCE.get(kind, 1)) as pool:
                add(name, zip(missing, pool.map(one, missing)))

    chosen_measures = [m for m in measures(sizes) if wanted(chosen.measures, m[0])]
    for number in range(chosen.rounds):
        note(f"round {number + 1} of {chosen.rounds}")
        rows(number, [m for m in chosen_measures if not m[3]], rounds.turn(present, number))
    rows(0, [m for m in chosen_measures if m[3]], present)
    missing = rounds.missing(measured.get("killed", {}), 0, present, "killed")
    if missing and wanted(chosen.measures, "killed"):
        note("killed, all competitors")
        add("killed", killed(ground, missing, sizes))


def killed(ground, lockers, sizes):
    """(locker, row) of each. Those that notice the death at once are measured one after the other; leases of many seconds
    may expire while other processes start."""

    def one(locker):
        return attempt(locks.killed, ground, locker, sizes)

    quick = [locker for locker in lockers if locker.name in NOTICED_AT_ONCE]
    slow = [locker for locker in lockers if locker.name not in NOTICED_AT_ONCE]
    found = [(locker, one(locker)) for locker in quick]
    with ThreadPoolExecutor(6) as pool:
        return found + list(zip(slow, pool.map(one, slow)))


def describe(program, present, left_out, chosen):
    """The competitors, the versions and the machine."""
    languages = {locker.language for locker in present}
    versions = competitors.versions(languages)
    for name, kind in OTHERS.items():
        if any(locker.server == name for locker in present):
            versions[name] = kind.version()
    return {
        "server": server_version(program),
        "versions": versions,
        "machine": data.machine(),
        "options": {"rounds": chosen.rounds, "quick": chosen.quick},
        "left_out": left_out,
        "began": data.now(),
        "runs": 1,
    }


def main():
    chosen = options()
    sizes = locks.QUICK if chosen.quick else locks.Sizes()
    # Then the servers end with this process, as they do on Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    note("building the competitors' programs")
    competitors.build({name for name in competitors.TOOLS if not competitors.missing_tool(name)})
    asked = [locker for locker in LOCKERS if not chosen.competitors or locker.name in chosen.competitors]
    reasons = {locker.name: why_not(locker) for locker in asked}
    left_out = {name: why for name, why in reasons.items() if why}
    present = [locker for locker in asked if locker.name not in left_out]

    program = server_program()
    about = describe(program, present, left_out, chosen)
    measured = {}
    if chosen.go_on:
        before = data.load().get("locks")
        if not before:
            raise SystemExit(f"bench-field: no run to continue in {data.FILE}")
        measured = before["measured"]
        about.update(began=before["about"]["began"], runs=before["about"]["runs"] + 1)

    def keep():
        about["ended"] = data.now()
        data.store("locks", {"about": about, "measured": measured})

    measure(locks.Ground(program, MODULE, data.RESULTS / "servers"), present, sizes, chosen, measured, keep)
    print_locks(asked, left_out, summarize(measured, asked))
    note(f"figures: {data.FILE}")
    for name, why in left_out.items():
        note(f"{name} not run: {why}")
    return 1 if left_out else 0


if __name__ == "__main__":
    sys.exit(main())
