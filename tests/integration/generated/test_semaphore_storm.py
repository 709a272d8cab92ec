"""Many clients request few permits at once: never more are in use than the limit, no client starves, nothing is left.

Each client counts the permits in use in a counter while it holds them; no client may see more than the limit.
"""

import random
import threading

import pytest

from harness import scaled, wait_for, wait_for_sync
from model.semaphore_scene import LEASES, LONG

LIMIT = 5
CLIENTS = 16
ROUNDS = 40


class Client(threading.Thread):
    def __init__(self, server, number, program):
        super().__init__(daemon=True)
        self.actor, self.owner, self.program = server.actor(f"c{number}"), f"o{number}", program
        self.draw, self.rounds, self.problem = random.Random(number), 0, None

    def call(self, *words):
        return self.actor.call(*words, timeout=60)

    def run(self):
        try:
            for _ in range(ROUNDS):
                self.program(self, self.draw.choice((1, 1, 1, 2, 3, LIMIT)))
                self.rounds += 1
        except BaseException as problem:
            self.problem = problem

    def acquires(self, permits, *, ends=("PX", LONG)):
        words = ("LOCK.SEMAPHORE", "k", self.owner, LIMIT, "PERMITS", permits, *ends, "BLOCK", 0)
        assert self.call(*words) == permits

    def uses(self, permits):
        assert self.call("INCRBY", "at-work", permits) <= LIMIT
        assert self.call("DECRBY", "at-work", permits) >= 0


def acquires_and_releases(client, permits):
    client.acquires(permits)
    client.uses(permits)
    assert client.call("LOCK.RELEASE", "k", client.owner, "PERMITS", permits) == 0


def releases_one_by_one(client, permits):
    client.acquires(permits)
    client.uses(permits)
    for left in reversed(range(permits)):
        assert client.call("LOCK.RELEASE", "k", client.owner) == left


def lets_the_lease_expire(client, permits):
    client.acquires(permits, ends=("PX", 3))
    client.owner += "'"  # the permits of the old owner may still be held at the next request


def ends_its_session(client, permits):
    client.acquires(permits, ends=("SESSION",))
    client.uses(permits)
    client.actor.kill_socket() if client.draw.random() < 0.5 else client.actor.close()
    client.actor = client.server.actor()
    client.owner += "'"


PROGRAMS = (acquires_and_releases, releases_one_by_one, lets_the_lease_expire, ends_its_session)
PROGRAMS = {program.__name__: program for program in PROGRAMS}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_permits_in_use_never_exceed_the_limit_in_a_storm(make_server, program):
    server = make_server(lock_session_grace=0)
    replica = server.start_replica()
    clients = [Client(server, number, program) for number in range(CLIENTS)]
    for client in clients:
        client.server = server
        client.start()
    for client in clients:
        client.join(scaled(120))
        assert not client.is_alive(), f"{client.owner} does not end"
    assert [client.problem for client in clients if client.problem] == []
    assert {client.rounds for client in clients} == {ROUNDS}
    wait_for(lambda: server.control.exists("k", LEASES) == 0, what="all permits to be gone")
    info = server.info("lock")
    assert (info["lock_waiters"], info["lock_contended_locks"]) == (0, 0)
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump()
