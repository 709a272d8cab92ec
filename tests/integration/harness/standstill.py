"""Whether the machine stood still while a test ran: then its failure says nothing, and it is run again.

Machines that are shared let everything wait now and then, for half a second and more. No lease and no limit of time is
long enough for all of that, and a test whose lease ended in such a moment has found no fault. So a failure counts if
the machine ran, and does not if it stood still: the test is run again, and the summary names it under RERUN.

What a standstill never excuses: a server that crashed or ended by itself, that broke an invariant, or with which
Valgrind found fault.
"""

import os
import threading
import time

from . import process

# A test that cannot bear this much is at fault itself.
STANDSTILL_S = 0.05
LOOK_EVERY_S = 0.02
TRIES = 3
# So long a server may hold it against itself that it stood still (module/core/standstill.h), though a later test asks.
AFTERMATH_S = 4.0


class Watch:
    """Threads that sleep and see how late they wake, one on each processor: any of them may be the one that stands."""

    def __init__(self):
        self._latest = 0.0  # when the last standstill ended
        for cpu in os.sched_getaffinity(0):
            threading.Thread(target=self._look, args=(cpu,), name=f"standstill-{cpu}", daemon=True).start()

    def _look(self, cpu):
        os.sched_setaffinity(0, {cpu})  # 0: this thread
        before = time.monotonic()
        while True:
            time.sleep(LOOK_EVERY_S)
            now = time.monotonic()
            if now - before - LOOK_EVERY_S > STANDSTILL_S:
                self._latest = now
            before = now

    def stood_still_since(self, moment):
        return self._latest > moment


class Excuse:
    """Asked by pytest-rerunfailures after a failure: was it the machine's?"""

    def __init__(self):
        self._watch = Watch()
        self.begin()

    def begin(self):
        """A test begins, or is run again."""
        self._began, self._unwell = time.monotonic(), process.unwell()

    def __call__(self, error):
        if not isinstance(error, Exception):
            return False  # the whole run is to end
        return self._watch.stood_still_since(self._began - AFTERMATH_S) and process.unwell() == self._unwell
