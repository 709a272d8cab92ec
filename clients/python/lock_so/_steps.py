"""Which commands are sent when, independent of input and output: generators that yield a Send or a Pause, and receive
the reply or the error.

The two flavours differ only in what executes them: a thread or a task.
"""

import time
from dataclasses import dataclass

from .errors import NotAcquired, NotHeld, is_passing, typed

MAX_BLOCK = 30.0  # s: how long one command blocks at most
MARGIN = 2.0  # s: how late a reply may be
GIVE_UP_WITHIN = 2.0  # s: how long a caller waits for the cancellation, which then continues in the background


@dataclass
class Send:
    """A command on a connection of its own. The generator receives the reply; an error is raised in it."""

    words: list
    limit: float
    """How long the reply may take, in s; then the connection is closed."""


@dataclass
class Pause:
    seconds: float


def pauses():
    """Pauses that grow, so that a request is not repeated too often."""
    pause = 0.02
    while True:
        yield Pause(pause)
        pause = min(pause * 1.6, 0.5)


class Attempt:
    """One acquisition. `wait`: seconds; None has no limit, 0 only tries."""

    def __init__(self, spec, owner, wait, max_block=MAX_BLOCK):
        self.spec, self.owner, self.max_block = spec, owner, max_block
        self.until = None if wait is None else time.monotonic() + wait
        self.sent = None  # when the command that got the reply was sent
        self.was_cut = False  # the connection of a request was lost, and its reply will not be read
        self.given_up = False
        self._wait = wait

    def _left(self):
        return None if self.until is None else max(0.0, self.until - time.monotonic())

    def _next_block(self):
        """(BLOCK in ms, or None; how long the reply may take, in s)."""
        left = self._left()
        slack = MARGIN + (self.spec.replicas[1] / 1000 if self.spec.replicas else 0)
        if self._wait == 0:
            return None, slack
        if self.spec.kind == "fair" and (left is None or left > self.max_block):
            # The waiter keeps its place when the connection closes, but not when a BLOCK times out.
            return (0 if left is None else max(1, round(left * 1000))), self.max_block
        block = self.max_block if left is None else min(left, self.max_block)
        return max(1, round(block * 1000)), block + slack

    def _has_ended(self):
        return self.given_up or (self.until is not None and time.monotonic() >= self.until)

    def run(self):
        """Returns the reply, which is not null. If `given_up` is set meanwhile, it raises NotAcquired."""
        pause = pauses()
        while True:
            block_ms, limit = self._next_block()
            self.sent = time.monotonic()
            try:
                answer = yield Send(self.spec.acquire(self.owner, block_ms), limit)
            except Exception as error:
                if not is_passing(error):
                    raise typed(error) from error
                self.was_cut = True
                if self._has_ended():
                    raise error
                if limit == self.max_block and time.monotonic() - self.sent >= limit:
                    continue  # the end of one blocking call of a fair wait
                yield next(pause)
                continue
            if answer is not None:
                return answer
            pause = pauses()
            if self._has_ended():
                raise NotAcquired(f"{', '.join(map(str, self.spec.keys))}: not acquired in time")


def give_up(attempt, has_ended):
    """Cancels an attempt until nothing of it is left. `has_ended()`: its last request has the reply, or lost its connection."""
    spec, owner = attempt.spec, attempt.owner
    until = time.monotonic() + spec.lease_ms / 1000
    pause, is_last = pauses(), False
    while time.monotonic() < until:
        had_ended = has_ended()
        try:
            answer = yield Send(spec.cancel(owner), MARGIN)
            if answer == 0 and spec.kind == "multi":
                answer = yield from _taken_back(spec, owner)
        except Exception as error:
            if not is_passing(error):
                raise typed(error) from error
            yield next(pause)
            continue
        if is_last or (not attempt.was_cut and (answer or had_ended)):
            return
        # After 0 the request may not have arrived yet. And a request on a dead connection may still arrive: cancel once
        # more.
        is_last = had_ended
        yield Pause(0.1) if is_last else next(pause)


