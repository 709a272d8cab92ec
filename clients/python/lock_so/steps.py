"""What is to be said when, without saying it: generators that yield a Say or a Pause, and are given what came of it.

The two flavours only differ in who says it and who waits: a thread or a task.
"""

import time
from dataclasses import dataclass

from .errors import NotAcquired, NotHeld, is_passing, typed

MAX_BLOCK = 30.0  # s: how long one command blocks at most
MARGIN = 2.0  # s: how much later than due an answer may be
GIVE_UP_WITHIN = 2.0  # s: how long who gives up waits until nothing is left; then it goes on in the background


@dataclass
class Say:
    """A command on a connection that nobody else uses. Its answer is given back; an error is raised in the generator."""

    words: list
    limit: float
    """How long its answer may take, in s; then the connection is closed."""


@dataclass
class Pause:
    seconds: float


def pauses():
    """Growing: what is wrong for a moment only is not asked too often."""
    pause = 0.02
    while True:
        yield Pause(pause)
        pause = min(pause * 1.6, 0.5)


class Attempt:
    """One acquisition on its way. `wait`: s, None for ever, 0 for a try."""

    def __init__(self, spec, owner, wait, max_block=MAX_BLOCK):
        self.spec, self.owner, self.max_block = spec, owner, max_block
        self.until = None if wait is None else time.monotonic() + wait
        self.sent = None  # when the command was sent that was answered
        self.was_cut = False  # a request may be on its way that nobody hears the answer of
        self.given_up = False
        self._wait = wait

    def _left(self):
        return None if self.until is None else max(0.0, self.until - time.monotonic())

    def _next_block(self):
        """(what BLOCK says in ms, or None; how long the answer may take in s)."""
        left = self._left()
        slack = MARGIN + (self.spec.replicas[1] / 1000 if self.spec.replicas else 0)
        if self._wait == 0:
            return None, slack
        if self.spec.kind == "fair" and (left is None or left > self.max_block):
            # The waiter keeps its place when the connection closes, but not when a BLOCK times out.
            return (0 if left is None else max(1, round(left * 1000))), self.max_block
        block = self.max_block if left is None else min(left, self.max_block)
        return max(1, round(block * 1000)), block + slack

    def _is_over(self):
        return self.given_up or (self.until is not None and time.monotonic() >= self.until)

    def run(self):
        """Returns the answer, which is not null. `given_up` may be set meanwhile: then it ends with NotAcquired."""
        pause = pauses()
        while True:
            block_ms, limit = self._next_block()
            self.sent = time.monotonic()
            try:
                answer = yield Say(self.spec.acquire(self.owner, block_ms), limit)
            except Exception as error:
                if not is_passing(error):
                    raise typed(error) from error
                self.was_cut = True
                if self._is_over():
                    raise error
                if limit == self.max_block and time.monotonic() - self.sent >= limit:
                    continue  # the end of one blocking call of a fair wait
                yield next(pause)
                continue
            if answer is not None:
                return answer
            pause = pauses()
            if self._is_over():
                raise NotAcquired(f"{', '.join(map(str, self.spec.keys))}: not in time")


def give_up(attempt, is_over):
    """Until nothing is left of an attempt. `is_over()`: its last request has been answered, or its connection is gone."""
    spec, owner = attempt.spec, attempt.owner
    until = time.monotonic() + spec.lease_ms / 1000
    pause, is_last = pauses(), False
    while time.monotonic() < until:
        was_over = is_over()
        try:
            answer = yield Say(spec.cancel(owner), MARGIN)
            if answer == 0 and spec.kind == "multi":
                answer = yield from _taken_back(spec, owner)
        except Exception as error:
            if not is_passing(error):
                raise typed(error) from error
            yield next(pause)
            continue
        if is_last or (not attempt.was_cut and (answer or was_over)):
            return
        # With 0 it was faster than the request. And what a dead connection has said last may be on its way still:
        # so once more.
        is_last = was_over
        yield Pause(0.1) if is_last else next(pause)


def _taken_back(spec, owner):
    """Of several keys: whether they were held, and are not any more."""
    try:
        yield Say(spec.release(owner), MARGIN)
    except Exception as error:
        if isinstance(typed(error), NotHeld):
            return 0
        raise
    return 2


class State:
    """One hold: what is known of it. Times are time.monotonic()'s."""

    def __init__(self, spec, owner, answer, sent):
        self.spec, self.owner = spec, owner
        self.token = answer if spec.fenced else None
        now = time.monotonic()
        self.until = now + spec.lease_ms / 1000
        # A grant that came after a wait may have been on its way for as long as that: it is renewed at once.
        self.renew_at = now if now - sent > self.third else sent + self.third
        self.is_released = self._is_lost = False

    @property
    def third(self):
        return self.spec.lease_ms / 3000

    @property
    def is_lost(self):
        """Whether it has been lost, as far as this client knows: it was told, or the lease is over by its clock."""
        return self._is_lost or (not self.is_released and time.monotonic() >= self.until)

    def lose(self):
        """Returns whether that is news."""
        news = not self._is_lost and not self.is_released
        self._is_lost = self._is_lost or not self.is_released
        return news

    def is_over(self):
        return self._is_lost or self.is_released

    def confirm(self, sent):
        """The server has said, to a command sent then, that it is held."""
        self.until = max(self.until, sent + self.spec.lease_ms / 1000)
        self.renew_at = sent + self.third

    def renewed(self):
        """A renewal of all keys. It fails with NotHeld when it is lost; any other error has changed nothing."""
        sent = time.monotonic()
        for key in self.spec.keys:
            limit = min(MARGIN, max(0.05, self.until - time.monotonic()))
            try:
                yield Say(self.spec.renew_key(key, self.owner), limit)
            except Exception as error:
                self.renew_at = time.monotonic() + min(0.5, self.third / 4)
                raise typed(error) from error
        self.confirm(sent)

    def watched(self, key, block):
        """Until it is lost, which is True, or over. A session's hold is bound to the connection that says this."""
        pause, is_bound = pauses(), True
        while not self.is_over() and time.monotonic() < self.until:
            sent = time.monotonic()
            try:
                if not is_bound:
                    for each in self.spec.keys:
                        yield Say(self.spec.renew_key(each, self.owner), MARGIN)
                    is_bound = True
                answer = yield Say(self.spec.watch(key, self.owner, max(1, round(block * 1000))), block + MARGIN)
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
        """A release, repeated over what passes for as long as the lease is."""
        was_lost, pause, repeated = self.is_lost, pauses(), False
        self.is_released = True
        while True:
            try:
                yield Say(self.spec.release(self.owner), MARGIN)
                break
            except Exception as error:
                found = typed(error)
                if isinstance(found, NotHeld) and self.spec.kind == "multi":
                    yield from self._released_one_by_one()
                if isinstance(found, NotHeld) and repeated and not was_lost:
                    break  # the first one got through
                if not is_passing(error) or time.monotonic() >= self.until:
                    raise found from error
                repeated = True
            yield next(pause)
        if was_lost:
            raise NotHeld(f"{self.spec.key}: the lease was over")

    def _released_one_by_one(self):
        """One of several keys was lost, and nothing is released then: what is left of them."""
        for key in self.spec.keys:
            try:
                yield Say(["LOCK.RELEASE", key, self.owner], MARGIN)
            except Exception as error:
                if not isinstance(typed(error), NotHeld):
                    raise
