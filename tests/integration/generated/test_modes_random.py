"""Random schedules of four owners over three read-write locks: the server does what model/modes.py predicts.

Each step is one command of an owner that does not wait: a request for one lock or for several, each to read or to
write, or a release of something that it holds. At the end all is released. Hundreds of schedules run in parallel on
one server, each with its own keys and owners, one step of each at a time. LOCK_SEED=… repeats them.
"""

import random
from dataclasses import dataclass

import pytest

from harness import drawn, wait_for
from harness.seeds import seed_of_run
from model.modes import NOT_HELD, REFUSED, WAITS, Locks, words
from model.rules import READ, WRITE

OWNERS, NAMES = "abcd", "klm"
AT_ONCE = 200  # schedules
LENGTH = 24  # steps until each owner only releases


@dataclass
class Step:
    """A command of one owner, its reply, which other owners it grants, and how many wait after it."""

    owner: str
    command: list
    expected: object
    granted: dict
    waiting: int


def by_one_command(dice, owner, locks):
    """A random request: the command, without the names of a schedule, and the model's prediction."""
    count = dice.choice((1, 1, 2, 2, 3))
    modes = {name: dice.choice((READ, READ, WRITE)) for name in dice.sample(NAMES, count)}
    multikey = count > 1 or dice.random() < 0.2
    if multikey:
        command = ["LOCK.MACQUIRE", str(count), *modes, owner, "MODES", *words(modes.values())]
    else:
        (name, mode), *_ = modes.items()
        command = [f"LOCK.RW{words([mode])[0]}", name, owner]
    return [*command, "PX", "3600000", "BLOCK", "0"], locks.request(owner, modes, multikey), {}


def by_one_release(dice, owner, locks):
    """A random release of what the owner holds."""
    held = locks.holds_of(owner)
    modes = dict(dice.sample(held, dice.randint(1, len(held))))
    if not locks.has_one_outcome(owner, modes):
        modes = dict([dice.choice(held)])
    multikey = len(modes) > 1 or dice.random() < 0.2
    if multikey:
        command = ["LOCK.MRELEASE", str(len(modes)), *modes, owner, "MODES", *words(modes.values())]
    else:
        (name, mode), *_ = modes.items()
        command = ["LOCK.RELEASE", name, owner, *words([mode])]
    return command, *locks.release(owner, modes, multikey)


def random_schedule(dice):
    locks, steps = Locks(NAMES), []
    while True:
        ready = [owner for owner in OWNERS if owner not in locks.waiting()]
        holding = [owner for owner in ready if locks.holds_of(owner)]
        requests = len(steps) < LENGTH and (not holding or dice.random() < 0.6)
        if not requests and not holding:
            assert not locks.waiting(), "the model itself is stuck"
            return steps
        owner = dice.choice(ready if requests else holding)
        command, expected, granted = (by_one_command if requests else by_one_release)(dice, owner, locks)
        steps.append(Step(owner, command, expected, granted, len(locks.waiting())))


class Stage:
    """Four connections that play one schedule; its number makes its names unique."""

    def __init__(self, server, number, steps):
        self.sockets = {owner: server.raw_connection() for owner in OWNERS}
        self.files = {owner: sock.makefile("rb") for owner, sock in self.sockets.items()}
        self.number, self.steps = number, steps

    def waiting_after(self, at):
        return self.steps[min(at, len(self.steps) - 1)].waiting

    def send(self, at):
        numbered = (word + str(self.number) if len(word) == 1 and word.isalpha() else word for word in self.steps[at].command)
        self.sockets[self.steps[at].owner].sendall((" ".join(numbered) + "\r\n").encode())

    def check_replies(self, at):
        step = self.steps[at]
        if step.expected in (REFUSED, NOT_HELD):
            code = {REFUSED: "-DEADLOCK ", NOT_HELD: "-NOTHELD "}[step.expected]
            line = self.line(step.owner, at)
            assert line.startswith(code), f"{step.owner} received {line!r}\n{self.story(at)}"
        elif step.expected != WAITS:
            self.expect_reply(step.owner, step.expected, at)
        for owner, answer in step.granted.items():
            self.expect_reply(owner, answer, at)

    def expect_reply(self, owner, answer, at):
        line = self.line(owner, at)
        assert line == f":{answer}", f"{owner} received {line!r}, not {answer}\n{self.story(at)}"

    def line(self, owner, at):
        try:
            return self.files[owner].readline().decode().rstrip("\r\n")
        except TimeoutError:
            raise AssertionError(f"{owner} received nothing\n{self.story(at)}") from None

    def story(self, at):
        lines = [f"{' '.join(step.command)} -> {step.expected} {step.granted or ''}" for step in self.steps]
        return "\n".join([*lines[: at + 1], f"^ there, in schedule {self.number}"])

    def ends(self):
        """No connection has received more."""
        for owner in OWNERS:
            self.sockets[owner].sendall(b"PING\r\n")
        for owner in OWNERS:
            line = self.line(owner, len(self.steps) - 1)
            assert line == "+PONG", f"{owner} received {line!r} too\n{self.story(len(self.steps) - 1)}"
            self.sockets[owner].close()


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


@pytest.mark.timeout(600)
def test_random_schedules_of_four_owners_over_three_locks(server):
    dice = random.Random(seed_of_run())
    before = server.info("lock")["lock_deadlocks_refused"]
    replies = []
    for first in range(0, drawn(8000), AT_ONCE):
        stages = [Stage(server, first + i, random_schedule(dice)) for i in range(min(AT_ONCE, drawn(8000) - first))]
        play(server, stages)
        replies += [step.expected for stage in stages for step in stage.steps]
    refused, waits = replies.count(REFUSED), replies.count(WAITS)
    print(f"{len(replies)} commands, {waits} waits, {refused} refusals")
    assert refused * 100 > len(replies) and waits * 10 > len(replies)
    assert server.control.dbsize() == 0
    info = server.info("lock")
    assert (info["lock_waiters"], info["lock_contended_locks"]) == (0, 0)
    assert info["lock_deadlocks_refused"] == before + refused