def _taken_back(spec, owner):
    """For a multi-key lock: releases the keys. Returns 0 if they were not held."""
    try:
        yield Send(spec.release(owner), MARGIN)
    except Exception as error:
        if isinstance(typed(error), NotHeld):
            return 0
        raise
    return 2


class State:
    """The state of one hold. Times are those of time.monotonic()."""

    def __init__(self, spec, owner, answer, sent):
        self.spec, self.owner = spec, owner
        self.token = answer if spec.fenced else None
        now = time.monotonic()
        self.until = now + spec.lease_ms / 1000
        # After a wait, the time of the grant is not known, so the lease is renewed at once.
        self.renew_at = now if now - sent > self.third else sent + self.third
        self.is_released = self._is_lost = False

    @property
    def third(self):
        return self.spec.lease_ms / 3000

    @property
    def is_lost(self):
        """Whether it is known to be lost: the server reported it, or the lease has expired by the local clock."""
        return self._is_lost or (not self.is_released and time.monotonic() >= self.until)

    def lose(self):
        """Records the loss. Returns whether it was not known before."""
        news = not self._is_lost and not self.is_released
        self._is_lost = self._is_lost or not self.is_released
        return news

    def has_ended(self):
        return self._is_lost or self.is_released

    def confirm(self, sent):
        """The server confirmed the hold with the reply to a command that was sent at `sent`."""
        self.until = max(self.until, sent + self.spec.lease_ms / 1000)
        self.renew_at = sent + self.third

    def renewed(self):
        """Renews all keys. Raises NotHeld if the hold is lost; after any other error the last confirmed lease applies."""
        sent = time.monotonic()
        for key in self.spec.keys:
            limit = min(MARGIN, max(0.05, self.until - time.monotonic()))
            try:
                yield Send(self.spec.renew_key(key, self.owner), limit)
            except Exception as error:
                self.renew_at = time.monotonic() + min(0.5, self.third / 4)
                raise typed(error) from error
        self.confirm(sent)

    def watched(self, key, block):
        """Waits until it is lost (True) or has ended (False). A session's hold is bound to the connection of these commands."""
        pause, is_bound = pauses(), True
        while not self.has_ended() and time.monotonic() < self.until:
            sent = time.monotonic()
            try:
                if not is_bound:
                    for each in self.spec.keys:
                        yield Send(self.spec.renew_key(each, self.owner), MARGIN)
                    is_bound = True
                answer = yield Send(self.spec.watch(key, self.owner, max(1, round(block * 1000))), block + MARGIN)
            except Exception as error:
                if not is_passing(error):
                    return isinstance(typed(error), NotHeld)
                is_bound = not self.spec.session
                yield next(pause)
                continue
            pause = pauses()
            if answer in ("LOST", b"LOST"):
                return True
            if self.spec.session:
                self.confirm(sent)
        return False

    def released(self):
        """Releases it. After transient errors this is repeated until the lease expires."""
        was_lost, pause, repeated = self.is_lost, pauses(), False
        self.is_released = True
        while True:
            try:
                yield Send(self.spec.release(self.owner), MARGIN)
                break
            except Exception as error:
                found = typed(error)
                if isinstance(found, NotHeld) and self.spec.kind == "multi":
                    yield from self._released_one_by_one()
                if isinstance(found, NotHeld) and repeated and not was_lost:
                    break  # the first one was executed
                if not is_passing(error) or time.monotonic() >= self.until:
                    raise found from error
                repeated = True
            yield next(pause)
        if was_lost:
            raise NotHeld(f"{self.spec.key}: the lease had expired")

    def _released_one_by_one(self):
        """One key of a multi-key lock was lost, so LOCK.MRELEASE released none: releases the others."""
        for key in self.spec.keys:
            try:
                yield Send(["LOCK.RELEASE", key, self.owner], MARGIN)
            except Exception as error:
                if not isinstance(typed(error), NotHeld):
                    raise
