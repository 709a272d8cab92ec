"""Every pair and triple of {read, write, upgrade, downgrade, plain}, each by its own owner, in many orders.

The expected reply to each step comes from the oracle in model/rw.py; readwrite/test_schedules.py tests the rules one by
one.
"""

import random
from itertools import product

import pytest

from model.rw import NOTHING_YET, PLAIN, READ, WRITE
from model.rw_side_by_side import SideBySide

# What an owner does with the lock; if a step is refused, it continues with the next.
PROGRAMS = {
    "read": (READ, "RELEASE"),
    "write": (WRITE, "RELEASE"),
    "upgrade": (READ, WRITE, "RELEASE WRITE", "RELEASE"),
    "downgrade": (WRITE, READ, "RELEASE WRITE", "RELEASE"),
    "plain": (PLAIN, "RELEASE"),
}
# Alternating, one owner ahead of the others, and random.
ORDERS = ("alternating", "first ahead", "last ahead", *range(3))


class Play:
    """Owners, each with its remaining steps; one that waits is skipped until it is granted."""

    def __init__(self, both, programs):
        self.both = both
        self.todo = {f"o{name}": list(PROGRAMS[program]) for name, program in zip("abc", programs, strict=False)}
        self.next_number = 0

    def ready(self):
        return [owner for owner in self.todo if self.todo[owner] and owner not in self.both.waits_for]

    def choose(self, order, dice):
        ready = self.ready()
        if order == "first ahead":
            return ready[0]
        if order == "last ahead":
            return ready[-1]
        if order == "alternating":
            self.next_number += 1
            names = list(self.todo)
            later = names[self.next_number % len(names) :] + names[: self.next_number % len(names)]
            return next(owner for owner in later if owner in ready)
        return dice.choice(ready)

    def step(self, owner):
        step = self.todo[owner].pop(0)
        if step.startswith("RELEASE"):
            self.both.call("RELEASE", "k", owner, *step.split()[1:], client=owner)
        else:
            self.both.request(owner, "k", owner, step)

    def play(self, order):
        dice = random.Random(f"{order} {self.todo}")
        while self.ready():
            self.step(self.choose(order, dice))
            self.both.compare()
        assert not any(self.todo.values()), f"steps are left: {self.todo}"


def play_all(server, programs):
    for order in ORDERS:
        both = SideBySide(server)
        Play(both, programs).play(order)
        assert server.control.dbsize() == 0, f"keys are left after\n{both.story}"
        server.disconnect_clients()


def combinations(length):
    return pytest.mark.parametrize("programs", list(product(PROGRAMS, repeat=length)), ids="+".join)


@combinations(2)
def test_every_pair_is_as_the_oracle_predicts(server, programs):
    play_all(server, programs)


@combinations(3)
def test_every_triple_is_as_the_oracle_predicts(server, programs):
    play_all(server, programs)


# One request, or one release, in every state of the lock.

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


@pytest.mark.parametrize("blocks", [False, True], ids=["without BLOCK", "blocking"])
@pytest.mark.parametrize("kind", [READ, WRITE, PLAIN])
@pytest.mark.parametrize("owner", ["x", "y", "z"])
@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_request_in_every_state_is_as_the_oracle_predicts(server, state, owner, kind, blocks):
    both = SideBySide(server)
    for number, (holder, requested) in enumerate(state):
        both.request(f"{holder}{number}", "k", holder, requested)
    both.compare()
    before = server.dump()
    answer = both.request("requester", "k", owner, kind, blocks)
    both.compare()
    if not isinstance(answer, int):
        assert server.dump() == before, "it changed keys, although it was not granted"
    assert answer != NOTHING_YET or blocks


@pytest.mark.parametrize("word", [None, "READ", "WRITE"])
@pytest.mark.parametrize("owner", ["x", "y"])
@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_release_in_every_state_is_as_the_oracle_predicts(server, state, owner, word):
    both = SideBySide(server)
    for number, (holder, requested) in enumerate(state):
        both.request(f"{holder}{number}", "k", holder, requested)
    before = server.dump()
    answer = both.call("RELEASE", "k", owner, *([word] if word else ()))
    both.compare()
    if not isinstance(answer, int):
        assert server.dump() == before, "it changed keys, although it was refused"
