"""`lockctl run` on a ring, with a worker that records when it works: redlock_worker.py."""

import itertools
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

from harness import scaled, wait_for
from redlock_history import Hold
from redlock_ring import KEY, is_gone, wait_gone
from redlock_worker import LAYOUT

WORKER = [sys.executable, "-S", "-E", str(Path(__file__).with_name("redlock_worker.py"))]
NAMES = ("began", "lives", "lives_by_day", "token", "pid", "key", "owner")


class Run:
    """One `lockctl run`. `options` follow those of the servers; without `command` it runs the worker."""

    def __init__(self, start, folder, name, urls, options, key, until, deaf, command):
        self._seen = folder / name
        self._seen.write_bytes(bytes(LAYOUT.size))
        servers = [word for url in urls for word in ("-u", url)]
        work = command or [*WORKER, str(self._seen), str(until), *(["deaf"] if deaf else [])]
        self._output = None
        self._asked = time.monotonic_ns()
        self.process = subprocess.Popen(
            [*start, "run", *servers, *options, key, "--", *work],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    # The worker

    def worker(self):
        """The worker's record: began, lives, lives_by_day (ns), token, pid, key, owner; began is 0 before it runs."""
        *numbers, key, owner = LAYOUT.unpack(self._seen.read_bytes())
        texts = [text.rstrip(b"\0").decode() for text in (key, owner)]
        return SimpleNamespace(**dict(zip(NAMES, [*numbers, *texts], strict=True)))

    def has_begun(self):
        return self.worker().began > 0

    def wait_holds(self, timeout=10.0):
        """Waits until the worker works; returns its record."""

        def holds():
            if self.process.poll() is not None and not self.has_begun():
                raise RuntimeError(f"lockctl has ended with {self.end()}")
            return self.has_begun()

        wait_for(holds, timeout, "lockctl to hold the lock")
        return self.worker()

    def lives_on(self):
        """Whether the worker runs; lockctl must not have ended."""
        assert self.process.poll() is None, f"lockctl has ended with {self.end()}"
        return not is_gone(self.worker().pid)

    # The end

    def finish(self, timeout=20.0):
        """Makes the worker end; otherwise the same as end()."""
        self.process.stdin.close()
        return self.end(timeout)

    def end(self, timeout=20.0):
        """Waits for the end; returns (exit status, output on stderr)."""
        # Not communicate(), which closes standard input and so ends the worker. The output fits into a pipe.
        self.process.wait(scaled(timeout))
        self._output = self._output or (self.process.stdout.read(), self.process.stderr.read())
        return self.process.returncode, self._output[1]

    def status(self, timeout=20.0):
        return self.end(timeout)[0]

    def output(self):
        self.end()
        return self._output[0]

    def hold(self):
        """The Hold for the checker, of a run that has ended; None if it never held the lock."""
        worker = self.worker()
        if worker.began == 0:
            return None
        wait_gone(worker.pid)
        # Its last record, read when it can no longer write.
        worker = self.worker()
        return Hold(worker.owner, worker.token, self._asked, worker.began, worker.lives, time.monotonic_ns())

    def is_over(self):
        return self.process.poll() is not None

    def give_up(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.end()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()


class Runs:
    """Starts runs, and ends those that are left."""

    def __init__(self, start, folder):
        """`start`: the words of the command line that starts lockctl."""
        self._start, self._folder, self._made = start, folder, []
        self._numbers = itertools.count()  # several threads may start runs

    def __call__(self, where, *options, key=KEY, until="told", deaf=False, command=None, direct=False):
        """`where`: a ring, or a list of URLs; `direct`: without its proxies; `until`: UNTIL of the worker."""
        urls = where if isinstance(where, list) else where.urls(direct)
        name = f"run{next(self._numbers)}"
        run = Run(self._start, self._folder, name, urls, options, key, until, deaf, command)
        self._made.append(run)
        return run

    def end(self):
        for run in self._made:
            run.give_up()
