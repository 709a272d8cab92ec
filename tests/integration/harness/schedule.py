"""Schedules of several clients as data: which client sends what, which one blocks, and when each is granted.

    HANDOFF = [
        ("a", "LOCK.ACQUIRE k oa", 1),                  a sends it and receives 1 at once
        ("b", "LOCK.ACQUIRE k ob BLOCK 0", BLOCKS),     b sends it and blocks
        ("c", "LOCK.ACQUIRE k oc BLOCK 0", BLOCKS),
        ("a", "LOCK.RELEASE k oa", 0),
        ("b", granted(1)),                              the reply to b's blocked command is 1
        ("c", STILL_BLOCKED),                           c still has no reply
        ("c", DIES),                                    c's connection is reset
        ("b", "LOCK.RELEASE k zz", error("NOTHELD")),   an error reply with this code
        ("lease ends", "k"),                            waits until the lease that k has now has expired
        (lambda s: s.server.settle(),),                 any other action; s.actor("a"), s.server
    ]

    @schedules(handoff=HANDOFF, ...)
    def test_schedule(server, resp, schedule):
        run_schedule(server, schedule, resp)

Clients can have any name; each gets a connection at its first step. A command is a string, split as a
shell would, or a tuple of words. An expected reply is a value, error(code), has(field=value, …) for a
map or its flat array, ANY, or a predicate. At the end no client may have received more than its steps say.
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
    """The pending command of a client receives this reply."""

    def __init__(self, reply):
        self.expected = reply

    def __repr__(self):
        return f"granted({self.expected!r})"


answered = granted


class error:
    """An error reply with this code whose text contains `text`."""

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
    """A map reply as a dict, in either protocol."""
    if isinstance(reply, dict):
        return reply
    if isinstance(reply, list) and len(reply) % 2 == 0:
        return dict(zip(reply[::2], reply[1::2], strict=True))
    return {}


def matches(expected, got):
    """Whether a reply is the expected one."""
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
    """Runs a schedule; fails at the first step whose result differs, and shows which one."""
    run = _Run(server, protocol)
    for number, step in enumerate(steps):
        try:
            run.step(step)
        except (AssertionError, ConnectionError) as problem:
            raise AssertionError(_story(steps, number, problem)) from None
    try:
        run.no_further_replies()
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
            self._send(*step)

    def _send(self, name, command, expected):
        words = shlex.split(command) if isinstance(command, str) else command
        actor = self.actor(name)
        actor.send(*words)
        if expected is BLOCKS:
            actor.wait_blocked()
            self._waiting.add(name)
        else:
            self._receive(name, expected)

    def _receive(self, name, expected):
        got = self._actors[name].outcome()
        assert matches(expected, got), f"{name} received {got!r}, not {expected!r}"

    def _later(self, name, event):
        actor = self.actor(name)
        if event is STILL_BLOCKED:
            self.server.settle()
            assert not actor.has_reply(), f"{name} was to wait, but received {actor.outcome()!r}"
            assert actor.is_blocked(), f"{name} has no reply and is not blocked"
        elif event in (DIES, CLOSES):
            (actor.kill_socket if event is DIES else actor.close)()
            self._ended.add(name)
        elif event is CUT_OFF:
            actor.wait_closed()
            self._ended.add(name)
        else:
            assert isinstance(event, granted), f"no such step: {event!r}"
            assert name in self._waiting, f"{name} does not wait"
            self._receive(name, event.expected)
            self._waiting.remove(name)

    def _lease_ends(self, key):
        # By the server's clock, without access to the key: opening an expired key deletes it, which is
        # the module's work.
        end = self.server.control.execute_command("PEXPIRETIME", key)
        assert end != -1, f"{key} has no lease"
        wait_for(lambda: self.server.now_ms() > end, 30, f"the lease of {key} to end")

    def no_further_replies(self):
        self.server.settle()
        for name, actor in self._actors.items():
            if name not in self._ended and actor.has_reply():
                raise AssertionError(f"{name} received more than the schedule says: {actor.outcome()!r}")
