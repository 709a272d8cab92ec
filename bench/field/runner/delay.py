"""What is measured of a delayed queue."""

import time
from concurrent.futures import ThreadPoolExecutor

from .figures import client_shares, difference, lateness, per_minute, split_calls
from .program import Program
from .server import Monitor, Server

QUEUE = "orders"
LOW_MS, HIGH_MS = 500, 3000
ANATOMY_RATE, ANATOMY_COUNT = 100, 200
START_S, LIMIT_S = 60, 120
# For the client that is killed, and for the consumers after it.
DEATH_COUNT, DEATH_DELAY_MS, AFTER_DUE_S, CONSUME_S = 100, 2000, 5, 10
FAR_MS = 3_600_000
# What the runner itself sends.
OWN = {"info", "monitor"}


class Field:
    """What all competitors share: server program, module, folder."""

    def __init__(self, program, module, folder):
        self.program, self.module, self.folder = program, module, folder

    def server(self, competitor, what):
        folder = self.folder / f"{competitor.name}-{what}"
        return Server(self.program, folder, self.module if competitor.ours else None)

    def start(self, competitor, server, what, *arguments):
        command = competitor.command(what, server.port, QUEUE, *arguments)
        return Program(command, server.folder / "program.log")


def flow(field, competitor, rate, seconds):
    """Pushes elements at a steady rate: how late each is, and what they cost the server together."""
    count = rate * seconds
    with field.server(competitor, f"flow-{rate}") as server:
        with field.start(competitor, server, "flow", rate, count, LOW_MS, HIGH_MS) as program:
            program.expect("ready", START_S)
            settle()
            before = server.usage()
            program.go_on()
            done = program.expect("done", LIMIT_S)
            settle()
            after = server.usage()
    return {
        "late": lateness(done["late_ms"]),
        "late_ms": [round(ms, 3) for ms in done["late_ms"]],
        "pushing_s": done["pushing_s"],
        "calls": without_own(difference(before["calls"], after["calls"])),
        "bytes": (after["bytes"] - before["bytes"]) / count,
        "cpu_us": (after["cpu_s"] - before["cpu_s"]) / count * 1e6,
    }


def sleeper(rate, seconds):
    """The machine itself: a process sleeps until each element of that rate would be due; how late it wakes."""
    start, late_ms = time.time(), []
    for i in range(rate * seconds):
        due = start + i / rate
        time.sleep(max(0, due - time.time()))
        late_ms.append((time.time() - due) * 1000)
    return {"late": lateness(late_ms), "late_ms": [round(ms, 3) for ms in late_ms]}


def settle():
    """Waits: a program may report a job when it begins, and the end of the job reaches the server later. Apart from this
    no wait here is for a fixed time."""
    time.sleep(0.2)


def without_own(calls):
    return {name: count for name, count in calls.items() if name.partition("|")[0] not in OWN}


def anatomy(field, competitor):
    """For each command, the share that clients send. MONITOR slows the server down, so nothing else is measured meanwhile."""
    with field.server(competitor, "anatomy") as server:
        with field.start(competitor, server, "flow", ANATOMY_RATE, ANATOMY_COUNT, LOW_MS, HIGH_MS) as program:
            program.expect("ready", START_S)
            monitor = Monitor(server.port)
            program.go_on()
            program.expect("done", LIMIT_S)
            settle()
            seen = monitor.end()
    return {
        "seen": {f"{origin} {name}": count for (origin, name), count in sorted(seen.items())},
        "shares": client_shares(seen),
    }


def cost(flow_result, shares, count):
    """Commands, bytes and CPU for one element."""
    clients, nested = split_calls(flow_result["calls"], shares)
    return {
        "clients": clients / count,
        "nested": nested / count,
        "bytes": flow_result["bytes"],
        "cpu_us": flow_result["cpu_us"],
    }


def death(field, competitor):
    """The only client is killed after it has pushed: where its elements are then, and which consumer receives them."""
    with field.server(competitor, "death") as server:

        def ask(command):
            return server.client.execute_command(*command.format(q=QUEUE).split())

        with field.start(competitor, server, "push", DEATH_COUNT, DEATH_DELAY_MS) as program:
            due_ms = program.expect("pushed", START_S)["due_ms"]
            program.kill()
        result = {"all_ready_ms": watch(lambda: ask(competitor.ready), due_ms)}
        result["ready"], result["pending"] = ask(competitor.ready), ask(competitor.pending)
        if competitor.plain_differs:
            result["plain"] = consume(field, competitor, server, "plain")
        result["own"] = consume(field, competitor, server)
    return result


def watch(ready, due_ms):
    """How many ms after the last element was due all elements were ready; None if they were not after 5 s."""
    all_ready_ms = None
    while (now_ms := time.time() * 1000) < due_ms + AFTER_DUE_S * 1000:
        if all_ready_ms is None and ready() == DEATH_COUNT:
            all_ready_ms = now_ms - due_ms
        time.sleep(0.002)
    return all_ready_ms


def consume(field, competitor, server, *mode):
    """A new consumer: how many elements it received, how late, and how long after its start it received the last."""
    with field.start(competitor, server, "take", DEATH_COUNT, CONSUME_S, *mode) as program:
        done = program.expect("done", START_S + CONSUME_S)
    got = len(done["late_ms"])
    return {
        "got": got,
        "late": lateness(done["late_ms"]) if got else None,
        "last_ms": max(done["received_ms"]) - done["start_ms"] if got else None,
    }


def idle(field, competitor, seconds):
    """What a waiting consumer sends while one element is pending that is due in an hour."""
    with field.server(competitor, "idle") as server:
        with field.start(competitor, server, "wait", FAR_MS) as program:
            program.expect("ready", START_S)
            settle()
            monitor = Monitor(server.port)
            # The measured time.
            time.sleep(seconds)
            seen = monitor.end()
    return per_minute(seen, seconds)


def all_at_once(function, competitors):
    """For measurements that need little of the machine: all at the same time, each with a server of its own."""
    with ThreadPoolExecutor(len(competitors)) as pool:
        return dict(zip((c.name for c in competitors), pool.map(function, competitors)))
