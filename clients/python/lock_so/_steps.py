"""Which commands are sent when, independent of input and output: generators that yield a Connect, a Send or a Pause, and
receive the reply or the error.

The two flavours differ only in what executes them: a thread or a task.
"""

import logging
import time
from dataclasses import dataclass
from typing import Any, Callable, Generator, Iterator, List, Optional, Tuple, Union

import redis.exceptions as library

from ._spec import Key, Spec, Words, holders_of, new_owner
from .errors import NotAcquired, NotHeld, is_connection, is_not_held, is_passing, typed

log = logging.getLogger("lock_so")

MAX_BLOCK = 30.0  # s: how long one command blocks at most
CONNECT_TIMEOUT = 5.0  # s: how long it tries to connect, if it never was connected
MARGIN = 2.0  # s: how late a reply may be
LATE = 0.08  # s: by how much a wait may exceed its limit
LASTING = 1.0  # s: a connection that lasted for this long was no part of an outage
GIVE_UP_WITHIN = 2.0  # s: how long a cancelled caller waits for LOCK.CANCEL, which then continues in the background


@dataclass
class Connect:
    """Opens the connection for the next Send, and the one that releases and renewals will use, unless they are open."""

    limit: float


@dataclass
class Send:
    """A command on a connection of its own. The generator receives the reply; an error is raised in it."""

    words: Words
    limit: float
    """How long the reply may take, in s; then the connection is closed."""


@dataclass
class Pause:
    seconds: float


Step = Union[Connect, Send, Pause]
Steps = Generator[Step, Any, Any]


def pauses() -> Iterator[float]:
    """Pauses that grow, so that a request is not repeated too often."""
    pause = 0.02
    while True:
        yield pause
        pause = min(pause * 1.6, 0.5)


class Attempt:
    """One acquisition. `wait`: seconds; None has no limit, 0 only tries. `server` has `has_connected`, and
    `address(key)`."""

    def __init__(self, spec: Spec, wait: Optional[float], server: Any, max_block: float = MAX_BLOCK,
                 connect_timeout: float = CONNECT_TIMEOUT):  # fmt: skip
        self.spec, self.owner, self.max_block = spec, new_owner(), max_block
        self.began = time.monotonic()
        self.until = None if wait is None else self.began + wait
        self.sent = self.began  # when the command that got the reply was sent
        self.was_cut = False  # the connection of a request was lost, and its reply will not be read
        self.given_up = False
        self._wait, self._server, self._connect_timeout = wait, server, connect_timeout
        self._replicas = spec.replicas[1] if spec.replicas else 0.0
        self._in_outage = False

    def _left(self) -> float:
        return float("inf") if self.until is None else max(0.0, self.until - time.monotonic())

    def _next_block(self) -> Tuple[Optional[int], float]:
        """(BLOCK in ms, or None; how long the reply may take, in s)."""
        left = self._left()
        if self._wait == 0:
            return None, max(0.01, self.began + LATE - time.monotonic()) + self._replicas
        if self.spec.kind == "fair" and left > self.max_block:
            # The waiter keeps its place when the connection closes, but not when a BLOCK times out.
            return (0 if self.until is None else max(1, round(left * 1000))), self.max_block
        block = min(left, self.max_block)
        return max(1, round(block * 1000)), min(block + MARGIN, left + LATE) + self._replicas

    def _has_ended(self) -> bool:
        return self.given_up or (self.until is not None and time.monotonic() >= self.until)

    def run(self) -> Steps:
        """Returns the reply, which is not null. If `given_up` is set meanwhile, it raises NotAcquired."""
        pause, is_sent, limit = pauses(), False, 0.0
        while True:
            try:
                is_sent = False
                yield Connect(min(self._connect_timeout, self._left() + LATE))
                block_ms, limit = self._next_block()
                self.sent, is_sent = time.monotonic(), True
                answer = yield Send(self.spec.acquire(self.owner, block_ms), limit)
            except Exception as error:
                if not is_passing(error):
                    raise typed(error, self._server.address(self.spec.key)) from error
                self.was_cut = self.was_cut or is_sent
                if is_sent and limit == self.max_block and time.monotonic() - self.sent >= limit:
                    continue  # the end of one blocking call of a fair wait
                self._failed(error, is_sent)
                yield Pause(min(next(pause), self._left()))
                if self._has_ended():
                    raise self._ended(error) from error
                continue
            if answer is not None:
                return answer
            pause, self._in_outage = pauses(), False
            if self._has_ended():
                raise NotAcquired(self.spec, self._wait or 0, (yield from self._holders()))

    def _failed(self, error: Exception, is_sent: bool) -> None:
        """Raises the error if the attempt ends with it, and otherwise logs the first one of each outage."""
        if self._has_ended():
            raise self._ended(error) from error
        if not is_connection(error):
            return
        if not self._server.has_connected and time.monotonic() - self.began >= self._connect_timeout:
            raise error
        lasted = is_sent and time.monotonic() - self.sent >= LASTING
        if lasted or not self._in_outage:
            log.warning("%s: no connection to %s (%s); the wait goes on", self.spec.named,
                        self._server.address(self.spec.key), error)  # fmt: skip
        self._in_outage = True

    def _ended(self, error: Exception) -> Exception:
        """A try that could not ask the server ends with the library's error: None only means that it is held."""
        if self._wait == 0:
            return typed(error)
        return NotAcquired(self.spec, self._wait or 0, cause=error)

    def _holders(self) -> Generator[Step, Any, List[str]]:
        """Who holds it, of the first key that is held, as long as there is time to ask."""
        holders: List[str] = []
        for key in self.spec.keys:
            left = (self.until or 0) + LATE - time.monotonic()
            if holders or left <= 0 or self.given_up:
                break
            try:
                holders = holders_of((yield Send(["LOCK.INFO", key], left)))
            except library.RedisError:
                break
        return holders


