"""docs/scale.md, from the data file and the model. Pure: text from data."""

from .figures import spreads
from .markdown import table
from .model import CONNECTIONS, GIB, LOOP, MEMORY, Node, capacity, costs_from, first_wall, one_lock, steady, walls
from .report import number

EVERY_S = [0.01, 0.1, 1, 10, 60]
FINE_S = [0.01 * 10 ** (i / 10) for i in range(39)]
NODES = 100
# What users set who expect more clients than the default allows.
RAISED = 100_000

ANSWERS = {
    CONNECTIONS: "raise `maxclients` and the open files; more nodes",
    MEMORY: "more memory; `lock.max-waiters`; let fewer wait at a time: one waiter for each process",
    LOOP: "more nodes, if it is many locks; hold longer and ask less, if it is one",
}


def count(value):
    """About how many: three digits are more than a model knows."""
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


def lines(costs):
    """For the plot: how many clients the event loop serves, by how often each asks, and the walls that stay."""
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
        ["a hand-off: a release that grants, and the next request to wait", f"{number(costs.handoff_us)} µs"],
        ["a held lock", f"{number(costs.held_bytes)} bytes"],
        ["one who waits, with its connection", f"{number(costs.waiter_bytes / 1024)} KiB"],
    ]
    return ["## What was measured", "", *table(["", "costs"], rows)]


def capacity_lines(costs):
    node = Node()
    one, many = capacity(costs, node), capacity(costs, node, NODES)
    words = {
        "pairs_a_second": "uncontended pairs a second",
        "handoffs_a_second": "hand-offs a second, of many locks together",
        "held": "locks held",
        "waiters_by_memory": "waiting, as memory allows",
        "waiters_by_connections": f"waiting, with `maxclients` {node.clients:,}",
    }
    rows = [[text, count(one[name]), count(many[name])] for name, text in words.items()]
    head = ["", "a core, which is a node", f"{NODES} nodes"]
    intro = (
        f"A server's commands run in one thread, so a node is a core, and {node.busy:.0%} of it, as above that requests "
        f"queue up; it has {node.memory_bytes / GIB:g} GiB. Keys are spread evenly over nodes."
    )
    return ["## What they can hold and hand on", "", intro, "", *table(head, rows)]


def wall_lines(costs):
    rows = []
    for every_s in EVERY_S:
        default = first_wall(costs, Node(), every_s)
        raised = first_wall(costs, Node(clients=RAISED), every_s)
        rows.append([f"{every_s:g} s", *(f"{count(clients)}: {name}" for name, clients in (default, raised))])
    head = ["each asks every", f"`maxclients` {Node().clients:,}", f"`maxclients` {RAISED:,}"]
    what = [[name, answer] for name, answer in ANSWERS.items()]
    return [
        "## Where the first wall is",
        "",
        "Clients of one node, each of which asks for a contended lock so often and waits for it:",
        "",
        *table(head, rows),
        "![clients by how often they ask](benchmarks/scale.svg)",
        "",
        *table(["wall", "what to do"], what),
        "A multi-key lock is of one node: its keys need a common hash tag. What has to span nodes is taken one after the other, in one order everywhere.",
        "",
    ]


def single_lines(costs, summary):
    figures = summary.get("handoff-16", {}).get("goredis", {}).get("figures")
    if not figures:
        return []
    latency = figures["p50"]["median"]
    rows = [[f"{hold:g} ms", count(one_lock(costs, latency, hold * 1000))] for hold in (0, 1, 10, 100)]
    text = (
        f"A single lock is on one node, and changes hands one after the other: {number(latency)} µs from a release to the "
        "next holder here, on the loopback, and a network's round trip elsewhere, besides what each holds it for."
    )
    return ["## One hot lock", "", text, "", *table(["each holds it for", "holders a second"], rows)]


def simulation_lines(rows):
    """What was simulated (simulation.py): with an even load the event loop, with an uneven one the hottest lock."""
    if not rows:
        return []
    first = rows[0]
    cells = [
        [
            str(row["nodes"]),
            f"1 / n^{row['skew']:g}" if row["skew"] else "all alike",
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
        f"{first['asks']:,} requests that arrive at random, {first['locks']:,} locks for each node; each holds its lock "
        f"for {first['hold_us'] / 1000:g} ms and is {first['trip_us']:g} µs from its node and back. "
        "Waits are from asking to having the lock, of which the way is a part."
    )
    more = (
        "With even keys a node of many is as one alone, and up to the 70 % that are counted on above it is the way that "
        "takes long. With uneven keys it is the hottest lock that gives in, and then its node, as a hand-off costs more "
        "than an uncontended pair: more than 100 % is work that was left when the last had asked. No other node helps."
    )
    head = ["nodes", "the n-th lock is asked for", "asks a second", "event loops", "the busiest", "had to wait", "p50 µs", "p99 µs"]
    return ["## By simulation", "", text, "", *table(head, cells), more, ""]


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
        f"The model says that a pair costs as much on a node of many as on one alone. Measured on {machine['cpus']} CPUs, "
        "which the load shares with the nodes, so that the rates of several nodes say little; the cost is what is checked. "
        "It grows where the same clients are spread over more nodes: each turn of an event loop then serves fewer at a time, "
        "and a turn for one alone costs three times as much ([pairs of one client and of 16](benchmarks.md))."
    )
    head = ["", "nodes", "CPU µs, all nodes together", "of one node's", "pairs a second"]
    return ["## The check", "", text, "", *table(head, rows)]


def page(data, summary, costs, simulated):
    """The whole page, from the costs that the summary of locks has, and what was simulated with them."""
    quick = data["locks"]["about"]["options"]["quick"]
    found = ["# How far it goes", "", "<!-- made by bench/field/report.py from benchmarks/data.json -->", ""]
    if quick:
        found += ["**From a quick run: not for quoting.**", ""]
    found += ["What one core, one node and a cluster can hold and hand on, computed from [what was measured](benchmarks.md).", ""]
    found += costs_lines(costs) + capacity_lines(costs) + wall_lines(costs)
    found += single_lines(costs, summary) + simulation_lines(simulated) + check_lines(data.get("scale"))
    return "\n".join(found).rstrip() + "\n"


__all__ = ["costs_from", "lines", "page"]
