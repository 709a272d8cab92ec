"""Many readers and writers at once: they exclude each other, and neither side starves the other.

The witness is a counter that is read and written back under the write lock, in two commands; a reader that
looks at it twice under the read lock must see the same number.
"""

import random
import threading

import pytest

from harness import scaled, wait_for
from harness.seeds import seed_of_run

LONG = 600_000
# So many grants for each client of a storm may lie between somebody's coming and its grant: one of each who was there,
# those who come in together with it, and what the server is told in the turn of its grant, before it can answer.
BOUND = 3


def granted_by(text):
    """How many grants an INFO tells of."""
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return sum(int(fields[f"lock_granted_{how}"]) for how in ("at_once", "after_wait"))


class Client(threading.Thread):
    def __init__(self, server, name, life):
        super().__init__(daemon=True)
        self.actor, self.owner, self.life = server.actor(name), name, life
        self.turns, self.problem = 0, None

    def say(self, *words):
        return self.actor.call(*words, timeout=60)

    def run(self):
        try:
            self.life(self)
        except BaseException as problem:
            self.problem = problem

    def takes(self, kind, *, lease=LONG):
        return self.say(f"LOCK.{kind}", "k", self.owner, "PX", lease, "BLOCK", 0)

    def takes_after(self, kind):
        """Takes it, and returns how many grants there were from its request to its own, as the server counted them.

        Nothing comes between the first question and the request, however slow the machine is; and what is asked behind
        a request that waits is answered right after it.
        """
        question = ("INFO", "lock")
        self.actor.send_together(question, (f"LOCK.{kind}", "k", self.owner, "PX", LONG, "BLOCK", 0), question)
        before, taken, after = (self.actor.reply(timeout=60) for _ in range(3))
        assert taken == 1
        return granted_by(after) - granted_by(before)

    def releases(self, word):
        return self.say("LOCK.RELEASE", "k", self.owner, word)

    def write_once(self):
        count = int(self.say("GET", "counter") or 0)
        self.say("SET", "counter", count + 1)
        self.turns += 1

    def writes(self):
        assert self.takes("RWWRITE") == 1
        self.write_once()
        assert self.releases("WRITE") == 0

    def reads(self):
        assert self.takes("RWREAD") == 1
        assert self.say("GET", "counter") == self.say("GET", "counter"), "a writer was in with a reader"
        assert self.releases("READ") == 0

    def writes_then_reads(self):
        assert self.takes("RWWRITE") == 1
        self.write_once()
        assert self.takes("RWREAD") == 1
        assert self.releases("WRITE") == 0
        assert self.say("GET", "counter") == self.say("GET", "counter"), "a writer was in after a downgrade"
        assert self.releases("READ") == 0


def run_all(clients):
    for client in clients:
        client.start()
    for client in clients:
        client.join(scaled(90))
        assert not client.is_alive(), f"{client.owner} hangs"
    assert [client.problem for client in clients if client.problem] == []


def nothing_is_left(server, clients):
    wait_for(lambda: server.info("lock")["lock_waiters"] == 0, what="the last wait to end")
    assert server.info("lock")["lock_contended_locks"] == 0
    assert int(server.control.get("counter") or 0) == sum(client.turns for client in clients)
    assert server.control.exists("k", "lock:lease:{k}") == 0


def test_readers_and_writers_exclude_each_other(server):
    dice = random.Random(seed_of_run())
    ways = (Client.reads, Client.reads, Client.writes, Client.writes_then_reads)

    def life(plan):
        return lambda client: [way(client) for way in plan]

    clients = [Client(server, f"c{n}", life(dice.choices(ways, k=60))) for n in range(24)]
    run_all(clients)
    nothing_is_left(server, clients)


class Storm:
    """Clients that take the lock again and again, until they are told to stop."""

    def __init__(self, server, turn, size=12):
        self.over = threading.Event()
        self.clients = [Client(server, f"s{n}", self.life(turn)) for n in range(size)]
        for client in self.clients:
            client.start()

    def life(self, turn):
        def live(client):
            while not self.over.is_set():
                turn(client)

        return live

    def ends(self):
        self.over.set()
        for client in self.clients:
            client.join(scaled(60))
            assert not client.is_alive(), f"{client.owner} hangs"
        assert [client.problem for client in self.clients if client.problem] == []


STORMS = {"readers": (Client.reads, Client.writes), "writers": (Client.writes, Client.reads)}


@pytest.mark.parametrize("storm_turn, turn", STORMS.values(), ids=[f"storm of {name}" for name in STORMS])
def test_nobody_starves_in_a_storm(server, storm_turn, turn):
    """Who comes to the storm is served after those who were there: at most each of them once, and those who
    come in together with them."""
    size = 12
    storm = Storm(server, storm_turn, size)
    guest = Client(server, "guest", lambda client: None)
    kind = "RWWRITE" if turn is Client.writes else "RWREAD"

    wait_for(lambda: granted_by(guest.say("INFO", "lock")) > 10 * size, 30, "the storm to rage")
    try:
        for _ in range(20):
            seen = guest.takes_after(kind)
            assert seen <= BOUND * size, f"{seen} were let in before it"
            assert guest.releases(kind.removeprefix("RW")) == 0
    finally:
        storm.ends()
    nothing_is_left(server, storm.clients)

@pytest.mark.parametrize("kind", ["RWREAD", "RWWRITE"])
def test_many_who_wait_get_in_in_order(server, actor, kind):
    """Batches of readers between single writers, all waiting at once: they come in as they came."""
    holder = actor("holder")
    assert holder.call("LOCK.RWWRITE", "k", "holder") == 1
    line, owners = [], iter(range(10_000))
    for _ in range(8):
        batch = ["RWREAD"] * 5 + ["RWWRITE"] if kind == "RWREAD" else ["RWWRITE"] * 3 + ["RWREAD"]
        for one in batch:
            waiter = actor(f"w{next(owners)}")
            waiter.send(f"LOCK.{one}", "k", waiter.name, "BLOCK", 0)
            line.append((waiter.wait_blocked(), one))
    assert holder.call("LOCK.RELEASE", "k", "holder") == 0
    while line:
        length = next((n for n, (_, one) in enumerate(line) if one == "RWWRITE"), len(line)) or 1
        inside, line = line[:length], line[length:]
        assert [waiter.reply() for waiter, _ in inside] == [1] * length
        assert not any(waiter.has_reply() for waiter, _ in line)
        assert server.info("lock")["lock_waiters"] == len(line)
        for waiter, _ in inside:
            assert waiter.call("LOCK.RELEASE", "k", waiter.name) == 0
    assert server.control.dbsize() == 0


def test_killed_readers_and_writers_neither_break_in_nor_keep_the_lock(server, actor):
    dice = random.Random(seed_of_run())
    holder = actor("holder")
    for turn in range(30):
        assert holder.call("LOCK.RWWRITE", "k", "holder") == 1
        waiters = [server.actor(f"w{turn}.{n}") for n in range(8)]
        for waiter in waiters:
            waiter.send(dice.choice(("LOCK.RWREAD", "LOCK.RWWRITE")), "k", waiter.name, "BLOCK", 0)
            waiter.wait_blocked()
        # In the turn of the release: some of them are granted and dead at the same moment.
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
