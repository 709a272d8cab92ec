"""docs/scale.md, from the data file and the model. Pure: text from data."""

from .figures import spreads
from .markdown import table
from .model import CONNECTIONS, GIB, LOOP, MEMORY, Node, capacity, costs_from, first_wall, one_lock, steady, walls
from .report import number

EVERY_S = [0.01, 0.1, 1, 10, 60]
FINE_S = [0.01 * 10 ** (i / 10) for i in range(39)]
NODES = 100
# A setting for more clients than the default allows.
RAISED = 100_000

ANSWERS = {
    CONNECTIONS: "raise `maxclients` and the open files; more nodes",
    MEMORY: "more memory; `lock.max-waiters`; fewer waiters at a time: one for each process",
    LOOP: "for many locks: more nodes; for one lock: hold it longer and request it less often",
}


def count(value):
    """Rounded to two digits: more are not justified by a model."""
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


def lines(costs):
    """For the plot: how many clients the event loop serves, by the time between their requests, and the constant limits."""
    node = Node()
    loops = [
        (f"the event loop of {'one node' if n == 1 else f'{n} nodes'}", [walls(costs, node, s, n)[LOOP] for s in FINE_S])
        for n in (1, NODES)
    ]
    stay = [
        ("connections of one node, by default", node.clients),
        (f"memory of one node, {node.memory_bytes / GIB:g} GiB", walls(costs, node, 1)[MEMORY]),
        (f"connections of {NODES} nodes, by default", NODES * node.clients),
    ]
    return FINE_S, loops, stay


def costs_lines(costs):
    rows = [
        ["an uncontended acquire and release", f"{number(costs.pair_us)} µs of the server's CPU"],
        ["a hand-off: a release that grants the lock, and the next request to wait", f"{number(costs.handoff_us)} µs"],
        ["a held lock", f"{number(costs.held_bytes)} bytes"],
        ["a waiter, with its connection", f"{number(costs.waiter_bytes / 1024)} KiB"],
    ]
    return ["## Measured costs", "", *table(["", "costs"], rows)]


def capacity_lines(costs):
    node = Node()
    one, many = capacity(costs, node), capacity(costs, node, NODES)
    words = {
        "pairs_a_second": "uncontended pairs a second",
        "handoffs_a_second": "hand-offs a second, of many locks together",
        "held": "locks held",
        "waiters_by_memory": "waiters, limited by memory",
        "waiters_by_connections": f"waiters, limited by `maxclients` {node.clients:,}",
    }
    rows = [[text, count(one[name]), count(many[name])] for name, text in words.items()]
    head = ["", "one node, which is one core", f"{NODES} nodes"]
    intro = (
        f"A server runs commands in one thread, so a node is one core. Only {node.busy:.0%} of the core is used here, because "
        f"requests queue up above that. A node has {node.memory_bytes / GIB:g} GiB. Keys are spread evenly over the nodes."
    )
    return ["## Capacity of one node and of a cluster", "", intro, "", *table(head, rows)]


def wall_lines(costs):
    rows = []
    for every_s in EVERY_S:
        default = first_wall(costs, Node(), every_s)
        raised = first_wall(costs, Node(clients=RAISED), every_s)
        rows.append([f"{every_s:g} s", *(f"{count(clients)}: {name}" for name, clients in (default, raised))])
    head = ["each requests it every", f"`maxclients` {Node().clients:,}", f"`maxclients` {RAISED:,}"]
    what = [[name, answer] for name, answer in ANSWERS.items()]
    return [
        "## The first limit",
        "",
        "How many clients one node can serve, if each client requests a contended lock at this interval and waits for it, and "
        "what limits their number:",
        "",
        *table(head, rows),
        "![clients by interval of their requests](benchmarks/scale.svg)",
        "",
        *table(["limit", "what to do"], what),
        "A multi-key lock is on one node: its keys need a common hash tag. Locks on several nodes have to be acquired one after "
        "the other, in the same order everywhere.",
        "",
    ]


