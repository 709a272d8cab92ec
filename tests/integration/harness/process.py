"""The server as a process: starting, its log, its end."""

import ctypes
import signal
import subprocess

from . import valgrind
from .waiting import scaled, wait_for

READY = "Ready to accept connections"
PORT_TAKEN = "Address already in use"
CRASHED = ("=== REDIS BUG REPORT START", "=== VALKEY BUG REPORT START", "=== ASSERTION FAILED")

_libc = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def _die_with_parent():
    # A test run that is killed leaves no server behind.
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """One process of a server, from its start to its end. Its output is appended to `log`."""

    ready, options = READY, ()  # what it logs when it is ready; arguments that follow the configuration file

    def __init__(self, launch, conf, log, name):
        self.folder, self.log_path = conf.parent, log
        self._log_start = log.stat().st_size if log.exists() else 0
        self._vg_log = self.folder / f"{valgrind.LOG_NAME}.{name}" if launch.valgrind else None
        command = [launch.server, str(conf), *self.options]
        if launch.valgrind:
            command = valgrind.command(self._vg_log, launch.suppressions) + command
        with open(log, "ab") as output:
            # A session of its own: Ctrl-C reaches pytest, which then stops its servers in order.
            self._popen = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        self.pid = self._popen.pid
        _running.add(self.pid)

    def log(self):
        """What this process has logged."""
        with open(self.log_path, "rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def last_words(self):
        """The end of its log, and of Valgrind's, to show with a failure."""
        text = self.log()[-3000:]
        if self._vg_log and self._vg_log.exists():
            text += "\nValgrind's log:\n" + self._vg_log.read_text(errors="replace")[-3000:]
        return text

    def has_ended(self):
        """Whether it has ended although it was not stopped: a fault, with or without a crash report."""
        ended = not self.is_running()
        if ended:
            _faults.append("it had ended before it was stopped")
        return ended

    def is_running(self):
        runs = self._popen.poll() is None
        if not runs:
            _running.discard(self.pid)
        return runs

    def wait_ready(self, timeout=20.0):
        """True when it is ready, False if it has ended instead.

        It reads the log instead of connecting: a client that connects again and again to a port on
        which no process listens yet can happen to connect to itself.
        """
        wait_for(
            lambda: self.ready in self.log() or not self.is_running(),
            timeout,
            f"the server in {self.folder} to be ready",
        )
        return self.is_running()

    def kill(self):
        self._popen.kill()
        self._popen.wait()
        _running.discard(self.pid)

    def wait_end(self, timeout):
        self._popen.wait(scaled(timeout))
        _running.discard(self.pid)
        return self._popen.returncode

    def problems(self, ended):
        """What was wrong with this process: crash reports, Valgrind's errors."""
        text = self.log()
        found = [f"the server crashed: {mark}" for mark in CRASHED if mark in text]
        if self._vg_log and self._vg_log.exists():
            found += valgrind.problems(self._vg_log.read_text(errors="replace"), ended)
        _faults.extend(found)
        return found


# The pids of the servers that run now.
_running = set()


def running():
    return _running.copy()


def waited(pid):
    """How long the main thread of this process has waited for a processor since it began, in s; 0 if that is not
    known."""
    try:
        with open(f"/proc/{pid}/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


# All faults of servers in this run.
_faults = []


def faults():
    """The number of faults of servers so far."""
    return len(_faults)
