"""How long this machine delays every reply at the moment, measured on the server between a test's own measurements.

A shared machine may let a process wait for tens of milliseconds. A test that measures a command of the module also
measures one of the server's own commands at the same moments, and adds its delay to the limit.
"""

import statistics
import time

from .actor import Actor


class Yardstick:
    """BLPOP of a key that never exists: how much later than its timeout the reply arrives."""

    TIMEOUT_MS = 20

    def __init__(self, server):
        self._actor = Actor(server, "yardstick")
        self._late_ms = []

    def measure(self):
        """Call this once for each of the test's measurements, next to it."""
        began = time.monotonic()
        assert self._actor.call("BLPOP", "nothing ever", self.TIMEOUT_MS / 1000) is None
        self._late_ms.append(1000 * (time.monotonic() - began) - self.TIMEOUT_MS)

    def allows(self, took_ms, limit_ms):
        """Whether these measurements are below `limit_ms`, apart from the delay of the machine.

        It compares the lower quartile: noise only adds time, and a reply that is late by a tick of the server's clock,
        or by a fixed pause, is late in at least three quarters of all cases.
        """
        lowest, _, _ = statistics.quantiles(took_ms, n=4)
        return lowest <= limit_ms + 2 * max(0, statistics.median(self._late_ms))
