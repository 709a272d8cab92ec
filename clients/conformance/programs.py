"""Programs of one language that acquire RedLocks again and again, and record when they relied on them."""

import itertools
import threading
import time

from redlock_history import Hold
from redlock_torment import Torment
from runner import Gone, Runner

from harness import scaled, scaled_ms

NAMES = "abcde"


class Program:
    """A runner whose lock factories `a`, `b`, … are connected to the servers of a ring."""

    _numbers = itertools.count()

    def __init__(self, command, folder, ring):
        self._runner, self.is_killed = Runner(command, f"program-{next(self._numbers)}", folder), False
        self._mutex = threading.Lock()
        for name, port in zip(["main", *NAMES], [ring.ports()[0], *ring.ports()], strict=False):
            # Some libraries connect at once, and the server may be away.
            while "error" in self.ask("connect", **{"as": name}, to={"kind": "single", "port": port}):
                time.sleep(0.02)
        self.servers = list(NAMES[: len(ring.servers)])

    def ask(self, do, **fields):
        with self._mutex:
            number = self._runner.say(do, **fields)
        return self._runner.answer(number, 30)

    def lock(self, key="lock"):
        return Lock(self, key)

    def kill(self):
        self.is_killed = True
        self._runner.kill()

    def end(self):
        self._runner.end()


class Lock:
    """A RedLock as one program uses it."""

    def __init__(self, program, key):
        self.program, self._name = program, f"hold of {key}"
        self._lock = {"kind": "redlock", "on": program.servers, "keys": [key]}
        self._holds = False

    def _ask(self, do, **fields):
        return self.program.ask(do, **{"as": self._name}, **fields)

    def acquire(self, lease_ms, wait_ms):
        """Returns None, or the code of the error."""
        self._holds, self._asked = False, time.monotonic_ns()
        answer = self._ask("acquire", lock={**self._lock, "lease_ms": lease_ms}, wait_ms=wait_ms)
        self._since = self._until = time.monotonic_ns()
        self.owner, self._token = answer.get("owner"), answer.get("token")
        self._holds = "error" not in answer
        return answer.get("error")

    def relies(self):
        """Whether the program would rely on the lock now: it was not notified of a loss."""
        before = time.monotonic_ns()
        relies = not self._ask("lost")["lost"]
        if relies:
            self._until = before
        return relies

    def release(self):
        """Returns the Hold, for the history checker."""
        answer = self._ask("release")
        # "connection": no majority has replied in time, and the package goes on in the background.
        assert answer.get("error") in (None, "not_held", "connection"), answer
        return self.ended()[0]

    def ended(self):
        """The Hold of a program that has released it or was killed; nothing if there was none."""
        if not self._holds:
            return []
        self._holds = False
        return [Hold(self.owner, self._token, self._asked, self._since, self._until, time.monotonic_ns())]


class ProgramTorment(Torment):
    """The torment of lockctl's tests, with programs in place of lockctl. `start()` starts a program.

    Each of the programs acquires all `keys` at the same time, each key in a thread of its own. With more than one key most
    holds are short.
    """

    def __init__(self, ring, start, seed, lease_s, keys=1, programs=4):
        super().__init__(ring, None, seed, lease_s, workers=programs * keys)
        self._start, self._is_short = start, keys > 1
        self.histories = {f"lock{number}": [] for number in range(keys)}
        self._places = iter([(place, key) for place in range(programs) for key in self.histories])
        self._programs, self._starting = {}, [threading.Lock() for _ in range(programs)]
        self._leaving = threading.Barrier(programs * keys)

    def _program(self, place):
        """The program of this place, and a new one if that was killed."""
        with self._starting[place]:
            if place not in self._programs or self._programs[place].is_killed:
                if place in self._programs:
                    self._programs[place].end()
                self._programs[place] = self._start(self.ring)
            return self._programs[place]

    def _work(self, draw):
        with self._mutex:
            place, key = next(self._places)
        try:
            self._work_on(key, place, draw)
        finally:
            self._leaving.wait()  # programs end with the thread that has started them

    def _work_on(self, key, place, draw):
        while not self._ends.is_set():
            lock = self._program(place).lock(key)
            try:
                self._use(lock, key, draw)
            except Gone:
                if not lock.program.is_killed:
                    raise
                self._note("killed", key, *lock.ended())

    def _use(self, lock, key, draw):
        while not self._ends.is_set():
            code = lock.acquire(scaled_ms(1000 * self.lease_s), scaled_ms(3000))
            assert code in (None, "not_acquired", "connection"), code
            if code:
                self._note(code, key)
                continue
            longest = scaled(self.lease_s) * draw.uniform(0.5, 2.5)
            end = time.monotonic() + draw.choice([0.001] * 30 + [0.03, longest] if self._is_short else [0.001, 0.03, 0.2, longest])
            while (relies := lock.relies()) and time.monotonic() < end and not self._ends.is_set():
                time.sleep(0.002)
            if draw.random() < (0.001 if self._is_short else 0.1):
                lock.program.kill()
            self._note("held" if relies else "lost", key, lock.release())

    def _note(self, status, key, *holds):
        with self._mutex:
            self.statuses.append(status)
            self.histories[key] += holds
            self.holds += holds
