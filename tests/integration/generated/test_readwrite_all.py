"""Every pair and triple of {read, write, upgrade, downgrade, plain}, of as many owners, in many orders.

What each step is to be answered comes from the oracle in model/rw.py; readwrite/test_schedules.py says the rules
one by one.
"""

import random
from itertools import product

import pytest

from model.rw import NOTHING_YET, PLAIN, READ, WRITE
from model.rw_side_by_side import SideBySide

# What an owner does with the lock; what it cannot do it hears, and goes on.
LIVES = {
    "read": (READ, "RELEASE"),
    "write": (WRITE, "RELEASE"),
    "upgrade": (READ, WRITE, "RELEASE WRITE", "RELEASE"),
    "downgrade": (WRITE, READ, "RELEASE WRITE", "RELEASE"),
    "plain": (PLAIN, "RELEASE"),
}
# In turn, one ahead of the others, and at random.
ORDERS = ("in turn", "first ahead", "last ahead", *range(3))


class Cast:
    """Owners, each with what it still has to do; one that waits is passed over until it is granted."""

    def __init__(self, both, lives):
        self.both = both
        self.todo = {f"o{name}": list(LIVES[life]) for name, life in zip("abc", lives, strict=False)}
        self.turn = 0

    def ready(self):
        return [owner for owner in self.todo if self.todo[owner] and owner not in self.both.waits_for]

    def choose(self, order, dice):
        ready = self.ready()
        if order == "first ahead":
            return ready[0]
        if order == "last ahead":
            return ready[-1]
        if order == "in turn":
            self.turn += 1
            names = list(self.todo)
            later = names[self.turn % len(names) :] + names[: self.turn % len(names)]
            return next(owner for owner in later if owner in ready)
        return dice.choice(ready)

    def step(self, owner):
        step = self.todo[owner].pop(0)
        if step.startswith("RELEASE"):
            self.both.say("RELEASE", "k", owner, *step.split()[1:], client=owner)
        else:
            self.both.ask(owner, "k", owner, step)

    def play(self, order):
        dice = random.Random(f"{order} {self.todo}")
        while self.ready():
            self.step(self.choose(order, dice))
            self.both.compare()
        assert not any(self.todo.values()), f"not everybody came to an end: {self.todo}"


def play_all(server, lives):
    for order in ORDERS:
        both = SideBySide(server)
        Cast(both, lives).play(order)
        assert server.control.dbsize() == 0, f"keys are left after\n{both.story}"
        server.disconnect_clients()


def combinations(length):
    return pytest.mark.parametrize("lives", list(product(LIVES, repeat=length)), ids="+".join)


@combinations(2)
def test_pair(server, lives):
    play_all(server, lives)


@combinations(3)
def test_triple(server, lives):
    play_all(server, lives)


# One step of each, from every state that three owners can be in: who asks once, without blocking.

STATES = {
    "free": (),
    "read": (("x", READ),),
    "read twice": (("x", READ), ("x", READ)),
    "two readers": (("x", READ), ("y", READ)),
    "write": (("x", WRITE),),
    "write and read": (("x", WRITE), ("x", READ)),
    "plain": (("x", PLAIN),),
    "reader, writer waits": (("x", READ), ("y", WRITE)),
    "writer, reader waits": (("x", WRITE), ("y", READ)),
    "writer, plain waits": (("x", WRITE), ("y", PLAIN)),
    "upgrade waits": (("x", READ), ("y", READ), ("x", WRITE)),
}


@pytest.mark.parametrize("blocks", [False, True], ids=["once", "blocking"])
@pytest.mark.parametrize("kind", [READ, WRITE, PLAIN])
@pytest.mark.parametrize("owner", ["x", "y", "z"])
@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_one_request_in_every_state(server, state, owner, kind, blocks):
    both = SideBySide(server)
    for number, (holder, asked) in enumerate(state):
        both.ask(f"{holder}{number}", "k", holder, asked)
    both.compare()
    before = server.dump()
    answer = both.ask("asker", "k", owner, kind, blocks)
    both.compare()
    if not isinstance(answer, int):
        assert server.dump() == before, "it changed something, though it was not granted"
    assert answer != NOTHING_YET or blocks


@pytest.mark.parametrize("word", [None, "READ", "WRITE"])
@pytest.mark.parametrize("owner", ["x", "y"])
@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_one_release_in_every_state(server, state, owner, word):
    both = SideBySide(server)
    for number, (holder, asked) in enumerate(state):
        both.ask(f"{holder}{number}", "k", holder, asked)
    before = server.dump()
    answer = both.say("RELEASE", "k", owner, *([word] if word else ()))
    both.compare()
    if not isinstance(answer, int):
        assert server.dump() == before, "it changed something, though it was refused"
