"""Many readers and writers at once: they exclude each other, and neither kind starves the other.

Writers read a counter and write it back under the write lock, in two commands; a reader that reads it twice under the
read lock must see the same number.
"""

import random
import threading

import pytest

from harness import scaled, wait_for
from harness.seeds import seed_of_run

LONG = 600_000
# How many grants for each client of a storm there may be between another client's request and its grant: one for each
# client that was there before, one for each that is granted together with it, and those of requests that the server
# processes in the same event-loop iteration as the grant, before it sends the reply.
BOUND = 3


def granted_by(text):
    """The number of grants in a reply to INFO."""
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return sum(int(fields[f"lock_granted_{how}"]) for how in ("at_once", "after_wait"))


class Client(threading.Thread):
    def __init__(self, server, name, program):
        super().__init__(daemon=True)
        self.actor, self.owner, self.program = server.actor(name), name, program
        self.writes_done, self.problem = 0, None

    def call(self, *words):
        return self.actor.call(*words, timeout=60)

    def run(self):
        try:
            self.program(self)
        except BaseException as problem:
            self.problem = problem

    def acquire(self, kind, *, lease=LONG):
        return self.call(f"LOCK.{kind}", "k", self.owner, "PX", lease, "BLOCK", 0)

    def grants_before_own(self, kind):
        """Acquires the lock; returns how many grants the server counted between the request and its own grant.

        No other command runs between the first INFO and the request, however slow the machine is; the second INFO, sent
        behind the request that waits, is executed right after the grant.
        """
        info = ("INFO", "lock")
        self.actor.send_together(info, (f"LOCK.{kind}", "k", self.owner, "PX", LONG, "BLOCK", 0), info)
        before, taken, after = (self.actor.reply(timeout=60) for _ in range(3))
        assert taken == 1
        return granted_by(after) - granted_by(before)

    def releases(self, word):
        return self.call("LOCK.RELEASE", "k", self.owner, word)

    def write_once(self):
        count = int(self.call("GET", "counter") or 0)
        self.call("SET", "counter", count + 1)
        self.writes_done += 1

    def writes(self):
        assert self.acquire("RWWRITE") == 1
        self.write_once()
        assert self.releases("WRITE") == 0

    def reads(self):
        assert self.acquire("RWREAD") == 1
        assert self.call("GET", "counter") == self.call("GET", "counter"), "a writer held it together with a reader"
        assert self.releases("READ") == 0

    def writes_then_reads(self):
        assert self.acquire("RWWRITE") == 1
        self.write_once()
        assert self.acquire("RWREAD") == 1
        assert self.releases("WRITE") == 0
        assert self.call("GET", "counter") == self.call("GET", "counter"), "a writer held it after a downgrade"
        assert self.releases("READ") == 0


def run_all(clients):
    for client in clients:
        client.start()
    for client in clients:
        client.join(scaled(90))
        assert not client.is_alive(), f"{client.owner} does not end"
    assert [client.problem for client in clients if client.problem] == []


def nothing_is_left(server, clients):
    wait_for(lambda: server.info("lock")["lock_waiters"] == 0, what="the last wait to end")
    assert server.info("lock")["lock_contended_locks"] == 0
    assert int(server.control.get("counter") or 0) == sum(client.writes_done for client in clients)
    assert server.control.exists("k", "lock:lease:{k}") == 0


def test_readers_and_writers_exclude_each_other(server):
    dice = random.Random(seed_of_run())
    ways = (Client.reads, Client.reads, Client.writes, Client.writes_then_reads)

    def program(plan):
        return lambda client: [way(client) for way in plan]

    clients = [Client(server, f"c{n}", program(dice.choices(ways, k=60))) for n in range(24)]
    run_all(clients)
    nothing_is_left(server, clients)


