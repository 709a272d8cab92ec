"""Whether the machine or a server stalled while a test ran: then its failure shows nothing, and the test is run again.

On a shared machine all processes may stall for half a second and more; and where many run, a server may wait as long
for a processor while others run. No lease and no time limit is long enough for every such stall, and a test whose lease
expired during one has found no fault. So a failed test is run again if the machine or one of its servers stalled during
it for longer than half of its shortest time limit (limits.py), and the summary lists it as RERUN. `.ci/run` counts
these, and allows three.

A stall never excuses the failure of a test that has no short limit, or a server that crashed or ended by itself, broke
an invariant, or had errors under Valgrind.
"""

import os
import threading
import time
from collections import deque

from . import limits, process

# A test that does not tolerate a stall of this length has a fault itself.
STALL_S = 0.05
CHECK_EVERY_S = 0.02
TRIES = 3


class Watch:
    """Threads that sleep and measure how late they wake, one on each processor: any processor may be the one that
    stalls. And one that measures how long each server waits for a processor."""

    def __init__(self):
        self._seen = deque(maxlen=10_000)  # stalls: when each ended, and how long it was
        for cpu in os.sched_getaffinity(0):
            threading.Thread(target=self._check, args=(cpu,), name=f"stall-{cpu}", daemon=True).start()
        threading.Thread(target=self._check_servers, name="stall-servers", daemon=True).start()

    def _check(self, cpu):
        os.sched_setaffinity(0, {cpu})  # 0: this thread
        before = time.monotonic()
        while True:
            time.sleep(CHECK_EVERY_S)
            now = time.monotonic()
            late = now - before - CHECK_EVERY_S
            if late > STALL_S:
                self._seen.append((now, late))
            before = now

    def _check_servers(self):
        before = {}
        while True:
            waited = {pid: process.waited(pid) for pid in process.running()}
            now = time.monotonic()
            for pid in waited.keys() & before.keys():
                late = waited[pid] - before[pid]
                if late > STALL_S:
                    self._seen.append((now, late))
            before = waited
            time.sleep(CHECK_EVERY_S)

    def longest_since(self, moment):
        """The longest stall since `moment`, in s; 0 if there was none."""
        seen = list(self._seen)  # in one step: the threads continue
        return max((min(late, ended - moment) for ended, late in seen if ended > moment), default=0.0)


class Excuse:
    """Called by pytest-rerunfailures after a failure: did the machine cause it?"""

    def __init__(self, watch=None):
        self._watch = watch or Watch()
        self.begin()

    def begin(self):
        """Call this when a test begins or is run again."""
        self._began, self._faults = time.monotonic(), process.faults()

    def applies(self):
        """Whether the machine has stalled since begin() for so long that a failure would show nothing."""
        return self._watch.longest_since(self._began) > max(STALL_S, limits.shortest() / 2)

    def __call__(self, error):
        if not isinstance(error, Exception):
            return False  # the whole run is being ended
        return process.faults() == self._faults and self.applies()
