"""Many clients for few permits at once: never more at work than the limit, nobody starves, and nothing is left.

The witness is a counter of permits at work, changed by each client while it has them; nobody may see more than
the limit.
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
    def __init__(self, server, number, life):
        super().__init__(daemon=True)
        self.actor, self.owner, self.life = server.actor(f"c{number}"), f"o{number}", life
        self.draw, self.rounds, self.problem = random.Random(number), 0, None

    def say(self, *words):
        return self.actor.call(*words, timeout=60)

    def run(self):
        try:
            for _ in range(ROUNDS):
                self.life(self, self.draw.choice((1, 1, 1, 2, 3, LIMIT)))
                self.rounds += 1
        except BaseException as problem:
            self.problem = problem

    def takes(self, permits, *, ends=("PX", LONG)):
        words = ("LOCK.SEMAPHORE", "k", self.owner, LIMIT, "PERMITS", permits, *ends, "BLOCK", 0)
        assert self.say(*words) == permits

    def works(self, permits):
        assert self.say("INCRBY", "at-work", permits) <= LIMIT
        assert self.say("DECRBY", "at-work", permits) >= 0


def takes_and_releases(client, permits):
    client.takes(permits)
    client.works(permits)
    assert client.say("LOCK.RELEASE", "k", client.owner, "PERMITS", permits) == 0


def releases_one_by_one(client, permits):
    client.takes(permits)
    client.works(permits)
    for left in reversed(range(permits)):
        assert client.say("LOCK.RELEASE", "k", client.owner) == left


def lets_the_lease_end(client, permits):
    client.takes(permits, ends=("PX", 3))
    client.owner += "'"  # whose permits may live still when it asks again


def ends_its_session(client, permits):
    client.takes(permits, ends=("SESSION",))
    client.works(permits)
    client.actor.kill_socket() if client.draw.random() < 0.5 else client.actor.close()
    client.actor = client.server.actor()
    client.owner += "'"


LIVES = (takes_and_releases, releases_one_by_one, lets_the_lease_end, ends_its_session)
LIVES = {life.__name__: life for life in LIVES}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("life", LIVES.values(), ids=LIVES)
def test_storm(make_server, life):
    server = make_server(lock_session_grace=0)
    replica = server.start_replica()
    clients = [Client(server, number, life) for number in range(CLIENTS)]
    for client in clients:
        client.server = server
        client.start()
    for client in clients:
        client.join(scaled(120))
        assert not client.is_alive(), f"{client.owner} hangs"
    assert [client.problem for client in clients if client.problem] == []
    assert {client.rounds for client in clients} == {ROUNDS}
    wait_for(lambda: server.control.exists("k", LEASES) == 0, what="all permits to be gone")
    info = server.info("lock")
    assert (info["lock_waiters"], info["lock_contended_locks"]) == (0, 0)
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump()