class Storm:
    """Clients that acquire the lock again and again, until ends() stops them."""

    def __init__(self, server, step, size=12):
        self.has_ended = threading.Event()
        self.clients = [Client(server, f"s{n}", self.program(step)) for n in range(size)]
        for client in self.clients:
            client.start()

    def program(self, step):
        def live(client):
            while not self.has_ended.is_set():
                step(client)

        return live

    def ends(self):
        self.has_ended.set()
        for client in self.clients:
            client.join(scaled(60))
            assert not client.is_alive(), f"{client.owner} does not end"
        assert [client.problem for client in self.clients if client.problem] == []


STORMS = {"readers": (Client.reads, Client.writes), "writers": (Client.writes, Client.reads)}


@pytest.mark.parametrize("storm_step, step", STORMS.values(), ids=[f"storm of {name}" for name in STORMS])
def test_no_client_starves_in_a_storm(server, storm_step, step):
    """A client that arrives during a storm is granted after the clients that were there before, at most once each, and
    those that are granted together with them."""
    size = 12
    storm = Storm(server, storm_step, size)
    guest = Client(server, "guest", lambda client: None)
    kind = "RWWRITE" if step is Client.writes else "RWREAD"

    wait_for(lambda: granted_by(guest.call("INFO", "lock")) > 10 * size, 30, "the storm to begin")
    try:
        for _ in range(20):
            seen = guest.grants_before_own(kind)
            assert seen <= BOUND * size, f"{seen} were granted before it"
            assert guest.releases(kind.removeprefix("RW")) == 0
    finally:
        storm.ends()
    nothing_is_left(server, storm.clients)


@pytest.mark.parametrize("kind", ["RWREAD", "RWWRITE"])
def test_many_waiters_are_granted_in_order_of_arrival(server, actor, kind):
    """Batches of readers between single writers, all waiting at once: they are granted in order of arrival."""
    holder = actor("holder")
    assert holder.call("LOCK.RWWRITE", "k", "holder") == 1
    queue, owners = [], iter(range(10_000))
    for _ in range(8):
        batch = ["RWREAD"] * 5 + ["RWWRITE"] if kind == "RWREAD" else ["RWWRITE"] * 3 + ["RWREAD"]
        for one in batch:
            waiter = actor(f"w{next(owners)}")
            waiter.send(f"LOCK.{one}", "k", waiter.name, "BLOCK", 0)
            queue.append((waiter.wait_blocked(), one))
    assert holder.call("LOCK.RELEASE", "k", "holder") == 0
    while queue:
        length = next((n for n, (_, one) in enumerate(queue) if one == "RWWRITE"), len(queue)) or 1
        granted, queue = queue[:length], queue[length:]
        assert [waiter.reply() for waiter, _ in granted] == [1] * length
        assert not any(waiter.has_reply() for waiter, _ in queue)
        assert server.info("lock")["lock_waiters"] == len(queue)
        for waiter, _ in granted:
            assert waiter.call("LOCK.RELEASE", "k", waiter.name) == 0
    assert server.control.dbsize() == 0


def test_killed_readers_and_writers_break_no_exclusion_and_keep_no_lock(server, actor):
    dice = random.Random(seed_of_run())
    holder = actor("holder")
    for number in range(30):
        assert holder.call("LOCK.RWWRITE", "k", "holder") == 1
        waiters = [server.actor(f"w{number}.{n}") for n in range(8)]
        for waiter in waiters:
            waiter.send(dice.choice(("LOCK.RWREAD", "LOCK.RWWRITE")), "k", waiter.name, "BLOCK", 0)
            waiter.wait_blocked()
        # In the transaction of the release: some of them are granted and die in the same event-loop iteration.
        victims = dice.sample(waiters, 5)
        holder.call("MULTI")
        holder.call("LOCK.RELEASE", "k", "holder")
        for victim in victims:
            holder.call("CLIENT", "KILL", "ID", victim.client_id)
        holder.call("EXEC")
        for waiter in waiters:
            if waiter in victims:
                waiter.wait_closed()
                continue
            assert waiter.reply() == 1
            assert waiter.call("LOCK.RELEASE", "k", waiter.name) == 0
        wait_for(lambda: not server.control.exists("k"), what="the lock to be free")
        for waiter in waiters:
            waiter.close()
    nothing_is_left(server, [])
