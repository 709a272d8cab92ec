"""`lockctl run` on a ring, with a worker whose life can be looked at: redlock_worker.py."""

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
    """One `lockctl run`. `words` follow the options of the servers; without `command` it is the worker."""

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
        """What it has written: began, lives, lives_by_day (ns), token, pid, key, owner; began is 0 before it lives."""
        *numbers, key, owner = LAYOUT.unpack(self._seen.read_bytes())
        texts = [text.rstrip(b"\0").decode() for text in (key, owner)]
        return SimpleNamespace(**dict(zip(NAMES, [*numbers, *texts], strict=True)))

    def has_begun(self):
        return self.worker().began > 0

    def wait_holds(self, timeout=10.0):
        """Until the worker works; returns what it has written."""

        def holds():
            if self.process.poll() is not None and not self.has_begun():
                raise RuntimeError(f"lockctl has ended with {self.end()}")
            return self.has_begun()

        wait_for(holds, timeout, "lockctl to hold the lock")
        return self.worker()

    def lives_on(self):
        """It has been told of no loss."""
        assert self.process.poll() is None, f"lockctl has ended with {self.end()}"
        return not is_gone(self.worker().pid)

    # The end

    def finish(self, timeout=20.0):
        """The worker is told to end; as end()."""
        self.process.stdin.close()
        return self.end(timeout)

    def end(self, timeout=20.0):
        """Waits for it; (exit status, what it has said)"""
        # Not communicate(), which closes its standard input: a worker ends by that. A pipe has room for what is said.
        self.process.wait(scaled(timeout))
        self._output = self._output or (self.process.stdout.read(), self.process.stderr.read())
        return self.process.returncode, self._output[1]

    def status(self, timeout=20.0):
        return self.end(timeout)[0]

    def output(self):
        self.end()
        return self._output[0]

    def hold(self):
        """As the judge wants it, of a run that is over; None if it never held the lock."""
        worker = self.worker()
        if worker.began == 0:
            return None
        wait_gone(worker.pid)
        # What it wrote last, after it cannot have written more.
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
    """Makes them, and ends what is left of them."""

    def __init__(self, start, folder):
        """`start`: the words by which lockctl is started."""
        self._start, self._folder, self._made = start, folder, []
        self._numbers = itertools.count()  # runs may be begun by several threads

    def __call__(self, where, *options, key=KEY, until="told", deaf=False, command=None, direct=False):
        """`where`: a ring, or a list of URLs; `direct`: past its proxies; `until`: as the worker's."""
        urls = where if isinstance(where, list) else where.urls(direct)
        name = f"run{next(self._numbers)}"
        run = Run(self._start, self._folder, name, urls, options, key, until, deaf, command)
        self._made.append(run)
        return run

    def end(self):
        for run in self._made:
            run.give_up()
