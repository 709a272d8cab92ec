"""The printed tables."""

# In addition to the competitors, at each rate: a process that sleeps until an element would be due.
SLEEPER = "sleeper"


def number(value):
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def with_spread(figure):
    return f"{number(figure['median'])} ({number(figure['low'])}-{number(figure['high'])})"


def table(head, rows):
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, *rows]:
        # The column before the figures is aligned to the left.
        cells = [cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())
    print()


def rows_of(competitors, left_out, cells, width):
    """A row for each competitor; the row of one that was left out contains the reason."""
    for competitor in competitors:
        if competitor.name in left_out:
            yield [competitor.label, f"not run: {left_out[competitor.name]}", *[""] * (width - 2)]
        else:
            yield [competitor.label, *cells(competitor.name)]


def rates(summary):
    """The highest first."""
    return sorted((int(name.partition("-")[2]) for name in summary if kind_of(name) == "flow"), reverse=True)


def print_delay(competitors, left_out, summary):
    def show(title, head, cells, *more_rows):
        print(title)
        table(head, [*rows_of(competitors, left_out, cells, len(head)), *more_rows])

    for rate in rates(summary):
        figures = summary[f"flow-{rate}"]
        show(
            f"Lateness, {rate} elements a second, ms: median of the rounds (lowest-highest)",
            ["", "p50", "p99", "max"],
            lambda name: late_cells(figures[name]),
            ["(a sleeping process)", *late_cells(figures[SLEEPER])],
        )
        show(
            f"For one element, {rate} a second: commands sent by clients, commands run by scripts and modules, "
            "bytes on the network, µs of server CPU",
            ["", "sent", "run inside", "bytes", "CPU"],
            lambda name: [with_spread(figures[name][part]) for part in ("clients", "nested", "bytes", "cpu_us")],
        )
    show(
        "The only client is killed after 100 pushes: how many elements are in the list 5 s after they were due, how many ms "
        "after the last was due all were in the list,\nhow many a new consumer receives that only takes from the list, how "
        "many one receives that has the library's own object, and the ms from its start to the last",
        ["", "in the list", "after ms", "list consumer", "own", "ms"],
        lambda name: death_cells(summary["death"][name]),
    )
    show(
        "A consumer waits for a minute while nothing is due: commands that its client sends",
        ["", "commands", ""],
        lambda name: idle_cells(summary["idle"][name]),
    )


def late_cells(figures):
    return [with_spread(figures[part]) for part in ("p50", "p99", "max")]


def death_cells(figures):
    plain = figures.get("plain_got")
    return [
        number(figures["ready"]["median"]),
        number(figures["all_ready_ms"]["median"]) if figures["all_ready_ms"] else "-",
        number(plain["median"]) if plain else "(the same)",
        number(figures["own_got"]["median"]),
        number(figures["last_ms"]["median"]) if figures["last_ms"] else "-",
    ]


def idle_cells(figures):
    commands = ", ".join(f"{name} {number(count)}" for name, count in figures["commands"].items())
    return [number(figures["sum"]), commands]


# ---- Locks ----

# The columns of each table: field, heading.
PAIR = [("p50", "p50 µs"), ("p99", "p99 µs"), ("a_second", "pairs/s"), ("cpu_us", "CPU µs"), ("commands", "sent"),
        ("bytes", "bytes")]
HANDOFF = [("p50", "p50 µs"), ("p99", "p99 µs"), ("cpu_us", "CPU µs"), ("commands", "sent"), ("nested", "inside"),
           ("bytes", "bytes"), ("gave_up", "gave up")]
HOT = [("a_second", "pairs/s"), ("jain", "Jain"), ("longest_to_mean", "longest/mean wait"), ("longest_us", "longest µs"),
       ("cpu_us", "CPU µs"), ("gave_up", "gave up")]
TURNS = [("p50", "p50 µs"), ("other_p50", "SET + DEL"), ("p50_ratio", "ratio"), ("p99", "p99 µs"),
         ("other_p99", "SET + DEL"), ("p99_ratio", "ratio")]
COLUMNS = {
    "pair": PAIR,
    "turns": TURNS,
    "handoff": HANDOFF,
    "hot": HOT,
    "drain": [("p50", "p50 µs"), ("p99", "p99 µs"), ("all_ms", "all, ms"), ("overtaken", "overtaken"),
              ("gave_up", "gave up"), ("commands", "sent"), ("cpu_us", "CPU µs")],
    "rw": [("reads_a_second", "reads/s"), ("writes_a_second", "writes/s"), ("write_p50", "writer p50 µs"),
           ("write_p99", "writer p99 µs"), ("read_p99", "reader p99 µs"), ("cpu_us", "CPU µs")],
    "semaphore": [("a_second", "pairs/s"), ("p50", "wait p50 µs"), ("p99", "wait p99 µs"), ("jain", "Jain"),
                  ("cpu_us", "CPU µs"), ("commands", "sent")],
    "latch": [("p50", "p50 µs"), ("p99", "p99 µs"), ("last_us", "last µs"), ("cpu_us", "CPU µs")],
    "killed": [("ms", "ms")],
    "held": [("process_bytes", "bytes"), ("counted_bytes", "as counted by the server")],
    "crowd": [("process_bytes", "bytes per waiter"), ("counted_bytes", "as counted by the server"),
              ("commands_a_minute", "commands/min"), ("bytes_a_minute", "bytes/min"), ("cpu_share", "CPU, of a core")],
}  # fmt: skip


def kind_of(measure):
    return measure.partition("-")[0]


def print_locks(lockers, left_out, summary):
    for measure, found in summary.items():
        columns = COLUMNS[kind_of(measure)]
        print(f"{measure}: median of the rounds (ratio to lock.so by the same client)")
        rows = [
            [locker.label, *(lock_cell(found[locker.name], field) for field, _ in columns)]
            if "failed" not in found[locker.name]
            else [locker.label, f"failed: {found[locker.name]['failed']}"[:60], *[""] * (len(columns) - 1)]
            for locker in lockers
            if locker.name in found
        ]
        table(["", *(head for _, head in columns)], rows)
    for name, why in left_out.items():
        print(f"{name}: not run: {why}")


def lock_cell(found, field):
    """The median, and its ratio to lock.so's figure."""
    if field not in found["figures"]:
        return "-"
    text = number(found["figures"][field]["median"])
    ratio = found["ratios"].get(field)
    return f"{text} ({number(ratio['median'])})" if ratio else text
