"""What is computed from the raw figures; no server, no process."""

import math
import statistics


def percentile(numbers, percent):
    """The smallest number that at least so many percent of all are not above (nearest rank)."""
    ordered = sorted(numbers)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def lateness(late_ms):
    return {
        "p50": percentile(late_ms, 50),
        "p99": percentile(late_ms, 99),
        "max": max(late_ms),
        "min": min(late_ms),
    }


def spread(numbers):
    """Median, lowest and highest of the rounds."""
    return {"median": statistics.median(numbers), "low": min(numbers), "high": max(numbers)}


def spreads(rows):
    """The same for each field of rows that are alike."""
    return {name: spread([row[name] for row in rows]) for name in rows[0]}


def difference(before, after):
    """How often each command was called in between; what was not called is left out."""
    calls = {name: count - before.get(name, 0) for name, count in after.items()}
    return {name: count for name, count in calls.items() if count}


def client_shares(seen):
    """Of each command that MONITOR showed, the share that clients sent, and not a script or a module."""
    totals, sent = {}, {}
    for (origin, name), count in seen.items():
        totals[name] = totals.get(name, 0) + count
        if origin == "client":
            sent[name] = sent.get(name, 0) + count
    return {name: sent.get(name, 0) / total for name, total in totals.items()}


def split_calls(calls, shares):
    """(sent by clients, called by scripts and modules). What MONITOR has not shown counts as a module's own:
    it shows all that clients and scripts do."""
    by_clients = sum(count * shares.get(name.partition("|")[0], 0) for name, count in calls.items())
    return by_clients, sum(calls.values()) - by_clients


def per_minute(seen, seconds):
    """What clients sent, by command, and their sum, for a minute."""
    sent = {name: count * 60 / seconds for (origin, name), count in sorted(seen.items()) if origin == "client"}
    return {"sum": sum(sent.values()), "commands": sent}
