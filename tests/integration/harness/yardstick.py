"""What this machine adds to every answer just now, measured on the server itself between a test's own measurements.

A machine that is shared may let a process wait for tens of milliseconds. A test that measures asks for the same thing
of a command that is not ours, in the same moments, and allows itself what that one took.
"""

import statistics
import time

from .actor import Actor


class Yardstick:
    """BLPOP of a key that never comes: how much later than its time-out the answer is here."""

    TIMEOUT_MS = 20

    def __init__(self, server):
        self._actor = Actor(server, "yardstick")
        self._late_ms = []

    def measure(self):
        """Once for each of the test's measurements, beside it."""
        began = time.monotonic()
        assert self._actor.call("BLPOP", "nothing ever", self.TIMEOUT_MS / 1000) is None
        self._late_ms.append(1000 * (time.monotonic() - began) - self.TIMEOUT_MS)

    def allows(self, took_ms, limit_ms):
        """Whether these measurements are below `limit_ms` but for what the machine added.

        The lower quartile: noise only adds, and what is late by a tick of the server's clock, or a fixed pause, is late
        in at least three quarters of all cases.
        """
        lowest, _, _ = statistics.quantiles(took_ms, n=4)
        return lowest <= limit_ms + 2 * max(0, statistics.median(self._late_ms))
