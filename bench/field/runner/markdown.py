"""docs/benchmarks.md, from the data file. Pure: text from data."""

import posixpath
import re

from .report import COLUMNS, SLEEPER, death_cells, idle_cells, kind_of, late_cells, number, rates, with_spread

TITLES = {
    "pair": "Uncontended acquire and release, clients: {n}",
    "turns": "The same, alternating with SET NX + DEL by the same client, clients: {n}",
    "handoff": "From a release to the next grant, waiting: {n}",
    "hot": "16 workers without a pause, locks: {n}",
    "drain": "A fair queue of {n} waiters, every tenth of which gives up",
    "rw": "Readers and one writer, each holds the lock for 1 ms",
    "semaphore": "A semaphore, each permit is held for 1 ms",
    "latch": "From opening a latch to notifying its waiters",
    "killed": "From the death of the holder's process to the next grant",
    "held": "Memory of a held lock",
    "crowd": "Waiters: memory, and the work that they cause on the server",
}
# The field that ranks a table, and whether less is better.
JUDGED_BY = {
    "pair": ("p50", True),
    "turns": ("p50", True),
    "handoff": ("p50", True),
    "hot": ("a_second", False),
    "drain": ("p50", True),
    "rw": ("reads_a_second", False),
    "semaphore": ("a_second", False),
    "latch": ("last_us", True),
    "killed": ("ms", True),
    "held": ("process_bytes", True),
    "crowd": ("process_bytes", True),
}
# The words in a competitor's label that are replaced in the tables of other kinds of locks.
CALLED = {
    "rw": {"LOCK.ACQUIRE": "LOCK.RWREAD, LOCK.RWWRITE", "RLock": "RReadWriteLock"},
    "semaphore": {"LOCK.ACQUIRE": "LOCK.SEMAPHORE", "RLock": "RSemaphore"},
    "latch": {"LOCK.ACQUIRE": "LATCH.WAIT", "RLock": "RCountDownLatch"},
}
# A figure within this factor of the first counts as first.
AS_GOOD = 1.05


def row(cells):
    return "| " + " | ".join(cells) + " |"


def table(head, rows):
    return [row(head), row(["---"] * len(head)), *(row(cells) for cells in rows), ""]


def title(measure):
    kind, _, n = measure.partition("-")
    return TITLES[kind].format(n=f"{int(n):,}" if n else "1,000")


def cell(found, field):
    """The median, the lowest and highest round if they differ, and the ratio to lock.so's figure."""
    figure = found["figures"].get(field)
    if figure is None:
        return "–"
    text = number(figure["median"]) if figure["low"] == figure["high"] else with_spread(figure).replace("-", "–")
    ratio = found["ratios"].get(field)
    return f"{text} **×{number(ratio['median'])}**" if ratio and not found.get("base") else text


def place(measure):
    """The sort key of the tables; they may have been measured in any order."""
    kind, _, n = measure.partition("-")
    return list(TITLES).index(kind), int(n or 0)


def label_of(locker, measure):
    label = locker.label
    for word, called in CALLED.get(kind_of(measure), {}).items():
        label = label.replace(word, called)
    return label + (" ᶠ" if locker.durable else "")


def why_none(found, locker, left_out):
    """The text for a competitor that has no figures in a table; None if it does not belong in the table."""
    if locker.name in left_out:
        return f"not run: {left_out[locker.name]}"
    return f"failed: {found['failed']}" if found and "failed" in found else None


def not_offered(measure, found, lockers, left_out, offered):
    """One line for the competitors that have no such lock. Rows of lock.so are left out: it has one by another command."""
    reasons = {}
    for locker in lockers:
        reason = offered(locker, kind_of(measure))
        if reason and reason != "not measured" and locker.name not in found and locker.name not in left_out and not locker.ours:
            reasons.setdefault(reason, []).append(locker.label)
    return [f"{reason.capitalize()}: {'; '.join(labels)}." for reason, labels in reasons.items()]


