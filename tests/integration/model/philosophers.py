"""Philosophers: real threads each of which needs two neighbouring forks."""

import threading

from harness import code_of, scaled

LONG = 3_600_000


class Philosopher(threading.Thread):
    """Eats `meals` meals; counts how often it had to put down its left fork."""

    def __init__(self, server, number, table, meals, barrier):
        super().__init__(daemon=True)
        self.actor = server.actor(f"p{number}")
        self.owner, self.meals, self.barrier = f"p{number}", meals, barrier
        self.left, self.right = f"fork{number}", f"fork{(number + 1) % table}"
        self.refused, self.eaten, self.problem = 0, 0, None

    def call(self, *words):
        return self.actor.call(*words, timeout=60)

    def run(self):
        try:
            self.dine()
        except BaseException as problem:
            self.barrier.abort()
            self.problem = problem

    def dine(self):
        while self.eaten < self.meals:
            self.take()
            for fork in (self.left, self.right):
                count = int(self.call("GET", f"meals:{fork}") or 0)
                self.call("SET", f"meals:{fork}", count + 1)
            self.eaten += 1
            self.release()

    def take(self):
        assert self.call("LOCK.MACQUIRE", 2, self.left, self.right, self.owner, "PX", LONG, "BLOCK", 0) == 2

    def release(self):
        assert self.call("LOCK.MRELEASE", 2, self.right, self.left, self.owner) == 2


class Greedy(Philosopher):
    """Takes the left fork, then the right one; at first all take their left forks at the same time."""

    def take(self):
        while True:
            assert self.call("LOCK.ACQUIRE", self.left, self.owner, "PX", LONG, "BLOCK", 0) == 1
            if self.eaten == self.refused == 0:
                self.barrier.wait(scaled(60))
            reply = self.actor.attempt("LOCK.ACQUIRE", self.right, self.owner, "PX", LONG, "BLOCK", 0, timeout=60)
            if reply == 1:
                return
            assert code_of(reply) == "DEADLOCK"
            assert f"{self.owner} waits for {self.right} " in str(reply)
            self.refused += 1
            assert self.call("LOCK.RELEASE", self.left, self.owner) == 0


def dinner(server, kind, table, meals):
    """Runs until all have eaten; returns how often a request was refused."""
    before = server.info("lock")["lock_deadlocks_refused"]
    barrier = threading.Barrier(table)
    diners = [kind(server, number, table, meals, barrier) for number in range(table)]
    for diner in diners:
        diner.start()
    for diner in diners:
        diner.join(scaled(90))
        problems = [other.problem for other in diners if other.problem]
        assert not diner.is_alive(), f"{diner.owner} hangs after {diner.eaten} meals; {problems}"
    assert [diner.problem for diner in diners if diner.problem] == []
    assert [diner.eaten for diner in diners] == [meals] * table
    for number in range(table):
        assert int(server.control.get(f"meals:fork{number}")) == 2 * meals
        assert not server.control.exists(f"fork{number}")
    info = server.info("lock")
    assert (info["lock_waiters"], info["lock_contended_locks"]) == (0, 0)
    refused = info["lock_deadlocks_refused"] - before
    assert refused == sum(diner.refused for diner in diners)
    return refused
