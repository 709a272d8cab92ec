"""Every schedule of three owners over two keys: the server does what model/multikey.py says.

Each owner follows one of ten short programs; all choices of three programs (220; owners are alike) in all orders
of their steps are played; of one choice in four, unless the run is thorough. An owner that waits has no turn; one that
is refused, or has no hold to release, releases what it holds, and is done. Then some of them once more, and which
requests are by ONCE is drawn; LOCK_SEED=… draws as another run did. Hundreds of schedules are played side by side on
one server, each with keys and owners of its own, one step of each at a time.
"""

import random
import re
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import combinations_with_replacement, islice

import pytest

from harness import drawn, fewer, wait_for
from harness.seeds import seed_of_run
from model.multikey import NOT_HELD, REFUSED, WAITS, Locks

OWNERS = "abc"
AT_ONCE = 400  # schedules


def acquire(name):
    return ("ask", name, False, False)


def macquire(names):
    return ("ask", names, True, False)


def by_once(dice, program):
    """The same, with ONCE in some of its requests."""
    return tuple((*step[:3], dice.random() < 0.5) if step[0] == "ask" else step for step in program)


def release(name):
    return ("give", name, False)


def mrelease(names):
    return ("give", names, True)


PROGRAMS = [
    (acquire("k"), release("k")),
    (acquire("l"), release("l")),
    (acquire("k"), acquire("l"), mrelease("kl")),
    (acquire("l"), acquire("k"), mrelease("kl")),
    (acquire("l"), acquire("k"), release("l"), release("k")),
    (macquire("kl"), mrelease("kl")),
    (macquire("lk"), release("k"), release("l")),
    (acquire("k"), macquire("lk"), mrelease("kl"), release("k")),
    (acquire("l"), macquire("kl"), release("l"), mrelease("lk")),
    (macquire("kl"), acquire("l"), release("l"), mrelease("lk")),
]


@dataclass
class Step:
    """What one owner says, what it hears, and which others are granted by it; `before` is the model before it."""

    owner: str
    command: tuple
    hears: object
    granted: dict
    waiting: int
    before: Locks


@dataclass
class State:
    left: dict
    locks: Locks = field(default_factory=lambda: Locks("kl"))
    steps: tuple = ()

    def after(self, owner):
        """The same, one step of this owner later."""
        locks, left = deepcopy(self.locks), dict(self.left)
        command, *rest = left[owner]
        what, names, multikey, *once = command
        granted = {}
        if what == "ask":
            hears = locks.ask(owner, names, multikey, *once)
        else:
            hears, granted = locks.release(owner, names, multikey)
        if hears in (REFUSED, NOT_HELD):
            held = locks.hold_of(owner)
            rest = [mrelease(held)] if held else []
        left[owner] = rest
        step = Step(owner, command, hears, granted, len(locks.waiting()), self.locks)
        return State(left, locks, (*self.steps, step))


def schedules_of(state):
    """All ways to go on from here to the end."""
    waiting = state.locks.waiting()
    turns = [owner for owner in OWNERS if state.left[owner] and owner not in waiting]
    if not turns:
        assert not waiting and not any(state.left.values()), "the model itself is stuck"
        yield state.steps
    for owner in turns:
        yield from schedules_of(state.after(owner))


def all_schedules(first=0, of=1, dice=None):
    """Of all choices of programs, or one of so many choices from the first on; by ONCE where the dice say so."""
    for programs in islice(combinations_with_replacement(PROGRAMS, len(OWNERS)), first, None, of):
        if dice:
            programs = [by_once(dice, program) for program in programs]
        yield from schedules_of(State(dict(zip(OWNERS, programs, strict=True))))


SENTENCE = re.compile(r"([abc])\d+ waits for ([kl])\d+ (held by|behind) ([abc])\d+")


