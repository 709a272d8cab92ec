"""docs/redlock.md: the program, the command line and the settings that the page shows."""

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from harness import scaled, scaled_ms, wait_for
from redlock_history import Hold

TOP = Path(__file__).resolve().parents[3]
PAGE = (TOP / "docs" / "redlock.md").read_text()
WITH_PACKAGE = {**os.environ, "PYTHONPATH": str(TOP / "clients" / "python")}
HOUR_MS = 3_600_000
DONE = (0, "working\n", "")
OUTAGE = re.compile(r'RedLock "report": (no reply from localhost:\d+ \(.*\)|localhost:\d+ replies again)\n')
CONTRADICTS = "is not longer than lock.max-lease"


def block(language):
    """The only block of the page in this language."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)
    assert len(found) == 1, f"{len(found)} blocks of {language}"
    return found[0]


def changed(source, changes):
    for old, new in changes:
        assert source.count(old) == 1, f"{old!r} is not there once"
        source = source.replace(old, new)
    return source


class Programs:
    """The program of the page, with the ports of a ring, and with changes for a test."""

    def __init__(self):
        self._started = []

    def start(self, ring, *changes):
        ports = ", ".join(map(str, ring.ports()))
        source = changed(block("py"), [("6379, 6380, 6381", ports), *changes])
        pipe = subprocess.PIPE
        self._started.append(
            subprocess.Popen([sys.executable, "-c", source], env=WITH_PACKAGE, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        )
        return self._started[-1]

    def end(self):
        for program in self._started:
            program.kill()
            program.communicate()


@pytest.fixture
def programs():
    programs = Programs()
    yield programs
    programs.end()


def result(program, told=""):
    """Status, stdout, stderr"""
    said, complaints = program.communicate(told, timeout=scaled(60))
    return program.returncode, said, complaints


def without_outages(outcome):
    """The same without the warnings that one server does not reply, and that it does again."""
    status, said, complaints = outcome
    return status, said, OUTAGE.sub("", complaints)


# Not 0: a try has no time to connect, if the machine is busy.
SHORT_WAIT = ("wait=60", f"wait={scaled(2)}")


def is_refused(program):
    status, said, complaints = result(program)
    assert (status, said) == (1, ""), (status, said, complaints)
    return 'RedLock "report" was not acquired' in complaints


def test_the_program(make_ring, programs):
    ring = make_ring(3)
    for round in range(1, 3):
        assert result(programs.start(ring)) == DONE
        # The program ends when a majority has released it; by then the third one may not have been asked.
        for number in range(3):
            wait_for(lambda number=number: ring.is_free(number, "report"), 20, "the release")
        assert sorted(ring.calls(number, "lock.acquire") for number in range(3))[1:] == [round, round]


def test_a_majority_is_held_by_another_client(make_ring, programs):
    ring = make_ring(3)
    ring.take("other", HOUR_MS, 0, 1, key="report")
    assert is_refused(programs.start(ring, SHORT_WAIT))
    assert ring.is_free(2, "report")
    waits = programs.start(ring)
    wait_for(lambda: ring.calls(2, "lock.acquire") >= 3, 20, "some rounds")
    ring.give("other", 1, key="report")
    assert result(waits) == DONE


@pytest.mark.parametrize("fail", ["kill", "stop"])
def test_servers_fail(make_ring, programs, fail):
    ring = make_ring(3)
    getattr(ring, fail)(1)
    assert without_outages(result(programs.start(ring))) == DONE
    getattr(ring, fail)(2)
    status, said, _ = result(programs.start(ring, SHORT_WAIT))
    assert (status, said) == (1, "")
    wait_for(lambda: ring.is_free(0, "report"), 20, "the release")


def test_work_stops_when_the_lock_is_lost(make_ring, programs):
    ring = make_ring(3)
    step = ("        print(step)", "        input()\n        print(step)")
    steps = ('["working"]', '["working", "too late"]')
    program = programs.start(ring, steps, step, ("lease=10", f"lease={scaled(2)}"))
    wait_for(lambda: not ring.is_free(2, "report"), 20, "the lock to be held")
    ring.kill(0, 1)
    ring.servers[2].let_pass(scaled_ms(2500))
    status, said, complaints = result(program, "go on\n")
    assert (status, said) == (1, "working\n") and "NotHeld" in complaints


# Several programs at once. Each records what it did, in ns of the machine's monotonic clock.

RECORDED = [
    ("try:\n    with report", "import random\nimport time\n\nasked = time.monotonic_ns()\ntry:\n    with report"),
    ("        work(hold)\n", "        since = time.monotonic_ns()\n        time.sleep(random.choice([0, 0.01, 0.05]))\n"
     "        print(hold.owner, hold.token, asked, since, time.monotonic_ns())\n"),
]  # fmt: skip


def test_several_at_once(make_ring, programs, judge):
    """One server is killed and restarts, empty, but in quarantine."""
    ring = make_ring(3, lock_max_lease=10_000, lock_default_lease=10_000)
    for server in ring.servers:
        # Not at the first start, so that the test need not wait for the quarantine.
        server.config["lock.quarantine"] = 11_000
    holds, problems = [], []

    def work():
        for _ in range(4):
            status, said, complaints = without_outages(result(programs.start(ring, *RECORDED)))
            released = time.monotonic_ns()
            if (status, complaints) != (0, ""):
                problems.append((status, complaints))
                return
            owner, *numbers = said.split()
            holds.append(Hold(owner, *map(int, numbers), released))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_for(lambda: len(holds) >= 4 or problems, 60, "some programs to have worked")
    ring.kill(0)
    ring.start(0)
    for thread in threads:
        thread.join()
    assert not problems and len(holds) == 16
    assert judge(holds) == set(), judge.text


# The rest of the page


def test_the_command_line(make_ring, lock_run):
    line = re.search(r"^\$ lockctl run (.*)$", PAGE, re.M)[1].split()
    assert line[-3:] == ["report", "--", "./report.sh"]
    urls = [url for option, url in zip(line, line[1:], strict=False) if option == "-u"]
    assert len(urls) == 3
    options = line[2 * len(urls) : -3]
    assert options == ["--lease", "10", "--wait", "60"]
    ring = make_ring(3)
    run = lock_run(ring, *options, key="report")
    owner = run.wait_holds().owner
    wait_for(lambda: all(owner in ring.holders(number, "report") for number in range(3)), what="all to grant")
    assert run.finish() == (0, "")


def test_the_settings(make_ring, lock_run):
    pairs = [line.split() for line in block("conf").splitlines() if not line.startswith("#")]
    config = {name.replace("-", "_").replace(".", "_"): value for name, value in pairs}
    assert "lock_quarantine" in config and "lock_max_lease" in config
    ring = make_ring(3, **config)
    for server in ring.servers:
        assert server.control.config_get("lock.*").items() >= {(n, v) for n, v in pairs if n.startswith("lock.")}
        assert CONTRADICTS not in server.log()
    # During the delayed restart nothing is granted yet. A lease of ten seconds is allowed.
    assert lock_run(ring, "-l", "10", "--wait", "0").status() == 75
    for server in ring.servers:
        server.control.config_set("lock.quarantine", 0)
    assert lock_run(ring, "-l", "10", "--wait", "0", until=0).status() == 0
    # Check of the test itself: the server's warning for a quarantine that is too short.
    ring.servers[0].restart(lock_quarantine=config["lock_max_lease"])
    assert CONTRADICTS in ring.servers[0].log()
