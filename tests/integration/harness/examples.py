"""The examples of a documentation page: parses them, and types them from the top of the page to the bottom."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field

from .answers import Answers
from .cli import Cli
from .launch import TOP
from .waiting import scaled, wait_for

# The port on which `make run` starts a server; every example names it.
_PORT = "6379"
_FENCE = re.compile(r" *```(.*)")
_INDENT = "    "
# `alice>` is a session of redis-cli, `alice$` and `$` are shells. A line `redis-cli …` without a prompt is typed in a
# shell too; its output is not shown.
_PROMPT = re.compile(r"(?P<who>\w+>|\w*\$|(?=redis-cli )) *(?P<typed>.*)")
_WAITS = re.compile(r" *\.\.\. waits\b.*?(?P<closes>, and \w+ connection closes)? \.\.\.")
_INTERRUPTED = ["^C"]
_NIL = ["(nil)"]
_REFUSED = re.compile(r"\(error\) DEADLOCK ")


# Reading


@dataclass
class _Step:
    """A prompt, what is typed after it, and the lines below it up to the next prompt."""

    line: int
    who: str
    typed: str
    below: list = field(default_factory=list)


def _steps_of(text):
    return [step for block in _transcripts(text) for step in _steps(block)]


def _transcripts(text):
    """Lists of (line number, line): the blocks with a prompt, and all fences without a language. No programs."""
    fence, block = None, []
    for number, line in enumerate([*text.splitlines(), "the end"], 1):
        mark = _FENCE.fullmatch(line)
        if not mark and (fence is not None or line.startswith(_INDENT) or not line):
            block.append((number, line if fence is not None else line.removeprefix(_INDENT)))
            continue
        if fence == "" or (fence not in _INTERPRETERS and any(_PROMPT.match(line) for _, line in block)):
            yield block
        block = []
        if mark:
            fence = mark[1] if fence is None else None
    assert fence is None, "a fence is left open"


def _steps(block):
    steps = []
    for number, line in block:
        if prompt := _PROMPT.fullmatch(line):
            steps.append(_Step(number, prompt["who"], prompt["typed"]))
        elif line:
            assert steps, f"line {number}: {line!r} has no prompt above; any other fence names its language"
            steps[-1].below.append(line)
    return steps


# Programs

_INTERPRETERS = {"python": sys.executable, "sh": "sh"}


def programs_of(text):
    """[(language, source)] of the fences whose language can be run."""
    fences = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)
    return [(language, source) for language, source in fences if language in _INTERPRETERS]


def start_program(server, language, source):
    """Starts a program unchanged except for the port of this server; a Popen, in a process group of its own."""
    assert _PORT in source, f"it does not name the port of make run, {_PORT}"
    source = source.replace(_PORT, str(server.port))
    if not shutil.which("redis-cli"):
        source = source.replace("redis-cli ", "valkey-cli ")
    words = [_INTERPRETERS[language], "-c", source]
    pipe = subprocess.PIPE
    # The client package for Python, from its sources.
    where = {**os.environ, "PYTHONPATH": str(TOP / "clients" / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(words, env=where, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def run_program(server, language, source):
    """Runs a program in the same way and waits for its end; returns status, stdout and stderr."""
    with start_program(server, language, source) as program:
        try:
            stdout, stderr = program.communicate(timeout=scaled(60))
        finally:
            program.kill()
    return program.returncode, stdout, stderr


# Typing


def run_examples(server, text):
    """Types what a page shows; fails at the first step whose result differs from the page."""
    steps = _steps_of(text)
    assert steps, "the page has no examples"
    desk = _Desk(server)
    try:
        # Before any command is typed, so that no lease has to last longer than the start of a program.
        desk.open(dict.fromkeys(step.who for step in steps if step.who.endswith(">")))
        for step in steps:
            try:
                desk.do(step)
            except AssertionError as problem:
                raise AssertionError(f"line {step.line}: {step.who} {step.typed}\n{problem}") from None
        desk.no_client_waits()
    finally:
        desk.close()


class _Desk:
    """All terminal windows of the person who types."""

    def __init__(self, server):
        self._server, self._answers = server, Answers()
        # By prompt: the program there, and the id of its client while that waits.
        self._programs, self._waiting = {}, {}

    def open(self, names, options=()):
        """Starts sessions of redis-cli; they replace those that had these prompts."""
        for who in names:
            self._start(who, options)
            self._reply_of(who)

    def close(self):
        for program in self._programs.values():
            program.close()

    def do(self, step):
        if step.who in self._waiting:
            # Nothing is typed where a command waits: this is its reply, on the line of the prompt or below it.
            del self._waiting[step.who]
            self._check_reply(step.who, step.typed, [step.typed, *step.below] if step.typed else step.below)
            return
        before = self._check_waits()
        who = self._type(step)
        client = self._new_waiter(who, before)
        if waits := step.below and _WAITS.fullmatch(step.below[0]):
            assert client, f"it does not wait: {self._reply_of(who)}"
            self._wait(step, client, bool(waits["closes"]))
        else:
            assert not client or step.below == _NIL or _REFUSED.match("".join(step.below[:1])), "it waits"
            self._check_reply(who, step.typed, step.below)

    def no_client_waits(self):
        """Fails if the page does not show the reply to a command that waited."""
        assert not self._waiting, f"{', '.join(self._waiting)} waits at the end of the page"

    def _check_waits(self):
        """Fails if a client has a reply that the page has not shown yet; returns the clients that wait."""
        blocked = self._blocked()
        for who, client in self._waiting.items():
            assert client in blocked, f"{who} has a reply already: {self._reply_of(who)}"
        return blocked

    def _blocked(self):
        # Without WAIT: the pages do not show that it waits.
        clients = self._server.control.client_list()
        return {client["id"] for client in clients if "b" in client["flags"] and client["cmd"] != "wait"}

    def _type(self, step):
        """Types a line; returns the prompt whose program shows its reply."""
        if step.who.endswith(">"):
            if step.who not in self._programs:
                self.open([step.who])
            self._programs[step.who].type(step.typed)
            return step.who
        program, *words = shlex.split(step.typed, comments=True) or [""]
        assert program == "redis-cli", "in a shell only redis-cli may be typed here"
        assert words[:2] == ["-p", _PORT], f"it does not name the port of make run, -p {_PORT}"
        words = words[2:]
        # Without a command it is a session.
        who = "redis>" if all(word.startswith("-") for word in words) else step.who
        self._start(who, words)
        return who

    def _start(self, who, words):
        self._drop(who)
        self._programs[who] = Cli(self._server.port, words)

    def _drop(self, who):
        if who in self._programs:
            self._programs.pop(who).close()

    def _new_waiter(self, who, before):
        """The client that has begun to wait and is not among those `before`, or None if there is a reply instead."""
        program = self._programs[who]
        found = wait_for(lambda: program.answer() is not None or self._blocked() - before, what=f"{who} to wait")
        return None if found is True else found.pop()

    def _wait(self, step, client, closes):
        """How a wait ends: its connection closes, or its reply is shown right below, or at a later step."""
        below = step.below[1:]
        if below == _INTERRUPTED:
            self._programs[step.who].interrupt()
        elif closes:
            assert not below, f"its connection has closed, and yet the page shows a reply: {below}"
        elif below:
            self._check_reply(step.who, step.typed, below)
            return
        else:
            self._waiting[step.who] = client
            return
        self._drop(step.who)
        wait_for(lambda: client not in self._blocked(), what="the server to see the connection close")

    def _check_reply(self, who, typed, shown):
        real, program = self._reply_of(who), self._programs[who]
        if who == "":
            assert not shown and not real[0].startswith("(error)") and program.has_succeeded(), real
        else:
            self._answers.compare(typed, shown, real)
        if program.has_ended():
            self._drop(who)

    def _reply_of(self, who):
        program = self._programs[who]
        wait_for(lambda: program.answer() is not None, 10, f"a reply to {who}")
        return program.answer()
