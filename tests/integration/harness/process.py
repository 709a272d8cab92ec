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
    """One life of a server. Its output is added to `log`."""

    ready, options = READY, ()  # what it logs when it serves; words that follow the configuration file

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

    def log(self):
        """What this life of the server has logged."""
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
        """Whether it is gone, although nobody has told it to end: a fault, with a crash report or without."""
        ended = not self.is_running()
        if ended:
            _unwell.append("it had ended before it was told to")
        return ended

    def is_running(self):
        return self._popen.poll() is None

    def wait_ready(self, timeout=20.0):
        """True when it serves, False when it has ended instead.

        By the log, not by connecting: connecting again and again to a port where nobody listens
        yet can hit on itself as both ends of one connection.
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

    def wait_end(self, timeout):
        self._popen.wait(scaled(timeout))
        return self._popen.returncode

    def problems(self, ended):
        """What was wrong with this life: crash reports, Valgrind's findings."""
        text = self.log()
        found = [f"the server crashed: {mark}" for mark in CRASHED if mark in text]
        if self._vg_log and self._vg_log.exists():
            found += valgrind.problems(self._vg_log.read_text(errors="replace"), ended)
        _unwell.extend(found)
        return found


# All that was ever wrong with a server of this run.
_unwell = []


def unwell():
    """How often something was wrong with a server so far."""
    return len(_unwell)
