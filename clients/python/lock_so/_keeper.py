"""A thread that tends many holds, each at its time: one keeper renews them, and one notices when their leases expire."""

import heapq
import threading
import time
from typing import Any, Callable, List, Optional, Set, Tuple


class Keeper:
    """It refers to no hold and to no Locks, but only to what it calls."""

    def __init__(self) -> None:
        self._due: List[Tuple[float, int, Any]] = []
        self._calls: Set[Any] = set()
        self._changed, self._is_running, self._is_closed = threading.Condition(), False, False

    def add(self, call: Callable[[], Optional[float]], due: float) -> None:
        """Calls it at `due`, and again at the time that it returns, until that is None or forget() is called."""
        with self._changed:
            self._calls.add(call)
            self._add(due, call)
            if not self._is_running and not self._is_closed:
                self._is_running = True
                threading.Thread(target=self._run, name="lock-so-keeper", daemon=True).start()

    def forget(self, call: Callable[[], Optional[float]]) -> None:
        with self._changed:
            self._calls.discard(call)
            if len(self._due) > 64 + 2 * len(self._calls):
                self._due = [entry for entry in self._due if entry[2] in self._calls]
                heapq.heapify(self._due)

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _add(self, due: float, call: Any) -> None:
        heapq.heappush(self._due, (due, id(call), call))
        if self._due[0][2] is call:
            self._changed.notify()

    def _next(self) -> Any:
        """Waits for the next call that is due. Returns None after close()."""
        with self._changed:
            while not self._is_closed:
                left = self._due[0][0] - time.monotonic() if self._due else None
                if left is None or left > 0:
                    self._changed.wait(left)
                    continue
                call = heapq.heappop(self._due)[2]
                if call in self._calls:
                    return call
            return None

    def _run(self) -> None:
        while (call := self._next()) is not None:
            due = call()
            with self._changed:
                if due is None:
                    self._calls.discard(call)
                elif call in self._calls:
                    self._add(due, call)
            call = None
