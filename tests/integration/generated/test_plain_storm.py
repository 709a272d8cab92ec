"""Many clients, few locks, no order: the locks exclude, every client is served, nothing is left.

Each client reads a counter and writes it back under the lock, in two commands: an increment is lost as soon as two
clients hold the lock at the same time.
"""

import random
import threading

from redis.exceptions import ConnectionError, ResponseError

from harness import scaled, wait_for
from harness.seeds import seed_of_run

CLIENTS, KEYS = 64, 8
LONG = 600_000


class Lost(Exception):
    """The connection was closed before the reply arrived."""


class Worker(threading.Thread):
    """One client: acquires a lock, increments its counter, releases the lock; `rounds` times.

    When its connection is killed it continues with a new one. A command whose reply it did not receive may or may not
    have been executed.
    """

    def __init__(self, server, number, rounds, seed):
        super().__init__(daemon=True)
        self.server, self.number, self.rounds = server, number, rounds
        self.random = random.Random(f"{seed}/{number}")
        self.client_id, self.actor = None, None
        self.done, self.problem = {key: 0 for key in range(KEYS)}, None
        self.connect()

    def connect(self):
        while True:
            try:
                self.actor = self.server.actor(f"w{self.number}")
            except ConnectionError:
                continue  # killed before it received its id
            self.client_id = self.actor.client_id
            return

    def call(self, *words, surely=True):
        """The reply; with `surely`, the command is sent again until there is one."""
        while True:
            try:
                return self.actor.call(*words, timeout=60)
            except ConnectionError:
                self.connect()
                if not surely:
                    raise Lost from None

    def run(self):
        try:
            for number in range(self.rounds):
                self.one_round(self.random.randrange(KEYS), f"w{self.number}.{number}")
        except BaseException as problem:
            self.problem = problem

    def one_round(self, key, owner):
        while not self.surely_acquires(f"lock{key}", owner):
            owner += "'"
        count = int(self.call("GET", f"counter{key}") or 0)
        self.call("SET", f"counter{key}", count + 1)  # under the lock, sending it twice has the same result
        self.done[key] += 1
        self.release(f"lock{key}", owner)

    def surely_acquires(self, lock, owner):
        """Whether this owner certainly holds the lock."""
        try:
            # Some try without waiting and try again, most wait.
            if self.random.random() < 0.1:
                return self.call("LOCK.ACQUIRE", lock, owner, "PX", LONG, surely=False) == 1
            assert self.call("LOCK.ACQUIRE", lock, owner, "PX", LONG, "BLOCK", 0, surely=False) == 1
            return True
        except Lost:
            # Granted or not: this owner's name is not used again.
            self.release(lock, owner)
            return False

    def release(self, lock, owner):
        try:
            return self.call("LOCK.RELEASE", lock, owner)
        except ResponseError as error:
            assert str(error).startswith("NOTHELD ")


def storm(server, rounds, kills=0):
    seed = seed_of_run()
    workers = [Worker(server, number, rounds, seed) for number in range(CLIENTS)]
    for worker in workers:
        worker.start()
    killed = kill_at_random(server, workers, kills, random.Random(seed))
    for worker in workers:
        worker.join(scaled(90))
        assert not worker.is_alive(), f"client {worker.number} does not end"
    assert [worker.problem for worker in workers if worker.problem] == []
    for key in range(KEYS):
        entered = sum(worker.done[key] for worker in workers)
        assert int(server.control.get(f"counter{key}") or 0) == entered
    assert sum(sum(worker.done.values()) for worker in workers) == CLIENTS * rounds
    nothing_is_left(server)
    return killed


def kill_at_random(server, workers, kills, dice):
    """Kills random workers until `kills` of them were hit, or no worker is left; returns how many were hit."""
    hit = 0
    while hit < kills and any(worker.is_alive() for worker in workers):
        victim = dice.choice(workers).client_id
        hit += server.control.client_kill_filter(_id=victim)
    return hit


def nothing_is_left(server):
    wait_for(lambda: server.info("lock")["lock_waiters"] == 0, what="the last wait to end")
    assert server.info("lock")["lock_contended_locks"] == 0
    assert server.blocked_clients() == 0
    for key in range(KEYS):
        # A grant that was not delivered is released a moment after its client has disconnected.
        wait_for(lambda key=key: not server.control.exists(f"lock{key}"), what=f"lock{key} to be free")


def test_every_client_is_served_and_locks_exclude(server):
    storm(server, rounds=300)
    info = server.info("lock")
    assert info["lock_granted_after_wait"] > CLIENTS


def test_killed_clients_neither_break_exclusion_nor_keep_a_lock(server):
    assert storm(server, rounds=120, kills=2000) >= 500