class Stage:
    """Three connections, for one schedule after another; its number makes its names its own."""

    def __init__(self, server):
        self.sockets = {owner: server.raw_connection() for owner in OWNERS}
        self.files = {owner: sock.makefile("rb") for owner, sock in self.sockets.items()}
        self.number, self.steps = None, ()

    def begin(self, number, steps):
        self.number, self.steps = number, steps

    def waiting_at(self, turn):
        return self.steps[min(turn, len(self.steps) - 1)].waiting

    def say(self, turn):
        step = self.steps[turn]
        what, names, multikey, *once = step.command
        verb = {"ask": "ACQUIRE", "give": "RELEASE"}[what]
        keys = " ".join(f"{name}{self.number}" for name in names)
        head = f"LOCK.M{verb} {len(names)} {keys}" if multikey else f"LOCK.{verb} {keys}"
        tail = (" ONCE" if any(once) else "") + " PX 3600000 BLOCK 0" if what == "ask" else ""
        self.sockets[step.owner].sendall(f"{head} {step.owner}{self.number}{tail}\r\n".encode())

    def hear(self, turn):
        step = self.steps[turn]
        if step.hears == REFUSED:
            self.hears_a_true_cycle(step)
        elif step.hears == NOT_HELD:
            line = self.line(step.owner, turn)
            assert line.startswith("-NOTHELD "), f"{step.owner} heard {line!r}\n{self.story(turn)}"
        elif step.hears != WAITS:
            self.hears(step.owner, step.hears, turn)
        for owner, answer in step.granted.items():
            self.hears(owner, answer, turn)

    def hears(self, owner, answer, turn):
        line = self.line(owner, turn)
        assert line == f":{answer}", f"{owner} heard {line!r}, not {answer}\n{self.story(turn)}"

    def hears_a_true_cycle(self, step):
        line = self.line(step.owner, self.steps.index(step))
        assert line.startswith("-DEADLOCK "), f"{line}\n{self.story(self.steps.index(step))}"
        sentences = [SENTENCE.fullmatch(text) for text in line.removeprefix("-DEADLOCK ").split(", ")]
        assert all(sentences), line
        told = [sentence.groups() for sentence in sentences]
        true = step.before.is_told_truly(told, step.owner, step.command[1])
        assert true, f"{line}\n{self.story(self.steps.index(step))}"

    def line(self, owner, turn):
        try:
            return self.files[owner].readline().decode().rstrip("\r\n")
        except TimeoutError:
            raise AssertionError(f"{owner} heard nothing\n{self.story(turn)}") from None

    def story(self, turn):
        lines = [f"{step.owner} {step.command} -> {step.hears} {step.granted or ''}" for step in self.steps]
        return "\n".join([*lines[: turn + 1], "^ there"])

    def ends(self):
        """Nobody has heard more."""
        for owner in OWNERS:
            self.sockets[owner].sendall(b"PING\r\n")
        for owner in OWNERS:
            line = self.line(owner, len(self.steps) - 1)
            assert line == "+PONG", f"{owner} heard {line!r} too\n{self.story(len(self.steps) - 1)}"


def play(server, stages):
    """All of them, in step: who waits has been searched from before the next step is said."""
    for turn in range(max(len(stage.steps) for stage in stages)):
        on = [stage for stage in stages if turn < len(stage.steps)]
        for stage in on:
            stage.say(turn)
        for stage in on:
            stage.hear(turn)
        waiting = sum(stage.waiting_at(turn) for stage in stages)
        wait_for(lambda waiting=waiting: server.info("lock")["lock_waiters"] == waiting, 10, f"{waiting} to wait")
        server.all_searched()
    for stage in stages:
        stage.ends()


def play_one_in(server, of, dice=None):
    """One of so many choices of programs."""
    under_valgrind = 100 // fewer(100)  # one schedule of so many
    first, every = (dice or random).randrange(of), of * under_valgrind
    print(f"choice {first} of each {of}")
    before = server.info("lock")["lock_deadlocks_refused"]
    numbered = enumerate(islice(all_schedules(first, of, dice), 0, None, under_valgrind))
    stages = [Stage(server) for _ in range(AT_ONCE)]
    played = refused = 0
    while batch := list(islice(numbered, AT_ONCE)):
        for stage, (number, steps) in zip(stages, batch, strict=False):
            stage.begin(number, steps)
            refused += sum(step.hears == REFUSED for step in steps)
        play(server, stages[: len(batch)])
        played += len(batch)
    print(f"{played} schedules, {refused} refusals")
    assert played * every > 10_000 and refused * every > 1_000
    assert server.control.dbsize() == 0
    info = server.info("lock")
    assert (info["lock_waiters"], info["lock_contended_locks"]) == (0, 0)
    assert info["lock_deadlocks_refused"] == before + refused


def share():
    """One of so many choices of programs; all if the run is thorough."""
    return 100 // drawn(100) // (100 // fewer(100))


@pytest.mark.timeout(600)
def test_every_schedule_of_three_owners_over_two_keys(server):
    play_one_in(server, share())


@pytest.mark.timeout(600)
def test_with_requests_by_once_among_them(server):
    play_one_in(server, share() * (4 if share() > 1 else 1), random.Random(seed_of_run()))
