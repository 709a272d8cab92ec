"""From the raw rounds of locks to what tables and plots show. No server, no process."""

from .figures import common_spreads, ratio_rows


# Counts, which are often 0: a multiple of that says nothing.
NO_RATIO = {"nested", "gave_up", "overtaken", "handoffs", "limit_ms", "waiters"}


def summarize(raw, lockers):
    """For each measure and contestant: medians with spread, the same as ratios to ours by the same client, and the
    distribution of all rounds; or why there is none."""
    names = list(dict.fromkeys([name for row in raw["rounds"] for name in row] + list(raw["once"])))
    beside = {locker.name: locker.beside for locker in lockers}
    return {name: of_measure(rounds_of(raw, name), beside) for name in names}


def rounds_of(raw, name):
    if name in raw["once"]:
        return [raw["once"][name]]
    return [row[name] for row in raw["rounds"] if name in row]


def of_measure(rounds, beside):
    found = {}
    for name in dict.fromkeys(name for row in rounds for name in row):
        rows = [row[name] for row in rounds if name in row]
        failures = [row["failed"] for row in rows if "failed" in row]
        if failures:
            found[name] = {"failed": failures[0]}
            continue
        base = [row.get(beside.get(name), {}) for row in rounds]
        fields = [field for field in flat(rows[0]) if field not in NO_RATIO]
        ratios = ratio_rows([flat(row) for row in rows], [flat(row) for row in base], fields)
        found[name] = {
            "figures": common_spreads([flat(row) for row in rows]),
            "ratios": common_spreads(ratios),
            "quantiles": middle([row["quantiles"] for row in rows if "quantiles" in row]),
        }
    return found


def flat(row):
    """The plain numbers of a row."""
    return {name: value for name, value in row.items() if isinstance(value, (int, float))}


def middle(distributions):
    """The median of the rounds, at each quantile."""
    return [sorted(column)[len(column) // 2] for column in zip(*distributions)]
