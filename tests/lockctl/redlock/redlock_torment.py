"""Workers acquire one lock again and again, while two hands make servers fail, each hand one at a time.

The random choices come from a seed. The timing, and so the result, depends on the machine.
"""

import random
import threading
import time

from harness import scaled
from redlock_ring import FAILURES, patient, wait_gone

# "restarted" is a majority, all at once: a holder that works for long enough certainly loses the lock.
ALL_KINDS = ["killed"] * 6 + ["stopped"] * 4 + ["cut off", "cut late"] * 2 + ["restarted"]
MAJORITY = 3
# The failure that these use; they also recover like it, except "cut late".
LIKE = {"cut late": "cut off", "restarted": "killed"}
STATUSES = {0, 69, 75, 76}


class Torment:
    """`lease_s` and other times are those for a machine that is not slow; they are scaled."""

    def __init__(self, ring, lock_run, seed, lease_s, restarts_only=False, workers=4, hands=2):
        self.ring, self.lease_s, self._restarts_only = ring, lease_s, restarts_only
        self.holds, self.statuses, self.failures, self.errors = [], [], [], []
        self._lock_run, self._ends, self._mutex = lock_run, threading.Event(), threading.Lock()
        self._ill = set()
        draws = [random.Random(seed * 100 + number) for number in range(workers + hands)]
        self._threads = [threading.Thread(target=self._guard, args=[draw]) for draw in draws[:workers]]
        # They run in the test's own thread: servers end with the thread that has started them.
        self._hands = {self._hand(draw): 0.0 for draw in draws[workers:]}

    def run(self, seconds, enough=lambda: True):
        """Runs for `seconds`, then until `enough()`, but at most eight times as long."""
        begin = time.monotonic()
        for thread in self._threads:
            thread.start()
        while not self.errors and time.monotonic() < begin + seconds * (1 if enough() else 8):
            for hand, due in self._hands.items():
                if time.monotonic() >= due:
                    self._hands[hand] = time.monotonic() + next(hand)
            self._ends.wait(0.01)
        for hand in self._hands:
            hand.close()
        self._ends.set()
        for thread in self._threads:
            thread.join()
        if self.errors:
            raise self.errors[0]

    def _guard(self, draw):
        try:
            self._work(draw)
        except BaseException as error:
            self.errors.append(error)

    # The workers

    def _work(self, draw):
        while not self._ends.is_set():
            # Some work for longer than a lease, whatever the scaled lease is.
            work_ms = draw.choice([1, 1, 30, 30, 200, int(1000 * scaled(self.lease_s) * draw.uniform(0.5, 2.5))])
            deaf = draw.random() < 0.3
            run = self._lock_run(
                self.ring,
                *("--lease", patient(self.lease_s), "--wait", patient(3), "--timeout", patient(2), "--grace", "0.05"),
                until=work_ms,
                deaf=deaf,
            )
            if draw.random() < 0.1:
                self._kill_holder(run)
            status = run.status(60)
            assert status in STATUSES or status == -9, run.end()
            hold = run.hold()
            with self._mutex:
                self.statuses.append(status)
                self.holds += [hold] if hold else []

    def _kill_holder(self, run):
        """Kills only lockctl; its command dies with it, and the lock is free when the lease expires."""
        while not run.is_over() and not run.has_begun():
            self._ends.wait(0.002)
        if not run.is_over():
            run.process.kill()
            wait_gone(run.worker().pid)

    # The hands, which make servers fail

    def _hand(self, draw):
        """Yields the seconds until its next step; when it is closed, it ends its current failure."""
        while True:
            how = "killed" if self._restarts_only else draw.choice(ALL_KINDS)
            well = [number for number in range(len(self.ring.servers)) if number not in self._ill]
            numbers = draw.sample(well, min(len(well), MAJORITY) if how == "restarted" else 1)
            self._ill.update(numbers)
            self._fail(numbers, how)
            try:
                # Some servers recover at once, others after more than a lease.
                at_once = self._restarts_only or how == "restarted"
                yield 0 if at_once else scaled(self.lease_s) * draw.choice([0, draw.uniform(0.2, 1.5)])
            finally:
                self._mend(numbers, how)
                self._ill.difference_update(numbers)
                self.failures.append(how)
            yield 0 if self._restarts_only else scaled(self.lease_s) * draw.uniform(0, 1.5)

    def _fail(self, numbers, how):
        FAILURES[LIKE.get(how, how)][0](self.ring, *numbers)

    def _mend(self, numbers, how):
        if how == "cut late":
            self.ring.heal(*numbers, late=True)
        else:
            FAILURES[LIKE.get(how, how)][1](self.ring, *numbers)

    def summary(self):
        counts = {status: self.statuses.count(status) for status in sorted(set(self.statuses))}
        fails = {how: self.failures.count(how) for how in dict.fromkeys(ALL_KINDS)}
        return f"{len(self.holds)} holds, statuses {counts}, failures {fails}"
