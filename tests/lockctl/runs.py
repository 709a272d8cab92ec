"""`lockctl run` as a process: how to start it, signal it and wait for it, and what it leaves behind."""

import ctypes
import os
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

from harness.waiting import scaled, wait_for

PROGRAM = Path(os.environ.get("LOCKCTL") or Path(__file__).resolve().parents[2] / "build/lockctl/lockctl").resolve()
USAGE, UNAVAILABLE, NOT_HAD, LOST, CANNOT_RUN, NO_COMMAND = 64, 69, 75, 76, 126, 127

# Its own process group in the session of the tests: there it can be stopped and continued, as under a shell.
AS_A_JOB = {"start_new_session": False, "process_group": 0}

_libc = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def die_with_parent():
    """In a child: makes it die with its parent, so that a test run that is killed leaves nothing behind."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def url_of(place):
    """The URL of a server, of any object with a port, or of a URL."""
    return place if isinstance(place, str) else f"redis://127.0.0.1:{place.port}"


def valgrind_words(log):
    return [
        "valgrind",
        "-q",
        "--error-exitcode=99",
        "--leak-check=full",
        "--child-silent-after-fork=yes",
        "--trace-children=no",
        f"--log-file={log}",
    ]


def environment(place, **more):
    """The environment of a lockctl whose server is `place`; None: without a URL."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("LOCK_", "LOCKCTL_"))}
    url = {"LOCKCTL_URL": url_of(place)} if place is not None else {}
    return {**clean, "LC_ALL": "C.UTF-8", **url, **more}


@contextmanager
def stopped(server):
    """The server is stopped in the block, and its connections stay open."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


# Processes, from /proc


def stat_of(pid):
    """(state, parent, process group, session), or None if there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    state, parent, group, session, *_ = text.rpartition(")")[2].split()
    return state, int(parent), int(group), int(session)


def all_processes():
    """{pid: stat_of(pid)} of all processes."""
    found = {int(name): stat_of(name) for name in os.listdir("/proc") if name.isdigit()}
    return {pid: stat for pid, stat in found.items() if stat}


def lives(pid):
    stat = stat_of(pid)
    return stat is not None and stat[0] not in "ZX"


def is_stopped(pid):
    stat = stat_of(pid)
    return stat is not None and stat[0] in "Tt"


def children_of(pid):
    return {child: stat for child, stat in all_processes().items() if stat[1] == pid}


class Run:
    """One lockctl, in its own session, with its output in files."""

    live = []
    """All runs that the test has started: their output is shown when the test fails."""

    def __init__(self, folder, words, valgrind=False, leaves=False, before=None, **options):
        self._folder, self._leaves = folder, leaves
        self._log = folder / "valgrind.log" if valgrind else None
        folder.mkdir()
        self.words = [word if isinstance(word, bytes) else os.fsencode(str(word)) for word in words]
        started = [os.fsencode(word) for word in valgrind_words(self._log)] if valgrind else []

        def prepare():
            die_with_parent()
            if before:
                before()

        defaults = {"stdin": subprocess.DEVNULL, "start_new_session": True}
        with open(folder / "stdout", "wb") as out, open(folder / "stderr", "wb") as err:
            self._process = subprocess.Popen(
                [*started, os.fsencode(PROGRAM), *self.words],
                preexec_fn=prepare,
                **{"stdout": out, "stderr": err, **defaults, **options},
            )
        self.pid = self._process.pid
        Run.live.append(self)

    def __repr__(self):
        return f"lockctl {b' '.join(self.words)[:200]!r}"

    @property
    def stdin(self):
        return self._process.stdin

    @property
    def stdout(self):
        return (self._folder / "stdout").read_text(errors="replace")

    @property
    def stderr(self):
        return (self._folder / "stderr").read_text(errors="replace")

    # Its end

    def has_ended(self):
        return self._process.poll() is not None

    def wait(self, timeout=30.0):
        """The exit status; negative for the signal that has ended the process."""
        try:
            return self._process.wait(scaled(timeout))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self} did not end within {scaled(timeout):g} s: {self.stderr}") from None

    def tell(self, number):
        """Sends a signal to this process only."""
        assert not self.has_ended(), f"{self} has ended: {self.stderr}"
        os.kill(self.pid, number)

    def stop(self):
        """Sends SIGSTOP, and returns when the process has stopped."""
        self.tell(signal.SIGSTOP)
        wait_for(lambda: is_stopped(self.pid), what=f"{self} to stop")

    def go_on(self):
        self.tell(signal.SIGCONT)

    def left(self):
        """The other processes of its session or process group that are still alive."""
        ours = {pid for pid, stat in all_processes().items() if self.pid in stat[2:] and stat[0] not in "ZX"}
        return sorted(ours - {self.pid})

    def end(self):
        """Ends it if the test has not; returns the problems that were found."""
        has_ended, found = self.has_ended(), []
        if not has_ended:
            self._process.kill()
        self._process.wait()
        if self.stdin:
            self.stdin.close()
        left = self.left()
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if left and has_ended and not self._leaves:
            found.append(f"{self} has left processes behind: {left}")
        text = self._log.read_text(errors="replace") if self._log and self._log.exists() else ""
        if text:
            found.append(f"Valgrind reports for {self}:\n{text[:3000]}")
        Run.live.remove(self)
        return found


class Runs:
    """All runs that one test starts."""

    def __init__(self, folder, valgrind):
        self._folder, self._valgrind, self._made = folder, valgrind, []

    def start(self, place, *words, env=None, **options):
        """Starts `lockctl run` with these words. `place`: the server, or its URL, or None for no LOCKCTL_URL.

        `leaves`: it may leave processes behind. `before`: called in the process that becomes lockctl.
        """
        options = {"env": environment(place, **(env or {})), "valgrind": self._valgrind, **options}
        self._made.append(Run(self._folder / str(len(self._made)), ["run", *words], **options))
        return self._made[-1]

    def end(self):
        return [problem for run in self._made for problem in run.end()]


# The server's state of a lock


def info(server, key, **options):
    """LOCK.INFO as a dict, or None; names are bytes."""
    client = server.client(protocol=3, decode_responses=False, **options)
    answer = client.execute_command("LOCK.INFO", key)
    client.close()
    return answer and {name.decode(): value for name, value in answer.items()}


def holders(server, key, **options):
    """[{owner, mode, holds, pttl, session}]"""
    known = info(server, key, **options)
    return [{name.decode(): value for name, value in one.items()} for one in known["holders"]] if known else []


def waiting(server, key):
    known = info(server, key)
    return known["waiting"] if known else 0


def is_free(server, key):
    """Whether it has neither holders nor waiters."""
    return info(server, key) is None


def wait_waiting(server, key, count=1, timeout=20.0):
    wait_for(lambda: waiting(server, key) == count, timeout, f"{count} to wait for {key!r}")


def wait_free(server, key, timeout=10.0):
    wait_for(lambda: is_free(server, key), timeout, f"{key!r} to be free")


def wait_watched(server, key, timeout=20.0):
    """Waits until the server would notify lockctl of a loss."""
    wait_for(lambda: (info(server, key) or {}).get("watchers") == 1, timeout, f"{key!r} to be watched")
