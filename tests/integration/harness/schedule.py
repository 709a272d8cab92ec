"""Schedules of several clients as data: who says what, who blocks, who is granted when.

    HANDOFF = [
        ("a", "LOCK.ACQUIRE k oa", 1),                  a says it and hears 1 at once
        ("b", "LOCK.ACQUIRE k ob BLOCK 0", BLOCKS),     b says it and blocks
        ("c", "LOCK.ACQUIRE k oc BLOCK 0", BLOCKS),
        ("a", "LOCK.RELEASE k oa", 0),
        ("b", granted(1)),                              b's blocked command is answered 1
        ("c", STILL_BLOCKED),                           c's is not
        ("c", DIES),                                    c's connection is reset
        ("b", "LOCK.RELEASE k zz", error("NOTHELD")),   an error reply with this code
        ("lease ends", "k"),                            the lease that k has now runs out
        (lambda s: s.server.settle(),),                 anything else; s.actor("a"), s.server
    ]

    @schedules(handoff=HANDOFF, ...)
    def test_schedule(server, resp, schedule):
        run_schedule(server, schedule, resp)

Names of clients are free; each gets a connection at its first step. A command is a text, split as a
shell would, or a tuple of words. An expected answer is a value, error(code), has(field=value, …) for
a map or its flat array, ANY, or a predicate. At the end no client may have heard more than was said.
"""

import shlex

import pytest
from redis.exceptions import ConnectionError, ResponseError

from .errors import code_of
from .waiting import wait_for


class _Marker:
    def __init__(self, name):
        self._name = name

    def __repr__(self):
        return self._name


BLOCKS = _Marker("BLOCKS")
STILL_BLOCKED = _Marker("STILL_BLOCKED")
DIES = _Marker("DIES")
CLOSES = _Marker("CLOSES")
CUT_OFF = _Marker("CUT_OFF")
ANY = _Marker("ANY")


class granted:
    """The outstanding command of a client is answered with this."""

    def __init__(self, reply):
        self.expected = reply

    def __repr__(self):
        return f"granted({self.expected!r})"


answered = granted


class error:
    """An error reply whose code is this, and whose text holds `text`."""

    def __init__(self, code, text=""):
        self._code, self._text = code, text

    def __call__(self, got):
        return isinstance(got, ResponseError) and code_of(got) == self._code and self._text in str(got)

    def __repr__(self):
        return f"error({self._code!r}{', ' + repr(self._text) if self._text else ''})"


class has:
    """A map (RESP3) or flat array (RESP2) in which these fields have these values."""

    def __init__(self, **fields):
        self._fields = fields

    def __call__(self, got):
        found = as_map(got)
        return all(name in found and matches(want, found[name]) for name, want in self._fields.items())

    def __repr__(self):
        return "has(" + ", ".join(f"{name}={want!r}" for name, want in self._fields.items()) + ")"


def as_map(reply):
    """A map reply as a dict, whichever protocol it came by."""
    if isinstance(reply, dict):
        return reply
    if isinstance(reply, list) and len(reply) % 2 == 0:
        return dict(zip(reply[::2], reply[1::2], strict=True))
    return {}


def matches(expected, got):
    """Whether an answer is the expected one."""
    if expected is ANY:
        return True
    if callable(expected):
        return bool(expected(got))
    return not isinstance(got, Exception) and type(got) is type(expected) and got == expected


def schedules(**by_name):
    """Parametrizes a test over schedules; their names are the test ids."""
    params = [pytest.param(steps, id=name) for name, steps in by_name.items()]
    return pytest.mark.parametrize("schedule", params)


def run_schedule(server, steps, protocol=2):
    """Plays a schedule; fails at the first step that goes otherwise, showing which."""
    run = _Run(server, protocol)
    for number, step in enumerate(steps):
        try:
            run.step(step)
        except (AssertionError, ConnectionError) as problem:
            raise AssertionError(_story(steps, number, problem)) from None
    try:
        run.nobody_heard_more()
    except AssertionError as problem:
        raise AssertionError(_story(steps, len(steps), problem)) from None


def _story(steps, failed, problem):
    lines = [f"{'-> ' if n == failed else '   '}{step!r}" for n, step in enumerate(steps)]
    if failed == len(steps):
        lines.append("-> (the end)")
    return "\n".join(["the schedule failed:", *lines, str(problem)])


class _Run:
    def __init__(self, server, protocol):
        self.server = server
        self._protocol = protocol
        self._actors, self._waiting, self._ended = {}, set(), set()

    def actor(self, name):
        if name not in self._actors:
            self._actors[name] = self.server.actor(name, self._protocol)
        return self._actors[name]

    def step(self, step):
        if len(step) == 1:
            step[0](self)
        elif step[0] == "lease ends":
            self._lease_ends(step[1])
        elif len(step) == 2:
            self._later(step[0], step[1])
        else:
            self._say(*step)

    def _say(self, name, command, expected):
        words = shlex.split(command) if isinstance(command, str) else command
        actor = self.actor(name)
        actor.send(*words)
        if expected is BLOCKS:
            actor.wait_blocked()
            self._waiting.add(name)
        else:
            self._hear(name, expected)

    def _hear(self, name, expected):
        got = self._actors[name].outcome()
        assert matches(expected, got), f"{name} heard {got!r}, not {expected!r}"

    def _later(self, name, event):
        actor = self.actor(name)
        if event is STILL_BLOCKED:
            self.server.settle()
            assert not actor.has_reply(), f"{name} was to wait, but heard {actor.outcome()!r}"
            assert actor.is_blocked(), f"{name} has no answer and is not blocked"
        elif event in (DIES, CLOSES):
            (actor.kill_socket if event is DIES else actor.close)()
            self._ended.add(name)
        elif event is CUT_OFF:
            actor.wait_closed()
            self._ended.add(name)
        else:
            assert isinstance(event, granted), f"no such step: {event!r}"
            assert name in self._waiting, f"{name} waits for nothing"
            self._hear(name, event.expected)
            self._waiting.remove(name)

    def _lease_ends(self, key):
        # By the server's clock, without touching the key: opening an expired key deletes it, which
        # would do the module's work for it.
        end = self.server.control.execute_command("PEXPIRETIME", key)
        assert end != -1, f"{key} has no lease"
        wait_for(lambda: self.server.now_ms() > end, 30, f"the lease of {key} to end")

    def nobody_heard_more(self):
        self.server.settle()
        for name, actor in self._actors.items():
            if name not in self._ended and actor.has_reply():
                raise AssertionError(f"{name} heard more than the schedule says: {actor.outcome()!r}")
