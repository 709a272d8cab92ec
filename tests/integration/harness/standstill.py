"""Whether the machine stood still while a test ran: then its failure says nothing, and it is run again.

Machines that are shared let everything wait now and then, for half a second and more. No lease and no limit of time is
long enough for all of that, and a test whose lease ended in such a moment has found no fault. So a test that failed is
run again if the machine stalled in the middle of it for longer than half of its shortest limit of time (limits.py),
and the summary names it under RERUN. `.ci/run` counts these, and allows three.

What a standstill never excuses: a failure of a test that has no short limit; a server that crashed or ended by itself,
that broke an invariant, or with which Valgrind found fault.
"""

import os
import threading
import time
from collections import deque

from . import limits, process

# A test that cannot bear this much is at fault itself.
STANDSTILL_S = 0.05
LOOK_EVERY_S = 0.02
TRIES = 3


class Watch:
    """Threads that sleep and see how late they wake, one on each processor: any of them may be the one that stands."""

    def __init__(self):
        self._seen = deque(maxlen=10_000)  # standstills: when each ended, and how long it was
        for cpu in os.sched_getaffinity(0):
            threading.Thread(target=self._look, args=(cpu,), name=f"standstill-{cpu}", daemon=True).start()

    def _look(self, cpu):
        os.sched_setaffinity(0, {cpu})  # 0: this thread
        before = time.monotonic()
        while True:
            time.sleep(LOOK_EVERY_S)
            now = time.monotonic()
            late = now - before - LOOK_EVERY_S
            if late > STANDSTILL_S:
                self._seen.append((now, late))
            before = now

    def longest_since(self, moment):
        """How long the machine stalled at a time since `moment`, in s; 0 if it ran."""
        seen = list(self._seen)  # in one step: the threads go on
        return max((min(late, ended - moment) for ended, late in seen if ended > moment), default=0.0)


class Excuse:
    """Asked by pytest-rerunfailures after a failure: was it the machine's?"""

    def __init__(self, watch=None):
        self._watch = watch or Watch()
        self.begin()

    def begin(self):
        """A test begins, or is run again."""
        self._began, self._unwell = time.monotonic(), process.unwell()

    def is_there(self):
        """Whether the machine has stalled since then for so long that a failure would say nothing."""
        return self._watch.longest_since(self._began) > max(STANDSTILL_S, limits.shortest() / 2)

    def __call__(self, error):
        if not isinstance(error, Exception):
            return False  # the whole run is to end
        return process.unwell() == self._unwell and self.is_there()
