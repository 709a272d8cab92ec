"""One thread that renews the holds of many locks, and notices when their leases expire."""

import heapq
import threading
import time


class Keeper:
    def __init__(self):
        self._due, self._holds = [], set()
        self._changed, self._thread, self._is_closed = threading.Condition(), None, False

    def add(self, hold, due):
        """Calls hold.tend() at `due`, and again at the time that it returns, until that is None or forget() is called."""
        with self._changed:
            self._holds.add(hold)
            self._add(due, hold)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="lock-so-keeper", daemon=True)
                self._thread.start()

    def forget(self, hold):
        with self._changed:
            self._holds.discard(hold)
            if len(self._due) > 64 + 2 * len(self._holds):
                self._due = [entry for entry in self._due if entry[2] in self._holds]
                heapq.heapify(self._due)

    def close(self):
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _add(self, due, hold):
        heapq.heappush(self._due, (due, id(hold), hold))
        if self._due[0][2] is hold:
            self._changed.notify()

    def _next(self):
        """Waits for the next hold that is due. Returns None after close()."""
        with self._changed:
            while not self._is_closed:
                left = self._due[0][0] - time.monotonic() if self._due else None
                if left is None or left > 0:
                    self._changed.wait(left)
                    continue
                hold = heapq.heappop(self._due)[2]
                if hold in self._holds:
                    return hold
            return None

    def _run(self):
        while (hold := self._next()) is not None:
            due = hold.tend()
            with self._changed:
                if due is None:
                    self._holds.discard(hold)
                elif hold in self._holds:
                    self._add(due, hold)
