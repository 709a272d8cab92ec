"""Programs of one language that acquire one RedLock again and again, and record when they relied on it."""

import itertools
import time

from redlock_history import Hold
from redlock_torment import Torment
from runner import Runner

from harness import scaled, scaled_ms

KEY = "lock"
NAMES = "abcde"


class Program:
    """A runner whose lock factories `a`, `b`, … are connected to the servers of a ring."""

    _numbers = itertools.count()

    def __init__(self, command, folder, ring):
        self._runner = Runner(command, f"program-{next(self._numbers)}", folder)
        for name, port in zip(["main", *NAMES], [ring.ports()[0], *ring.ports()], strict=False):
            # Some libraries connect at once, and the server may be away.
            while "error" in self._ask("connect", **{"as": name}, to={"kind": "single", "port": port}):
                time.sleep(0.02)
        self._lock = {"kind": "redlock", "on": list(NAMES[: len(ring.servers)]), "keys": [KEY]}

    def _ask(self, do, **fields):
        return self._runner.answer(self._runner.say(do, **fields), 30)

    def acquire(self, lease_ms, wait_ms):
        """Returns None, or the code of the error."""
        self._asked = time.monotonic_ns()
        answer = self._ask("acquire", **{"as": "it"}, lock={**self._lock, "lease_ms": lease_ms}, wait_ms=wait_ms)
        self._since = self._until = time.monotonic_ns()
        self.owner, self._token = answer.get("owner"), answer.get("token")
        return answer.get("error")

    def relies(self):
        """Whether the program would rely on the lock now: it was not notified of a loss."""
        before = time.monotonic_ns()
        relies = not self._ask("lost", **{"as": "it"})["lost"]
        if relies:
            self._until = before
        return relies

    def release(self):
        """Returns the Hold, for the history checker."""
        answer = self._ask("release", **{"as": "it"})
        assert answer.get("error") in (None, "not_held"), answer
        return self._hold()

    def kill(self):
        self._runner.kill()
        return self._hold()

    def _hold(self):
        return Hold(self.owner, self._token, self._asked, self._since, self._until, time.monotonic_ns())

    def end(self):
        self._runner.end()


class ProgramTorment(Torment):
    """The torment of lockctl's tests, with programs in place of lockctl. `start()` starts a program."""

    def __init__(self, ring, start, seed, lease_s, **options):
        super().__init__(ring, None, seed, lease_s, **options)
        self._start = start

    def _work(self, draw):
        program = self._start(self.ring)
        try:
            while not self._ends.is_set():
                code = program.acquire(scaled_ms(1000 * self.lease_s), scaled_ms(3000))
                assert code in (None, "not_acquired", "connection"), code
                if code:
                    self._note(code)
                    continue
                end = time.monotonic() + draw.choice([0.001, 0.03, 0.2, scaled(self.lease_s) * draw.uniform(0.5, 2.5)])
                while (relies := program.relies()) and time.monotonic() < end and not self._ends.is_set():
                    time.sleep(0.002)
                if draw.random() < 0.1:
                    self._note("killed", program.kill())
                    program.end()
                    program = self._start(self.ring)
                else:
                    self._note("held" if relies else "lost", program.release())
        finally:
            program.end()

    def _note(self, status, *holds):
        with self._mutex:
            self.statuses.append(status)
            self.holds += holds
