"""A cluster in simulated time: the queues in event loops and behind locks, which the model (model.py) does not include.
Pure: the same costs and seed give the same figures."""

import random
from collections import defaultdict
from dataclasses import asdict, dataclass
from itertools import accumulate

import simpy

from .figures import percentile


@dataclass(frozen=True)
class Load:
    nodes: int
    busy: float  # of the event loops, if all locks are requested equally often; the rate is chosen by this
    skew: float = 0  # the exponent of Zipf's law: the n-th lock is requested 1 / n**skew as often as the first
    hold_us: float = 1000
    trip_us: float = 100  # from a client to its node and back
    locks: int = 10_000  # for each node
    asks: int = 100_000  # requests that are counted, in all


# Requests before those that are counted, as a share of them.
WARM = 0.2
# Even keys, at three loads; then uneven keys, at half of the load for which a node is planned.
LOADS = [Load(nodes, busy) for nodes in (1, 3, 100) for busy in (0.35, 0.7, 0.9)] + [
    Load(nodes, 0.35, skew) for nodes in (1, 100) for skew in (0.5, 0.8)
]


class Cluster:
    """Nodes, each with one event loop that serves requests in the order of arrival, and the locks that are held or have
    waiters."""

    def __init__(self, costs, load):
        self.costs, self.load = costs, load
        self.time = simpy.Environment()  # in µs
        self.loops = [simpy.Resource(self.time) for _ in range(load.nodes)]
        self.served_us = [0.0] * load.nodes
        self.locks = defaultdict(lambda: simpy.Resource(self.time))
        self.waits_us, self.waited = [], 0

    def serve(self, node, cost_us):
        with self.loops[node].request() as turn:
            yield turn
            yield self.time.timeout(cost_us)
        self.served_us[node] += cost_us

    def ask(self, lock, counts):
        """One client: it requests the lock, waits until it is granted, holds it, and releases it."""
        asked, node, half_way = self.time.now, lock % self.load.nodes, self.load.trip_us / 2
        yield self.time.timeout(half_way)
        is_held = self.locks[lock].count > 0
        cost_us = (self.costs.handoff_us if is_held else self.costs.pair_us) / 2
        yield from self.serve(node, cost_us)
        with self.locks[lock].request() as hold:
            yield hold
            yield self.time.timeout(half_way)
            if counts:
                self.waits_us.append(self.time.now - asked)
                self.waited += is_held
            yield self.time.timeout(self.load.hold_us + half_way)
            yield from self.serve(node, cost_us)


def draws(load, chance):
    """An endless sequence of locks. The locks that are requested most often are on different nodes."""
    count = load.nodes * load.locks
    weights = list(accumulate((n + 1) ** -load.skew for n in range(count)))
    # Locks with neighbouring popularity are not in neighbouring slots.
    places = list(range(count))
    chance.shuffle(places)
    while True:
        yield from (places[n] for n in chance.choices(range(count), cum_weights=weights, k=10_000))


def simulate(costs, load, seed=1):
    """Requests arrive at random, at the rate that keeps all event loops `busy`; all are served to the end.
    `loop` and `busiest` are shares of the time in which the requests arrived; waits are µs from request to grant."""
    chance = random.Random(seed)
    cluster = Cluster(costs, load)
    every_us = costs.pair_us / load.busy / load.nodes
    warm = int(load.asks * WARM)
    span_us = 0.0

    def arrive():
        nonlocal span_us
        for n, lock in zip(range(warm + load.asks), draws(load, chance)):
            yield cluster.time.timeout(chance.expovariate(1 / every_us))
            cluster.time.process(cluster.ask(lock, n >= warm))
        span_us = cluster.time.now

    cluster.time.process(arrive())
    cluster.time.run()
    return {
        **asdict(load),
        "asks_a_second": 1e6 / every_us,
        "loop": sum(cluster.served_us) / load.nodes / span_us,
        "busiest": max(cluster.served_us) / span_us,
        "contended": cluster.waited / load.asks,
        "p50": percentile(cluster.waits_us, 50),
        "p99": percentile(cluster.waits_us, 99),
    }


def simulate_all(costs):
    return [simulate(costs, load) for load in LOADS]