def measure_lines(measure, found, lockers, left_out, offered):
    columns = COLUMNS[kind_of(measure)]
    rows = []
    for locker in lockers:
        mine = found.get(locker.name)
        if mine and JUDGED_BY[kind_of(measure)][0] in mine.get("figures", {}):
            mine = {**mine, "base": locker.beside == locker.name}
            label = label_of(locker, measure)
            rows.append([f"**{label}**" if locker.ours else label, *(cell(mine, field) for field, _ in columns)])
        elif mine and "failed" not in mine:
            rows.append([locker.label, "never, while it was watched", *[""] * (len(columns) - 1)])
        elif reason := why_none(mine, locker, left_out):
            rows.append([locker.label, reason, *[""] * (len(columns) - 1)])
    absent = not_offered(measure, found, lockers, left_out, offered)
    return [
        f"### {title(measure)}",
        "",
        *table(["", *(head for _, head in columns)], rows),
        *([*absent, ""] if absent else []),
        *verdict(measure, found, lockers),
    ]


def verdict(measure, found, lockers):
    """Which row is first, and if it is none of lock.so's, by how much. ᶠ marks a competitor with fsync."""
    field, less = JUDGED_BY[kind_of(measure)]
    medians = {
        locker.name: found[locker.name]["figures"][field]["median"]
        for locker in lockers
        if field in found.get(locker.name, {}).get("figures", {})
    }
    ours = {locker.name for locker in lockers if locker.ours} & medians.keys()
    if not ours or len(medians) == len(ours):
        return []
    labels = {locker.name: label_of(locker, measure) for locker in lockers}
    best = (min if less else max)(medians, key=medians.get)
    mine = (min if less else max)(ours, key=medians.get)
    factor = medians[mine] / medians[best] if less else medians[best] / medians[mine]
    head = dict(COLUMNS[kind_of(measure)])[field]
    if factor <= AS_GOOD:
        return [f"First in {head}, or within 5 % of it: {labels[mine]}.", ""]
    return [f"First in {head}: {labels[best]}. **Ours lose here**: {labels[mine]} by {number(factor)} times.", ""]


# Client libraries for locks on Redis.
RIVALS = {"redisson", "redisson-fair", "redsync", "redlock", "redis-py"}


def goals(summary, lockers):
    """The goals that were set before anything was measured, and the results. The best library is compared with lock.so by
    the same language and client."""
    by_name = {locker.name: locker for locker in lockers}
    plain = [locker for locker in lockers if locker.ours and locker.beside == locker.name]
    rows = []

    def median(measure, name, field="p50"):
        figures = summary.get(measure, {}).get(name, {}).get("figures", {})
        return figures.get(field, {}).get("median")

    def goal(text, limit, measured, base):
        if measured is not None and base:
            ratio = measured / base
            rows.append([text, f"at most {number(limit)}", f"{ratio:.3g}", "met" if ratio <= limit else "**missed**"])

    for measure in sorted((name for name in summary if kind_of(name) == "handoff"), key=place):
        waiting = f"{int(measure.partition('-')[2]):,} waiting"
        for field, limit in (("p50", 0.2), ("p99", 0.1)):
            known = {name: median(measure, name, field) for name in by_name if name in RIVALS}
            known = {name: value for name, value in known.items() if value}
            if known:
                best = by_name[min(known, key=known.get)]
                text = f"hand-off {field}, {waiting}: {by_name[best.beside].label} / the best library's, {best.label}"
                goal(text, limit, median(measure, best.beside, field), known[best.name])
        text = f"hand-off p50, {waiting}: LOCK.ACQUIRE, go-redis / etcd"
        goal(text, 0.02, median(measure, "goredis"), median(measure, "etcd"))
    for measure in sorted((name for name in summary if kind_of(name) == "turns"), key=place):
        clients = measure.partition("-")[2]
        for locker in [locker for locker in lockers if locker.ours]:
            text = f"uncontended p50, clients: {clients}: {locker.label} / SET NX + DEL by the same client"
            goal(text, 1.05, median(measure, locker.name, "p50_ratio"), 1)
    for locker in plain:
        goal(f"commands for a hand-off, 16 waiting: {locker.label}", 2.0, median("handoff-16", locker.name, "commands"), 1)
        goal(f"commands a minute of those that wait: {locker.label}", 0.0, median("crowd", locker.name, "commands_a_minute"), 1)
    return rows


