"""What is kept of the rounds of locks, and the summary of it that tables and plots show. No server, no process."""

from .figures import common_spreads, ratio_rows
from .report import COLUMNS, kind_of

# Counts, which are often 0: a ratio to 0 has no meaning.
NO_RATIO = {"nested", "gave_up", "overtaken"}
# The measure whose distributions are plotted.
DRAWN = "pair-1"


def kept(measure, row):
    """The fields that are shown of a competitor's figures of one round, or the reason why there are none."""
    names = [field for field, _ in COLUMNS[kind_of(measure)]] + ["quantiles"] * (measure == DRAWN) + ["failed"]
    return {name: row[name] for name in names if name in row}


def summarize(measured, lockers):
    """From {measure: {competitor: [a row for each round]}}: medians with spread, the same as ratios to lock.so by the same
    client, and the distribution of all rounds; or the reason why there is none."""
    beside = {locker.name: locker.beside for locker in lockers}
    return {measure: of_measure(rounds, beside) for measure, rounds in measured.items()}


def of_measure(rounds, beside):
    found = {}
    for name, rows in rounds.items():
        failures = [row["failed"] for row in rows if "failed" in row]
        if failures:
            found[name] = {"failed": failures[0]}
            continue
        base = rounds.get(beside.get(name), [])
        fields = [field for field in flat(rows[0]) if field not in NO_RATIO]
        ratios = ratio_rows([flat(row) for row in rows], [flat(row) for row in base], fields)
        found[name] = {
            "figures": common_spreads([flat(row) for row in rows]),
            "ratios": common_spreads(ratios),
            "quantiles": middle([row["quantiles"] for row in rows if "quantiles" in row]),
        }
    return found


def flat(row):
    """The fields of a row that are single numbers."""
    return {name: value for name, value in row.items() if isinstance(value, (int, float))}


def middle(distributions):
    """The median of the rounds, at each quantile."""
    return [sorted(column)[len(column) // 2] for column in zip(*distributions)]