def give_up(attempt: Attempt, has_ended: Callable[[], bool]) -> Steps:
    """Cancels an attempt until nothing of it is left. `has_ended()`: its last request has the reply, or lost its connection."""
    spec, owner = attempt.spec, attempt.owner
    until = time.monotonic() + spec.lease
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
            yield Pause(next(pause))
            continue
        if is_last or (not attempt.was_cut and (answer or had_ended)):
            return
        # After 0 the request may not have arrived yet. And a request on a dead connection may still arrive: cancel once
        # more.
        is_last = had_ended
        yield Pause(0.1 if is_last else next(pause))


def _taken_back(spec: Spec, owner: str) -> Steps:
    """For a multi-key lock: releases the keys. Returns 0 if they were not held."""
    try:
        yield Send(spec.release(owner), MARGIN)
    except Exception as error:
        if is_not_held(error):
            return 0
        raise
    return 2


class State:
    """The state of one hold. Times are those of time.monotonic()."""

    def __init__(self, spec: Spec, owner: str, answer: Any, sent: float):
        self.spec, self.owner = spec, owner
        self.token: Optional[int] = answer if spec.fenced else None
        now = time.monotonic()
        self.until = now + spec.lease
        # After a wait, the time of the grant is not known, so the lease is renewed at once.
        self.renew_at = now if now - sent > self.third else sent + self.third
        self.is_released, self._why = False, ""

    @property
    def third(self) -> float:
        return self.spec.lease / 3

    @property
    def is_renewed(self) -> bool:
        return self.spec.renew and not self.spec.session

    @property
    def is_lost(self) -> bool:
        """Whether it is known to be lost: the server reported it, or the lease has expired by the local clock."""
        return bool(self._why) or (not self.is_released and self._has_expired())

    def _has_expired(self) -> bool:
        return time.monotonic() >= self.until

    def lose(self) -> bool:
        """Records the loss. Returns whether it was not known before."""
        if self._why or self.is_released:
            return False
        self._why = "its lease expired" if self._has_expired() else "the server reported its loss"
        return True

    def not_held(self) -> NotHeld:
        why = self._why or ("it was released before" if self.is_released else "its lease expired")
        return NotHeld(self.spec, why)

    def has_ended(self) -> bool:
        return bool(self._why) or self.is_released

    def confirm(self, sent: float) -> None:
        """The server confirmed the hold with the reply to a command that was sent at `sent`."""
        self.until = max(self.until, sent + self.spec.lease)
        self.renew_at = sent + self.third

    def renewed(self) -> Steps:
        """Renews all keys. Raises NotHeld if the hold is lost; after any other error the last confirmed lease applies."""
        sent = time.monotonic()
        for key in self.spec.keys:
            limit = min(MARGIN, max(0.05, self.until - time.monotonic()))
            try:
                yield Send(self.spec.renew_key(key, self.owner), limit)
            except Exception as error:
                self.renew_at = time.monotonic() + min(0.5, self.third / 4)
                if is_not_held(error):
                    raise NotHeld(self.spec) from error
                raise typed(error) from error
        self.confirm(sent)

    def watched(self, key: Key, block: float) -> Steps:
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
                    return is_not_held(error)
                is_bound = not self.spec.session
                yield Pause(next(pause))
                continue
            pause = pauses()
            if answer in ("LOST", b"LOST"):
                return True
            if self.spec.session:
                self.confirm(sent)
        return False

    def released(self) -> Steps:
        """Releases it. After transient errors this is repeated until the lease expires."""
        if self.is_released:
            raise self.not_held()
        was_lost, pause, repeated = self.is_lost, pauses(), False
        if was_lost:
            self.lose()
        self.is_released = True
        while True:
            try:
                yield Send(self.spec.release(self.owner), MARGIN)
                break
            except Exception as error:
                if is_not_held(error):
                    if self.spec.kind == "multi":
                        yield from self._released_one_by_one()
                    if repeated and not was_lost:
                        return  # the first one was executed
                    self._why = self._why or ("its lease expired" if self._has_expired() else "the server reported its loss")
                    raise self.not_held() from error
                if not is_passing(error) or self._has_expired():
                    raise typed(error) from error
                repeated = True
            yield Pause(next(pause))
        if was_lost:
            raise self.not_held()

    def _released_one_by_one(self) -> Steps:
        """One key of a multi-key lock was lost, so LOCK.MRELEASE released none: releases the others."""
        for key in self.spec.keys:
            try:
                yield Send(["LOCK.RELEASE", key, self.owner], MARGIN)
            except Exception as error:
                if not is_not_held(error):
                    raise
