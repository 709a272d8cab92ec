"""One thread that renews the holds of many locks, and notices when their leases are over."""

import heapq
import itertools
import threading
import time


class Keeper:
    def __init__(self, name="lock-so-keeper"):
        self._due, self._holds, self._numbers = [], {}, itertools.count()
        self._changed, self._thread, self._name, self._is_closed = threading.Condition(), None, name, False

    def add(self, hold, due):
        """hold.tend() is called at `due`, and again at what it returns, until that is None. Returns a number for forget()."""
        with self._changed:
            number = next(self._numbers)
            self._holds[number] = hold
            self._add(due, number)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            return number

    def forget(self, number):
        with self._changed:
            self._holds.pop(number, None)
            if len(self._due) > 64 + 2 * len(self._holds):
                self._due = [entry for entry in self._due if entry[1] in self._holds]
                heapq.heapify(self._due)

    def close(self):
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _add(self, due, number):
        heapq.heappush(self._due, (due, number))
        if self._due[0][1] == number:
            self._changed.notify()

    def _next(self):
        """The next hold that is due, or None when it is over."""
        with self._changed:
            while not self._is_closed:
                left = self._due[0][0] - time.monotonic() if self._due else None
                if left is None or left > 0:
                    self._changed.wait(left)
                    continue
                number = heapq.heappop(self._due)[1]
                if number in self._holds:
                    return number, self._holds[number]
            return None

    def _run(self):
        while True:
            found = self._next()
            if found is None:
                return
            number, hold = found
            due = hold.tend()
            with self._changed:
                if number in self._holds and due is not None:
                    self._add(due, number)
