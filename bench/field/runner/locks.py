"""The measures of locks. Each is a function, which starts a fresh server and a program, and returns figures."""

import time
from dataclasses import dataclass

from .delay import without_own
from .figures import by_turns, client_shares, difference, fairness, latencies, quantiles, queue_order, split_calls
from .otherservers import OTHERS
from .program import Program, ProgramFailed
from .server import Monitor, Server

START_S, ANSWER_S = 120, 240
HOLD_MS = 2


@dataclass(frozen=True)
class Sizes:
    """The sizes of all measures; times in ms."""

    warm: int = 2000
    run: int = 3000
    clients: tuple = (1, 16)
    turns: int = 20
    turn: int = 250
    waiters: tuple = (2, 16, 128, 1000)
    handoffs: int = 300
    handoff_limit: int = 10_000
    killed_limit: int = 75_000
    queue: int = 1000
    readers: int = 100
    semaphore: tuple = (100, 10)
    held: int = 100_000
    crowd: int = 1000
    idle_s: int = 60
    # Time until all wait; what a library does when it begins to wait is not part of the wait.
    begin_s: float = 1.0


QUICK = Sizes(
    warm=150, run=150, turns=2, turn=50, waiters=(2, 16), handoffs=10, handoff_limit=1000, killed_limit=2000, queue=50, readers=10,
    semaphore=(10, 3), held=320, crowd=30, idle_s=1, begin_s=0.1,
)  # fmt: skip


class Ground:
    """What all competitors share: server program, module, folder."""

    def __init__(self, program, module, folder):
        self.program, self.module, self.folder = program, module, folder

    def server(self, locker, what):
        folder = self.folder / f"{locker.name}-{what}"
        if locker.server in OTHERS:
            return OTHERS[locker.server](folder)
        return Server(self.program, folder, self.module if locker.ours else None)

    def bare(self, locker, what):
        """A server without the module, for any competitor."""
        return Server(self.program, self.folder / f"{locker.name}-{what}", None)

    def start(self, locker, server, what, *arguments):
        return Program(locker.command(what, server.port, *arguments), server.folder / "program.log")


def used(before, after):
    """CPU, bytes and calls between two readings of a server's usage."""
    moved = None if after["bytes"] is None else after["bytes"] - before["bytes"]
    return {
        "cpu_us": (after["cpu_s"] - before["cpu_s"]) * 1e6,
        "bytes": moved,
        "calls": None if after["calls"] is None else without_own(difference(before["calls"], after["calls"])),
    }


def each(usage, count, shares=None):
    """The same divided by `count`. Without shares all calls count as sent by clients."""
    row = {"cpu_us": usage["cpu_us"] / count, "bytes": None, "commands": None, "nested": None}
    if usage["bytes"] is not None:
        row["bytes"] = usage["bytes"] / count
    if usage["calls"] is not None:
        clients, nested = split_calls(usage["calls"], shares) if shares else (sum(usage["calls"].values()), 0)
        row.update(commands=clients / count, nested=nested / count)
    return row


def run(ground, locker, sizes, what, *arguments):
    """What the program prints at its end, and what the server has used between `ready` and `done`."""
    with ground.server(locker, what) as server, ground.start(locker, server, what, *arguments) as program:
        program.expect("ready", START_S)
        time.sleep(sizes.begin_s)
        before = server.usage(opening=True)
        program.go_on()
        done = program.expect("done", ANSWER_S)
        return done, used(before, server.usage())


def anatomy(ground, locker, sizes):
    """For each command, the share that clients send. MONITOR slows the server down, so nothing else is measured meanwhile."""
    if locker.server in OTHERS or "handoff" not in locker.offers:
        return {"shares": None}
    words = ["handoff", sizes.waiters[0], 20, 0, 20, sizes.handoff_limit, HOLD_MS]
    with ground.server(locker, "anatomy") as server, ground.start(locker, server, *words) as program:
        program.expect("ready", START_S)
        monitor = Monitor(server.port)
        program.go_on()
        program.expect("done", ANSWER_S)
        return {"shares": client_shares(monitor.end())}


def pair(ground, locker, sizes, shares, clients):
    done, usage = run(ground, locker, sizes, "pair", clients, sizes.warm, sizes.run)
    count = len(done["us"])
    return {
        **latencies(done["us"]),
        "a_second": sum(done["pairs"]) / (sizes.run / 1000),
        **each(usage, count, shares),
        "quantiles": quantiles(done["us"]),
    }


def turns(ground, locker, sizes, _, clients):
    """lock.so, alternating in one process with SET NX and DEL by the same client on a server without the module: a ratio of
    a few percent is less than the difference between two processes, or between two minutes."""
    with ground.server(locker, "turns") as server, ground.bare(locker, "turns-bare") as bare:
        words = [clients, sizes.warm, sizes.turn, sizes.turns, bare.port]
        with ground.start(locker, server, "turns", *words) as program:
            program.expect("ready", START_S)
            program.go_on()
            done = program.expect("done", ANSWER_S)
    return by_turns(done["us"], done["other_us"])