def single_lines(costs, summary):
    figures = summary.get("handoff-16", {}).get("goredis", {}).get("figures")
    if not figures:
        return []
    latency = figures["p50"]["median"]
    rows = [[f"{hold:g} ms", count(one_lock(costs, latency, hold * 1000))] for hold in (0, 1, 10, 100)]
    text = (
        f"A single lock is on one node, and its hand-offs are sequential. From a release to the next holder it takes "
        f"{number(latency)} µs here, on the loopback interface, and a network round trip elsewhere. The time for which each "
        "holder keeps the lock is added to that."
    )
    return ["## One contended lock", "", text, "", *table(["each holds it for", "holders a second"], rows)]


def simulation_lines(rows):
    """The results of simulation.py: with an even load the event loop is the limit, with an uneven one the hottest lock."""
    if not rows:
        return []
    first = rows[0]
    cells = [
        [
            str(row["nodes"]),
            f"1 / n^{row['skew']:g}" if row["skew"] else "all equally",
            count(row["asks_a_second"]),
            f"{row['loop']:.0%}",
            f"{row['busiest']:.0%}",
            f"{row['contended']:.1%}",
            number(row["p50"]),
            number(row["p99"]),
        ]
        for row in rows
    ]
    text = (
        f"{first['asks']:,} requests arrive at random, for {first['locks']:,} locks on each node. Each client holds its lock "
        f"for {first['hold_us'] / 1000:g} ms; the round trip to its node takes {first['trip_us']:g} µs. "
        "Waits are from the request to the grant, and include the round trip."
    )
    more = (
        "With even keys a node of a cluster behaves like a single node, and up to the load of 70 % that is assumed above, most "
        "of the wait is the round trip. With uneven keys the hottest lock is the first to be overloaded, and then its node, "
        "because a hand-off costs more than an uncontended pair. A load of more than 100 % includes work that remained when "
        "the last request had arrived. Other nodes do not help."
    )
    head = ["nodes", "requests for the n-th lock", "requests a second", "event loops", "the busiest", "had to wait",
            "p50 µs", "p99 µs"]  # fmt: skip
    return ["## Simulation", "", text, "", *table(head, cells), more, ""]


def check_lines(scale):
    if not scale:
        return []
    rows = []
    for what, text in (("pair", "uncontended, 64 clients"), ("hot", "64 clients on 1,000 locks")):
        found = {int(nodes): spreads(rounds) for nodes, rounds in scale["measured"][what].items()}
        ratios = steady({nodes: row["cpu_us"]["median"] for nodes, row in found.items()})
        rows += [
            [text, str(nodes), number(row["cpu_us"]["median"]), number(ratios[nodes]), count(row["a_second"]["median"])]
            for nodes, row in sorted(found.items())
        ]
    machine = scale["about"]["machine"]
    text = (
        "The model assumes that a pair costs the same on a node of a cluster as on a single node. This was measured on "
        f"{machine['cpus']} CPUs, which the load shares with the nodes, so the rates of several nodes show little; the check is "
        "about the cost. The cost grows when the same clients are spread over more nodes: each iteration of an event loop then "
        "serves fewer clients, and an iteration for one client alone costs three times as much "
        "([pairs of one client and of 16](benchmarks.md))."
    )
    head = ["", "nodes", "CPU µs, all nodes together", "relative to one node", "pairs a second"]
    return ["## Check of the model", "", text, "", *table(head, rows)]


def page(data, summary, costs, simulated):
    """The whole page, from the costs in the summary of locks, and the results of the simulation with these costs."""
    quick = data["locks"]["about"]["options"]["quick"]
    found = ["# Capacity", "", "<!-- made by bench/field/report.py from benchmarks/data.json -->", ""]
    if quick:
        found += ["**From a quick run: not to be quoted.**", ""]
    found += ["The capacity of one core, one node and a cluster, computed from [the measured costs](benchmarks.md).", ""]
    found += costs_lines(costs) + capacity_lines(costs) + wall_lines(costs)
    found += single_lines(costs, summary) + simulation_lines(simulated) + check_lines(data.get("scale"))
    return "\n".join(found).rstrip() + "\n"


__all__ = ["costs_from", "lines", "page"]