def machine_lines(about):
    machine = about["machine"]
    versions = ", ".join(
        version if name.lower() in version.lower() else f"{name} {version}"
        for name, version in sorted(about["versions"].items())
    )
    runs = f", in {about['runs']} runs" if about["runs"] > 1 else ""
    quick = ["**A quick run, to check that everything works: not to be quoted.**", ""] if about["options"]["quick"] else []
    return [
        *quick,
        f"{machine['cpu']}, {machine['cpus']} CPUs, {machine['memory_gib']:g} GiB; {machine['system']}; "
        f"load before the {'last run' if runs else 'run'} {machine['load_before'][0]:.1f}.",
        f"{about['server']}.",
        f"{versions}.",
        f"From {about['began']} to {about['ended']}, {about['options']['rounds']} rounds{runs}.",
        "",
    ]


def promises(lockers):
    rows = [[locker.label + (" ᶠ" if locker.durable else ""), locker.promise] for locker in lockers]
    return ["## What each promises", "", *table(["", ""], rows)]


def delay_lines(delay, delayed):
    """The figures of the delayed queue that the printed tables show too; competitors are found by name."""
    if not delay:
        return []
    summary = delay["measured"]

    def of(figures):
        """(label, figures) of each competitor that has figures."""
        labels = [(one.name, f"**{one.label}**" if one.ours else one.label) for one in delayed]
        return [(label, figures[name]) for name, label in labels if name in figures]

    def dashed(cells):
        return [text.replace("-", "–") for text in cells]

    lines = ["## The delayed queue", "", "![lateness](benchmarks/lateness.svg)", ""]
    for rate in rates(summary):
        figures = summary[f"flow-{rate}"]
        rows = [
            [label, *dashed(with_spread(row[part]) for part in ("p50", "p99", "max", "clients", "nested", "bytes", "cpu_us"))]
            for label, row in of(figures)
        ]
        rows.append(["a process that sleeps until the due time", *dashed(late_cells(figures[SLEEPER])), *[""] * 4])
        lines += [f"### Lateness, {rate:,} elements a second", ""]
        lines += table(["", "p50 ms", "p99 ms", "max ms", "sent", "inside", "bytes", "CPU µs"], rows)
    lines += ["### The only client is killed after it has pushed 100 elements", ""]
    head = ["", "in the list 5 s after they were due", "all in the list after, ms", "a consumer of the list alone receives",
            "the library's consumer receives", "after, ms"]  # fmt: skip
    lines += table(head, [[label, *dashed(death_cells(row))] for label, row in of(summary["death"])])
    lines += ["### A consumer waits for a minute while nothing is due", ""]
    return lines + table(["", "commands", ""], [[label, *idle_cells(row)] for label, row in of(summary["idle"])])


# The folders of the prose and of the page.
FROM, TO = "bench/field", "docs"


def moved(text):
    """The text with links adapted to the folder of the page."""

    def link(found):
        return f"]({posixpath.relpath(posixpath.join(FROM, found[1]), TO)})"

    return re.sub(r"\]\((?!\w+:|#)([^)]+)\)", link, text)


def page(data, summary, lockers, delayed, prose, offered):
    """The whole page. `summary` is of locks; `prose` are the texts of separate files."""
    locks = data["locks"]
    left_out = locks["about"]["left_out"]
    lines = ["# Comparison with alternatives", "", "<!-- made by bench/field/report.py from benchmarks/data.json -->", ""]
    lines += ["All figures are measured by `make bench-field`, on one machine; [the raw figures](benchmarks/data.json).", ""]
    lines += machine_lines(locks["about"])
    lines += ["## The goals", "", *table(["", "goal", "measured", ""], goals(summary, lockers))]
    for text in prose:
        lines += [moved(text.strip()), ""]
    lines += ["## Locks", "", "![uncontended](benchmarks/latency.svg)", "", "![hand-off](benchmarks/handoff.svg)", ""]
    for measure in sorted(summary, key=place):
        lines += measure_lines(measure, summary[measure], lockers, left_out, offered)
    lines += promises(lockers)
    lines += delay_lines(data.get("delay"), delayed)
    return "\n".join(lines).rstrip() + "\n"
