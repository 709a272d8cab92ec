"""What is computed from the raw figures. Pure: no server, no process."""

import math
import statistics


def percentile(numbers, percent):
    """The smallest number for which at least that percentage of all numbers is not larger (nearest rank)."""
    ordered = sorted(numbers)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def lateness(late_ms):
    return {
        "p50": percentile(late_ms, 50),
        "p99": percentile(late_ms, 99),
        "max": max(late_ms),
    }


def spread(numbers):
    """Median, lowest and highest of the rounds."""
    return {"median": statistics.median(numbers), "low": min(numbers), "high": max(numbers)}


def spreads(rows):
    """The same for each field of rows that have the same fields."""
    return {name: spread([row[name] for row in rows]) for name in rows[0]}


def difference(before, after):
    """How often each command was called in between. Commands that were not called are left out."""
    calls = {name: count - before.get(name, 0) for name, count in after.items()}
    return {name: count for name, count in calls.items() if count}


def client_shares(seen):
    """For each command that MONITOR showed, the share that was sent by clients, not called by a script or a module."""
    totals, sent = {}, {}
    for (origin, name), count in seen.items():
        totals[name] = totals.get(name, 0) + count
        if origin == "client":
            sent[name] = sent.get(name, 0) + count
    return {name: sent.get(name, 0) / total for name, total in totals.items()}


def split_calls(calls, shares):
    """(sent by clients, called by scripts and modules). A command that MONITOR has not shown counts as called by a module:
    MONITOR shows all commands of clients and scripts."""
    by_clients = sum(count * shares.get(name.partition("|")[0], 0) for name, count in calls.items())
    return by_clients, sum(calls.values()) - by_clients


def per_minute(seen, seconds):
    """How many commands clients sent in a minute, by command, and the sum."""
    sent = {name: count * 60 / seconds for (origin, name), count in sorted(seen.items()) if origin == "client"}
    return {"sum": sum(sent.values()), "commands": sent}


def quantiles(numbers, steps=200):
    """The distribution in `steps` steps of equal probability, from the smallest number to the largest."""
    ordered = sorted(numbers)
    return [ordered[round(i * (len(ordered) - 1) / steps)] for i in range(steps + 1)]


def jain(shares):
    """Jain's index: 1 if all shares are the same, 1 / n if one has everything."""
    squares = len(shares) * sum(share * share for share in shares)
    return sum(shares) ** 2 / squares if squares else 1.0


def latencies(us):
    return {"p50": percentile(us, 50), "p99": percentile(us, 99)}


def by_turns(turns, other_turns):
    """The latencies of two sides that alternated: the median of the slices, and the median ratio of neighbouring slices."""
    mine, other = [latencies(us) for us in turns], [latencies(us) for us in other_turns]
    row = {}
    for field in ("p50", "p99"):
        row[field] = statistics.median(turn[field] for turn in mine)
        row[f"other_{field}"] = statistics.median(turn[field] for turn in other)
        row[f"{field}_ratio"] = statistics.median(a[field] / b[field] for a, b in zip(mine, other))
    return row


def fairness(pairs, waits_us):
    """How even the shares of the workers are, and how much longer the longest wait was than the mean."""
    mean = statistics.fmean(waits_us)
    return {"jain": jain(pairs), "longest_to_mean": max(waits_us) / mean if mean else 1.0, "longest_us": max(waits_us)}


def queue_order(places):
    """Of the waiters of a queue: how many left it, how many were overtaken (a later request was granted first), and the
    µs from each release to the next grant. Times are ns; `granted` is 0 for a waiter that gave up."""
    stayed = [place for place in places if place["granted"]]
    earliest_after = math.inf
    overtaken = 0
    for place in sorted(stayed, key=lambda place: place["asked"], reverse=True):
        overtaken += place["granted"] > earliest_after
        earliest_after = min(earliest_after, place["granted"])
    by_grant = sorted(stayed, key=lambda place: place["granted"])
    gaps = [(after["granted"] - before["released"]) / 1000 for before, after in zip(by_grant, by_grant[1:])]
    return {"gave_up": len(places) - len(stayed), "overtaken": overtaken, "us": gaps}


def ratio_rows(rows, base_rows, fields):
    """The figures of each round as multiples of another competitor's in the same round."""
    return [
        {field: row[field] / base[field] for field in fields if row.get(field) is not None and base.get(field)}
        for row, base in zip(rows, base_rows)
        if row and base
    ]


def common_spreads(rows):
    """spreads() of rows, some of which may lack a field or have no number in it."""
    names = {name: None for row in rows for name in row}
    columns = {
        name: [row[name] for row in rows if isinstance(row.get(name), (int, float))] for name in names
    }
    return {name: spread(numbers) for name, numbers in columns.items() if numbers}
