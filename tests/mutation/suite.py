"""Running tests with a module: which fail, which hang, and whether the module causes a failure."""

import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from build import TOP, WORK
from record import file_of

HERE = Path(__file__).resolve().parent
TESTS = "tests/integration"
# pytest's status when all tests are deselected.
NOTHING_TO_RUN = 5
REPEAT_LIMIT = 300
"""Seconds that one test may take with the original, on a machine that is very busy."""
_stopping = threading.Event()


class Stopped(Exception):
    """The run is being interrupted: the result of a test means nothing."""


@dataclass
class Outcome:
    failed: list = field(default_factory=list)
    """Tests that failed, in the order of the failures."""
    hung: list = field(default_factory=list)
    """Tests that had not ended at the time limit."""
    ran: set = field(default_factory=set)
    """The test files in which at least one test ended."""
    times: dict = field(default_factory=dict)
    """How many seconds each test took."""
    seconds: float = 0.0

    @property
    def noticed(self):
        return self.failed + self.hung


def files():
    """The names of all test files: fair/test_keys."""
    folder = TOP / TESTS
    return sorted(str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("test_*.py"))


def _read(record):
    """What the plugin has recorded so far."""
    with contextlib.suppress(FileNotFoundError):
        for line in record.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):
                yield json.loads(line)


def _outcome(record, ended):
    outcome, under_way = Outcome(), {}
    for event in _read(record):
        test = event["test"]
        if event["event"] == "start":
            under_way[test] = True
        elif event["event"] == "failed" and test not in outcome.failed:
            outcome.failed.append(test)
        outcome.times[test] = outcome.times.get(test, 0) + event.get("seconds", 0)
        if event.get("when") == "teardown":
            under_way.pop(test, None)
            outcome.ran.add(file_of(test))
    if not ended:
        outcome.hung = [test for test in under_way if test not in outcome.failed]
    return outcome


def stop():
    """Ends what runs now, and what is started from now on."""
    _stopping.set()


def _never():
    return None


def run_command(command, limit):
    """Runs a command in a process group of its own: its status, or None if it was ended after `limit` seconds."""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, cwd=TOP, start_new_session=True, **quiet)
    return _wait(process.pid, lambda seconds: _status(process, seconds), limit, _never)


def _status(process, seconds):
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(seconds)
    return None


def _never():
    return None


def _wait(pid, status, limit, enough):
    """Waits for a process, and ends its group. `enough()`: the time from which ten more seconds are allowed, or None."""
    end = time.monotonic() + limit
    try:
        while time.monotonic() < end and not _stopping.is_set():
            if status(0.2) is not None:
                return status(0)
            if enough() is not None:
                end = min(end, enough() + 10)
        return None
    finally:
        _end(pid, status)
        if _stopping.is_set():
            raise Stopped


def _end(pid, status):
    """Ends the process and its group: pytest's workers, whose servers end with them."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    # A fork may not be the leader of its group yet.
    while status(0.1) is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


# Starting Python with pytest and all that the tests import takes as long as some tests. So pytest runs in forks of a
# process that has imported these. Not xdist, which records sys.path when it is imported.
_fork = multiprocessing.get_context("forkserver")
_fork.set_forkserver_preload(["pytest", "hypothesis.stateful", "redis", "pytest_timeout"])


def _pytest(arguments, env, log):
    os.setsid()
    # A shell ignores it in background processes, and then the processes that the tests start and interrupt ignore it too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(TOP)
    os.environ.update(env)
    sys.path.insert(0, str(HERE))
    with open(log or os.devnull, "ab") as output, open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    import pytest

    sys.exit(int(pytest.main(arguments)))


def _run_pytest(arguments, env, log, limit, enough):
    process = _fork.Process(target=_pytest, args=(arguments, env, log))
    process.start()

    def status(seconds):
        process.join(seconds)
        return process.exitcode

    return _wait(process.pid, status, limit, enough)


def run(module, tests, jobs, limit, test_limit, without=(), stop=True, log=None, env=(), enough=None):
    """Runs tests, given as names of files or ids of tests, in this order, with a module.

    `limit` is for the whole run, `test_limit` for each test, in seconds. `stop`: at the first failure. `enough`: as for
    _wait.
    """
    with TemporaryDirectory(dir=WORK, prefix="run-") as folder:
        record = Path(folder) / "record"
        paths = [f"tests/{test}" if "::" in test else f"{TESTS}/{test}.py" for test in tests]
        # Detailed assertion messages are for people, and need modules that are imported after pytest.
        command = ["-p", "record", "-p", "no:cacheprovider", "-q", "--tb=short", "--assert=plain"]
        command += ["-n", str(jobs), "--dist", "loadfile", "--no-loadscope-reorder"] if jobs > 1 else []
        command += ["-x"] if stop else []
        command += [f"--timeout={test_limit:.0f}", f"--module={module}", *(f"--deselect={test}" for test in without)]
        seen = {"MUTATION_RECORD": str(record), "PYTHONPATH": str(HERE), **dict(env)}
        enough = enough or (_FirstFailure(record) if stop else _never)
        start = time.monotonic()
        status = _run_pytest([*command, *paths], seen, log, limit, enough)
        # A test that was ended because another one had failed did not hang.
        outcome = _outcome(record, status is not None or isinstance(enough, _FirstFailure) and enough() is not None)
        outcome.seconds = time.monotonic() - start
        for left in _lines(Path(f"{record}.folders")):
            shutil.rmtree(left, ignore_errors=True)
    if not outcome.ran and not outcome.noticed and not (status == NOTHING_TO_RUN and without):
        raise RuntimeError(f"pytest ran no test, and ended with {status}; its output is in {log}")
    return outcome


def _lines(path):
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


class _FirstFailure:
    """When the first test failed, according to the record."""

    def __init__(self, record):
        self._record, self._when = record, None

    def __call__(self):
        if self._when is None and any(event["event"] == "failed" for event in _read(self._record)):
            self._when = time.monotonic()
        return self._when


def is_noticed(test, module, original, log=None):
    """Whether a test that has failed, or hung, now passes with the original, and fails again with the mutant.

    Both run at the same time, so that the machine is equally busy; the mutant is given five times as long.
    """
    began, passed = time.monotonic(), threading.Event()
    outcomes = {}

    def with_original():
        outcomes["original"] = run(original, [test], 1, REPEAT_LIMIT, REPEAT_LIMIT)
        outcomes["until"] = began + max(15, 5 * (time.monotonic() - began))
        passed.set()

    def too_long():
        return outcomes["until"] if passed.is_set() and time.monotonic() > outcomes["until"] else None

    thread = threading.Thread(target=with_original)
    thread.start()
    again = run(module, [test], 1, 2 * REPEAT_LIMIT, 2 * REPEAT_LIMIT, stop=False, log=log, enough=too_long)
    thread.join()
    original = outcomes["original"]
    return bool(original.ran and not original.noticed and again.noticed)