def handoff(ground, locker, sizes, shares, waiters):
    words = [waiters, 20, sizes.warm, sizes.handoffs, sizes.handoff_limit, HOLD_MS]
    done, usage = run(ground, locker, sizes, "handoff", *words)
    count = len(done["us"])
    if not count:
        raise ProgramFailed(f"no hand-off in {sizes.handoff_limit / 1000:g} s")
    return {
        **latencies(done["us"]),
        **each(usage, count, shares),
        "gave_up": done["gave_up"],
    }


def hot(ground, locker, sizes, shares, locks):
    done, usage = run(ground, locker, sizes, "hot", sizes.clients[-1], locks, sizes.warm, sizes.run)
    count = len(done["us"])
    return {
        "a_second": sum(done["pairs"]) / (sizes.run / 1000),
        **fairness(done["pairs"], done["us"]),
        **each(usage, count, shares),
        "gave_up": done.get("gave_up", 0),
    }


def drain(ground, locker, sizes, shares, waiters):
    """A queue in which every tenth waiter gives up after a second; then all others are granted the lock in order."""
    done, usage = run(ground, locker, sizes, "drain", waiters, 10, 1000, 2000)
    order = queue_order(done["places"])
    last = max(place["granted"] for place in done["places"])
    us = order.pop("us")
    return {
        **latencies(us),
        **order,
        "all_ms": (last - done["released"]) / 1e6,
        **each(usage, len(us) + 1, shares),
    }


def rw(ground, locker, sizes, shares, readers):
    done, usage = run(ground, locker, sizes, "rw", readers, 1, sizes.warm, sizes.run)
    reads, writes = len(done["read_us"]), len(done["write_us"])
    return {
        "reads_a_second": sum(done["reads"]) / (sizes.run / 1000),
        "writes_a_second": sum(done["writes"]) / (sizes.run / 1000),
        "write_p50": latencies(done["write_us"])["p50"] if writes else None,
        "write_p99": latencies(done["write_us"])["p99"] if writes else None,
        "read_p99": latencies(done["read_us"])["p99"],
        **each(usage, reads + writes, shares),
    }


def semaphore(ground, locker, sizes, shares, clients):
    done, usage = run(ground, locker, sizes, "semaphore", clients, sizes.semaphore[1], sizes.warm, sizes.run)
    count = len(done["us"])
    return {
        "a_second": sum(done["pairs"]) / (sizes.run / 1000),
        **latencies(done["us"]),
        **fairness(done["pairs"], done["us"]),
        **each(usage, count, shares),
    }


def latch(ground, locker, sizes, shares, waiters):
    done, usage = run(ground, locker, sizes, "latch", waiters)
    return {**latencies(done["us"]), "last_us": max(done["us"]), **each(usage, waiters, shares)}


def killed(ground, locker, sizes):
    """From the death of the holder's process to the next grant; None if there is none within the limit."""
    with (
        ground.server(locker, "killed") as server,
        ground.start(locker, server, "hold", 1, 0) as holder,
        ground.start(locker, server, "await") as waiter,
    ):
        # Both are connected first, so that the lease is new when its holder dies.
        for program in (holder, waiter):
            program.expect("connected", START_S)
        for program, at in ((holder, "held"), (waiter, "asking")):
            program.go_on()
            program.expect(at, START_S)
        time.sleep(sizes.begin_s)
        died = time.monotonic_ns()
        holder.kill()
        granted = waiter.expect("granted", sizes.killed_limit / 1000, or_silence=True)
    return {"ms": (granted["ns"] - died) / 1e6 if granted else None}


def held(ground, locker, sizes):
    """The server's memory for a held lock."""
    with ground.server(locker, "held") as server, ground.start(locker, server, "hold", sizes.held, 0) as program:
        program.expect("connected", START_S)
        before = server.memory()
        program.go_on()
        program.expect("held", START_S + ANSWER_S)
        after = server.memory()
    return {
        "process_bytes": (after["process"] - before["process"]) / sizes.held,
        "counted_bytes": None if before["counted"] is None else (after["counted"] - before["counted"]) / sizes.held,
    }


def crowd(ground, locker, sizes, shares):
    """What waiters cost: memory, and the work that they cause on the server while they wait."""
    with ground.server(locker, "crowd") as server, ground.start(locker, server, "crowd", sizes.crowd) as program:
        program.expect("connected", START_S)
        before = server.memory()
        program.go_on()
        program.expect("waiting", START_S)
        # Waiters that poll never become idle.
        time.sleep(5 * sizes.begin_s)
        after, beginning = server.memory(), server.usage(opening=True)
        time.sleep(sizes.idle_s)  # the measured time
        usage = used(beginning, server.usage())
    one = each(usage, sizes.idle_s / 60, shares)
    return {
        "process_bytes": (after["process"] - before["process"]) / sizes.crowd,
        "counted_bytes": None if before["counted"] is None else (after["counted"] - before["counted"]) / sizes.crowd,
        "commands_a_minute": one["commands"],
        "bytes_a_minute": one["bytes"],
        "cpu_share": usage["cpu_us"] / 1e6 / sizes.idle_s,
    }


