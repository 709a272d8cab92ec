"""Servers with the module, and workers and beats as processes."""

import ctypes
import itertools
import os
import signal
import subprocess
import sys

import pytest
from harness import Servers, launching, wait_for
from harness.launch import TOP
from harness.waiting import set_scale

HERE = TOP / "clients" / "python" / "celery" / "tests"
PATHS = [HERE, HERE.parent, HERE.parent.parent]
_libc = ctypes.CDLL(None)
_numbers = itertools.count(1)


def pytest_configure():
    set_scale(os.environ.get("SLOWNESS", 3))


@pytest.fixture(scope="session")
def launch():
    with launching("celery") as found:
        yield found


@pytest.fixture
def servers(launch):
    made = Servers(launch)
    yield made
    problems = made.end()
    assert not problems, problems


@pytest.fixture
def server(servers):
    return servers.make()


class Program:
    """A command of celery in a process group of its own."""

    def __init__(self, folder, url, *words, app="program", **settings):
        self.log_path = folder / f"{next(_numbers)}.log"
        self.name = f"n{next(_numbers)}"
        env = {**os.environ, "PYTHONPATH": ":".join(map(str, PATHS)), "PROGRAM_URL": url, "PYTHONUNBUFFERED": "1"}
        env.update({f"PROGRAM_{name.upper()}": str(value) for name, value in settings.items()})
        with open(self.log_path, "wb") as log:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", app, *(word.replace("NAME", self.name) for word in words)],
                cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                preexec_fn=lambda: _libc.prctl(1, signal.SIGKILL),
            )  # fmt: skip
        self.pid = self._popen.pid

    def log(self):
        return self.log_path.read_text(errors="replace")

    def wait_log(self, text):
        wait_for(lambda: text in self.log() or self.has_ended(), 60, f"{text!r} in the log")
        assert text in self.log(), self.log()

    def send(self, number):
        self._popen.send_signal(number)

    def kill(self):
        """The whole group, as if its machine had failed."""
        if not self.has_ended():
            os.killpg(self.pid, signal.SIGKILL)
        return self.wait_end()

    def has_ended(self):
        return self._popen.poll() is not None

    def wait_end(self):
        return self._popen.wait(60)


@pytest.fixture
def program(server, tmp_path):
    """Starts a worker or a beat."""
    begun = []

    def begin(*words, **settings):
        found = Program(tmp_path, f"redis://127.0.0.1:{server.port}/0", *words, **settings)
        begun.append(found)
        return found

    yield begin
    for one in begun:
        one.kill()
        print(f"--- the end of {one.log_path.name}:\n{one.log()[-6000:]}")


@pytest.fixture
def worker(program):
    """Starts a worker that is ready."""

    def begin(*words, **settings):
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        found = program("worker", "-l", "INFO", "-n", "NAME@%h", *quiet, *(words or ["-c", "3"]), **settings)
        found.wait_log(" ready.")
        return found

    return begin


@pytest.fixture
def beat(program):
    def begin(scheduler="lock_so_celery.beat:LockedScheduler", **settings):
        return program("beat", "-l", "INFO", "--pidfile=", "-s", "NAME", "-S", scheduler, **settings)

    return begin
