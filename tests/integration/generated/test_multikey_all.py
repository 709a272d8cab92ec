"""Every schedule of three owners over two keys: the server does what model/multikey.py predicts.

Each owner follows one of ten short programs. There are 220 choices of three programs (owners are interchangeable); each
choice is played in all orders of its steps. A run that is not thorough plays one choice in four. An owner that waits is
skipped; one that is refused, or has no hold to release, releases what it holds and is finished. A second test plays
some choices again with ONCE in random requests; LOCK_SEED=… repeats these choices. Hundreds of schedules run in
parallel on one server, each with its own keys and owners, one step of each at a time.
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
    """The same program, with ONCE in some of its requests."""
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
    """A command of one owner, its reply, and which other owners it grants; `before` is the model before the step."""

    owner: str
    command: tuple
    expected: object
    granted: dict
    waiting: int
    before: Locks


@dataclass
class State:
    left: dict
    locks: Locks = field(default_factory=lambda: Locks("kl"))
    steps: tuple = ()

    def after(self, owner):
        """The state after one more step of this owner."""
        locks, left = deepcopy(self.locks), dict(self.left)
        command, *rest = left[owner]
        what, names, multikey, *once = command
        granted = {}
        if what == "ask":
            expected = locks.request(owner, names, multikey, *once)
        else:
            expected, granted = locks.release(owner, names, multikey)
        if expected in (REFUSED, NOT_HELD):
            held = locks.hold_of(owner)
            rest = [mrelease(held)] if held else []
        left[owner] = rest
        step = Step(owner, command, expected, granted, len(locks.waiting()), self.locks)
        return State(left, locks, (*self.steps, step))


def schedules_of(state):
    """All schedules from this state to the end."""
    waiting = state.locks.waiting()
    ready = [owner for owner in OWNERS if state.left[owner] and owner not in waiting]
    if not ready:
        assert not waiting and not any(state.left.values()), "the model itself is stuck"
        yield state.steps
    for owner in ready:
        yield from schedules_of(state.after(owner))


def all_schedules(first=0, of=1, dice=None):
    """The schedules of every `of`th choice of programs, from `first` on; with `dice`, some requests have ONCE."""
    for programs in islice(combinations_with_replacement(PROGRAMS, len(OWNERS)), first, None, of):
        if dice:
            programs = [by_once(dice, program) for program in programs]
        yield from schedules_of(State(dict(zip(OWNERS, programs, strict=True))))


SENTENCE = re.compile(r"([abc])\d+ waits for ([kl])\d+ (held by|behind) ([abc])\d+")


class Stage:
    """Three connections that play one schedule after another; the number of the schedule makes its names unique."""

    def __init__(self, server):
        self.sockets = {owner: server.raw_connection() for owner in OWNERS}
        self.files = {owner: sock.makefile("rb") for owner, sock in self.sockets.items()}
        self.number, self.steps = None, ()

    def begin(self, number, steps):
        self.number, self.steps = number, steps

    def waiting_after(self, at):
        return self.steps[min(at, len(self.steps) - 1)].waiting

    def send(self, at):
        step = self.steps[at]
        what, names, multikey, *once = step.command
        verb = {"ask": "ACQUIRE", "give": "RELEASE"}[what]
        keys = " ".join(f"{name}{self.number}" for name in names)
        head = f"LOCK.M{verb} {len(names)} {keys}" if multikey else f"LOCK.{verb} {keys}"
        tail = (" ONCE" if any(once) else "") + " PX 3600000 BLOCK 0" if what == "ask" else ""
        self.sockets[step.owner].sendall(f"{head} {step.owner}{self.number}{tail}\r\n".encode())

    def check_replies(self, at):
        step = self.steps[at]
        if step.expected == REFUSED:
            self.expect_true_cycle(step)
        elif step.expected == NOT_HELD:
            line = self.line(step.owner, at)
            assert line.startswith("-NOTHELD "), f"{step.owner} received {line!r}\n{self.story(at)}"
        elif step.expected != WAITS:
            self.expect_reply(step.owner, step.expected, at)
        for owner, answer in step.granted.items():
            self.expect_reply(owner, answer, at)

    def expect_reply(self, owner, answer, at):
        line = self.line(owner, at)
        assert line == f":{answer}", f"{owner} received {line!r}, not {answer}\n{self.story(at)}"

    def expect_true_cycle(self, step):
        line = self.line(step.owner, self.steps.index(step))
        assert line.startswith("-DEADLOCK "), f"{line}\n{self.story(self.steps.index(step))}"
        sentences = [SENTENCE.fullmatch(text) for text in line.removeprefix("-DEADLOCK ").split(", ")]
        assert all(sentences), line
        waits = [sentence.groups() for sentence in sentences]
        true = step.before.is_a_cycle(waits, step.owner, step.command[1])
        assert true, f"{line}\n{self.story(self.steps.index(step))}"

    def line(self, owner, at):
        try:
            return self.files[owner].readline().decode().rstrip("\r\n")
        except TimeoutError:
            raise AssertionError(f"{owner} received nothing\n{self.story(at)}") from None

    def story(self, at):
        lines = [f"{step.owner} {step.command} -> {step.expected} {step.granted or ''}" for step in self.steps]
        return "\n".join([*lines[: at + 1], "^ there"])

    def ends(self):
        """No connection has received more."""
        for owner in OWNERS:
            self.sockets[owner].sendall(b"PING\r\n")
        for owner in OWNERS:
            line = self.line(owner, len(self.steps) - 1)
            assert line == "+PONG", f"{owner} received {line!r} too\n{self.story(len(self.steps) - 1)}"


def play(server, stages):
    """Plays all stages in parallel: the search for cycles has run from every wait before the next step is sent."""
    for at in range(max(len(stage.steps) for stage in stages)):
        active = [stage for stage in stages if at < len(stage.steps)]
        for stage in active:
            stage.send(at)
        for stage in active:
            stage.check_replies(at)
        waiting = sum(stage.waiting_after(at) for stage in stages)
        wait_for(lambda waiting=waiting: server.info("lock")["lock_waiters"] == waiting, 10, f"{waiting} to wait")
        server.all_searched()
    for stage in stages:
        stage.ends()


def play_one_in(server, of, dice=None):
    """Plays every `of`th choice of programs, from a random first one on."""
    under_valgrind = 100 // fewer(100)  # plays every n-th schedule
    first, every = (dice or random).randrange(of), of * under_valgrind
    print(f"choice {first} of every {of}")
    before = server.info("lock")["lock_deadlocks_refused"]
    numbered = enumerate(islice(all_schedules(first, of, dice), 0, None, under_valgrind))
    stages = [Stage(server) for _ in range(AT_ONCE)]
    played = refused = 0
    while batch := list(islice(numbered, AT_ONCE)):
        for stage, (number, steps) in zip(stages, batch, strict=False):
            stage.begin(number, steps)
            refused += sum(step.expected == REFUSED for step in steps)
        play(server, stages[: len(batch)])
        played += len(batch)
    print(f"{played} schedules, {refused} refusals")
    assert played * every > 10_000 and refused * every > 1_000
    assert server.control.dbsize() == 0
    info = server.info("lock")
    assert (info["lock_waiters"], info["lock_contended_locks"]) == (0, 0)
    assert info["lock_deadlocks_refused"] == before + refused


def share():
    """n, if a run plays one choice of programs in n; 1 if the run is thorough."""
    return 100 // drawn(100) // (100 // fewer(100))


@pytest.mark.timeout(600)
def test_every_schedule_of_three_owners_over_two_keys(server):
    play_one_in(server, share())


@pytest.mark.timeout(600)
def test_every_schedule_with_once_in_some_requests(server):
    play_one_in(server, share() * (4 if share() > 1 else 1), random.Random(seed_of_run()))
