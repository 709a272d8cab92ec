"""Many clients, few locks, no order: the locks exclude, everybody is served, nothing is left.

The witness is a counter that is read and written back under the lock, in two commands: an increment is
lost as soon as two clients are inside at once.
"""

import random
import threading

from redis.exceptions import ConnectionError, ResponseError

from harness import scaled, wait_for
from harness.seeds import seed_of_run

CLIENTS, KEYS = 64, 8
LONG = 600_000


class Lost(Exception):
    """The connection was closed before the answer came."""


class Worker(threading.Thread):
    """One client: takes a lock, increments its counter, releases the lock; `rounds` times.

    When its connection is killed it goes on with a new one, and finds out where it stands: what it
    did not hear the answer of may have happened or not.
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
                continue  # killed before it could ask for its id
            self.client_id = self.actor.client_id
            return

    def say(self, *words, surely=True):
        """The answer; if `surely`, of the command said again and again until there is one."""
        while True:
            try:
                return self.actor.call(*words, timeout=60)
            except ConnectionError:
                self.connect()
                if not surely:
                    raise Lost from None

    def run(self):
        try:
            for turn in range(self.rounds):
                self.one_round(self.random.randrange(KEYS), f"w{self.number}.{turn}")
        except BaseException as problem:
            self.problem = problem

    def one_round(self, key, owner):
        while not self.enters(f"lock{key}", owner):
            owner += "'"
        count = int(self.say("GET", f"counter{key}") or 0)
        self.say("SET", f"counter{key}", count + 1)  # while we hold the lock, twice is as good as once
        self.done[key] += 1
        self.leaves(f"lock{key}", owner)

    def enters(self, lock, owner):
        """Whether it has the lock, surely and for this owner alone."""
        try:
            # Some ask at once and come again, most wait.
            if self.random.random() < 0.1:
                return self.say("LOCK.ACQUIRE", lock, owner, "PX", LONG, surely=False) == 1
            assert self.say("LOCK.ACQUIRE", lock, owner, "PX", LONG, "BLOCK", 0, surely=False) == 1
            return True
        except Lost:
            # Granted or not: this owner's name is not used again.
            self.leaves(lock, owner)
            return False

    def leaves(self, lock, owner):
        try:
            return self.say("LOCK.RELEASE", lock, owner)
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
        assert not worker.is_alive(), f"client {worker.number} hangs"
    assert [worker.problem for worker in workers if worker.problem] == []
    for key in range(KEYS):
        entered = sum(worker.done[key] for worker in workers)
        assert int(server.control.get(f"counter{key}") or 0) == entered
    assert sum(sum(worker.done.values()) for worker in workers) == CLIENTS * rounds
    nothing_is_left(server)
    return killed


def kill_at_random(server, workers, kills, dice):
    """So many CLIENT KILLs of workers, while there are any; how many hit."""
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
        # A hold that nobody could be told of goes back a moment after its client's end.
        wait_for(lambda key=key: not server.control.exists(f"lock{key}"), what=f"lock{key} to be free")


def test_everybody_is_served_one_at_a_time(server):
    storm(server, rounds=300)
    info = server.info("lock")
    assert info["lock_granted_after_wait"] > CLIENTS


def test_killed_clients_neither_break_in_nor_keep_a_lock(server):
    assert storm(server, rounds=120, kills=2000) >= 500
