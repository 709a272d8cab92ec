"""The capacity of a core, a node and a cluster, from the costs of one command and one waiter. Pure. docs/scale.md is made
from it."""

from dataclasses import dataclass

GIB = 2**30


@dataclass(frozen=True)
class Costs:
    """The measured costs; CPU is the server's, in µs, memory in bytes."""

    pair_us: float  # an uncontended acquire and release
    handoff_us: float  # a release that grants the lock, and the next request to wait
    held_bytes: float
    waiter_bytes: float  # with its connection


@dataclass(frozen=True)
class Node:
    """The resources of a node. A server runs commands in one thread, so a node is one core, even if it has more."""

    memory_bytes: float = 16 * GIB
    clients: int = 10_000  # maxclients, by default
    busy: float = 0.7  # of a core; above that, requests queue up and latency grows


# The limits, as they are called in the table.
CONNECTIONS, MEMORY, LOOP = "connections", "memory", "the event loop"


def capacity(costs, node, nodes=1):
    """The capacity of `nodes` nodes over which keys are spread evenly. A single lock is always on one node."""
    return {
        "pairs_a_second": nodes * node.busy * 1e6 / costs.pair_us,
        "handoffs_a_second": nodes * node.busy * 1e6 / costs.handoff_us,
        "held": nodes * node.memory_bytes / costs.held_bytes,
        "waiters_by_memory": nodes * node.memory_bytes / costs.waiter_bytes,
        "waiters_by_connections": nodes * node.clients,
    }


def walls(costs, node, every_s, nodes=1):
    """The number of clients at which each limit is reached, if each client requests a contended lock every `every_s`
    seconds and waits for it. A client of a cluster has a connection to one node for each wait."""
    return {
        CONNECTIONS: nodes * node.clients,
        MEMORY: nodes * node.memory_bytes / costs.waiter_bytes,
        LOOP: nodes * node.busy * 1e6 * every_s / costs.handoff_us,
    }


def first_wall(costs, node, every_s, nodes=1):
    """(the first limit that is reached, the number of clients)."""
    found = walls(costs, node, every_s, nodes)
    name = min(found, key=found.get)
    return name, found[name]


def one_lock(costs, handoff_latency_us, hold_us):
    """How often a single lock can be handed off in a second; more nodes do not help. It is limited by the latency from a
    release to the next holder's program, and by how long each holder keeps the lock."""
    return 1e6 / (max(handoff_latency_us, costs.handoff_us) + hold_us)


def steady(cpu_us):
    """For the check: the cost of a pair by number of nodes, as a multiple of that with one. The model predicts 1."""
    return {nodes: cost / cpu_us[1] for nodes, cost in cpu_us.items()}


def costs_from(summary, name="goredis"):
    """The costs from the figures of a run: those of one client, at the highest load. None if any is missing."""

    def median(measure, field):
        return summary.get(measure, {}).get(name, {}).get("figures", {}).get(field, {}).get("median")

    found = [
        median("pair-16", "cpu_us"),
        median("hot-1", "cpu_us"),
        median("held", "counted_bytes"),
        median("crowd", "counted_bytes"),
    ]
    return Costs(*found) if all(found) else None
