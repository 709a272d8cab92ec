"""Which commands are sent when, independent of input and output: generators that yield a Connect, a Send or a Pause, and
receive the reply or the error. Points in time are those of time.monotonic()."""

import logging
import time
import weakref
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Generator, Iterator, List, Optional, Set, Union

import redis.exceptions as library

from ._info import LockInfo, info_of, joined
from ._spec import Key, Spec, Words, check_lease, holders_of, new_owner
from .errors import (
    Busy,
    Closed,
    NotHeld,
    Refused,
    is_connection,
    is_not_held,
    is_transient,
    not_acquired,
    not_held,
    reason_of,
    typed,
)

log = logging.getLogger("lock_so")

MAX_BLOCK = 30.0  # s: how long one command blocks at most
CONNECT_TIMEOUT = 5.0  # s: how long it tries to connect, if it never was connected
MARGIN = 2.0  # s: how late a reply may be
LATE = 0.08  # s: by how much a wait may exceed its limit
LASTING = 1.0  # s: a connection that lasted for this long was no part of an outage
GIVE_UP_WITHIN = 2.0  # s: how long a cancelled caller waits for LOCK.CANCEL, which then continues in the background
GIVE_UP_LIMIT = 30.0  # s: and how long it is repeated there at most


@dataclass
class Connect:
    """Opens the connection for the next Send, and one for releases and renewals, unless they are open."""

    until: float


@dataclass
class Send:
    """A command. The generator receives the reply; an error is raised in it."""

    words: Words
    until: float
    """When the reply must have been received; then the connection is closed."""
    is_cut: bool = False
    """That time is the end of one blocking call, and no failure."""
    silent: Optional[List[Any]] = None
    """Where the connection is put if there is no reply by then: it is not closed."""


@dataclass
class Pause:
    seconds: float


@dataclass
class AnyOf:
    """Waits until one of these jobs of start() has ended, and receives those that have."""

    jobs: Set[Any]
    until: float


@dataclass
class Do:
    """Calls a method of the flavour, and receives what it returns; with asyncio this is awaited first."""

    call: Callable[[], Any]


Steps = Generator[Union[Connect, Send, Pause, Do, AnyOf], Any, Any]


def short(words: Words, more: float = 0.0) -> Send:
    return Send(words, time.monotonic() + MARGIN + more)


def pauses() -> Iterator[float]:
    """Pauses that grow, so that a request is not repeated too often."""
    yield 0.0
    pause = 0.02
    while True:
        yield pause
        pause = min(pause * 1.6, 0.5)


def repeated(words: Words, until: float, is_repeatable: bool = True, more: float = 0.0) -> Steps:
    """Returns the reply to a short command. After a transient error it is sent again, until that time; if it is not
    repeatable, only if the server has not executed it. `more`: how much later than usual a reply may be."""
    pause, last = pauses(), until - LATE  # the last try still has time to fail by itself
    while True:
        is_sent, limit = False, min(until, time.monotonic() + MARGIN + more)
        try:
            yield Connect(limit)
            is_sent = True
            return (yield Send(words, limit))
        except Exception as error:
            may_be_executed = is_sent and is_connection(error) and not is_repeatable
            if may_be_executed or not is_transient(error) or time.monotonic() >= last:
                raise
        yield Pause(min(next(pause), max(0.0, last - time.monotonic())))


def asked(words: Words, spec: Spec, server: Any, is_repeatable: bool = True, more: float = 0.0,
          until: float = float("inf")) -> Steps:  # fmt: skip
    """The same, in the time of one short command, and with this package's errors."""
    try:
        return (yield from repeated(words, min(until, time.monotonic() + MARGIN + more), is_repeatable, more))
    except Exception as error:
        raise typed(error, spec, server) from error


def inspected(spec: Spec, server: Any, count: int) -> Generator[Any, Any, LockInfo]:
    """Who holds it, and the first `count` waiters of each key."""
    until, found = time.monotonic() + MARGIN, []
    for key in spec.keys:
        found.append(info_of(key, (yield from asked(["LOCK.INFO", key, "COUNT", count], spec, server, until=until))))
    return joined(found)


def forced(spec: Spec, server: Any) -> Generator[Any, Any, bool]:
    """Frees it, whoever holds it. Returns whether it was held. It is not repeated: that could free it of the next holder."""
    until, was_held = time.monotonic() + MARGIN, False
    for key in spec.keys:
        was_held = (yield from asked(["LOCK.FORCE", key], spec, server, is_repeatable=False, until=until)) == 1 or was_held
    return was_held


class Outages:
    """The errors that a wait survives, with a warning about each outage."""

    def __init__(self, named: str, key: Key, server: Any, connect_timeout: float):
        self.named, self._key, self._server, self.connect_timeout = named, key, server, connect_timeout
        self.began = time.monotonic()
        self._is_on = False

    def ended(self) -> None:
        self._is_on = False

    def failed(self, error: Exception, lasted: bool) -> None:
        """Raises the error if no connection was ever possible, and otherwise logs the first one of each outage. `lasted`:
        the connection did."""
        if not is_connection(error):
            return
        if not self._server.has_connected and time.monotonic() - self.began >= self.connect_timeout:
            raise error
        if isinstance(error, Busy):
            return
        if lasted or not self._is_on:
            log.warning("%s: no connection to %s (%s); the wait goes on", self.named, self._server.address(self._key), error)
        self._is_on = True


class Attempt:
    """One acquisition. `wait`: seconds; None has no limit, 0 only tries. `server` has `has_connected`, and
    `address(key)`. `entries`: where its state is found by who may enter it again. `last`: when it must have ended."""

    def __init__(self, spec: Spec, wait: Optional[float], server: Any, max_block: float = MAX_BLOCK,
                 connect_timeout: float = CONNECT_TIMEOUT, entries: Any = None, last: float = float("inf")):  # fmt: skip
        self.spec, self.owner, self.max_block = spec, new_owner(), max_block
        self.began = time.monotonic()
        self.until = float("inf") if wait is None else self.began + (wait or LATE)
        self.sent = self.began  # when the command that got the reply was sent
        self.was_cut = False  # the connection of a request was lost, and its reply will not be read
        self.given_up = False
        self._wait, self._server = wait, server
        self._last = min(last, self.until + (LATE if wait else 0.0))
        self.entries = entries
        self._outages = Outages(spec.named, spec.key, server, connect_timeout)

    def _left(self) -> float:
        return max(0.0, self.until - time.monotonic())

    def _request(self, now: float) -> Send:
        left = self._left()
        if self._wait == 0:
            return Send(self.spec.acquire(self.owner, None), max(now + 0.01, self._last) + self.spec.replica_time)
        if self.spec.kind == "fair" and left > self.max_block:
            # The waiter keeps its place when the connection closes, but not when a BLOCK times out.
            block_ms = 0 if self._wait is None else max(1, round(left * 1000))
            return Send(self.spec.acquire(self.owner, block_ms), now + self.max_block, is_cut=True)
        block = min(left, self.max_block)
        until = min(now + block + MARGIN, self._last) + self.spec.replica_time
        return Send(self.spec.acquire(self.owner, max(1, round(block * 1000))), until)

    def _has_ended(self) -> bool:
        return self.given_up or time.monotonic() >= self.until

    def run(self) -> Steps:
        """Returns the reply, which is not null. If `given_up` is set meanwhile, it raises NotAcquired."""
        pause, request = pauses(), None
        while True:
            try:
                request = None
                yield Connect(min(time.monotonic() + self._outages.connect_timeout, self._last))
                self.sent = time.monotonic()
                request = self._request(self.sent)
                answer = yield request
            except Exception as error:
                self.was_cut = self.was_cut or not (request is None or isinstance(error, library.ResponseError))
                if not is_transient(error):
                    raise typed(error, self.spec, self._server) from error
                if request and request.is_cut and isinstance(error, library.TimeoutError) and not self.given_up:
                    continue
                self._failed(error, request is not None and time.monotonic() - self.sent >= LASTING)
                yield Pause(min(next(pause), self._left()))
                if self._has_ended():
                    raise self._ended(error) from error
                continue
            if answer is not None:
                return answer
            pause = pauses()
            self._outages.ended()
            if self._wait == 0 or self._has_ended():
                raise not_acquired(self.spec, self._wait or 0, (yield from self._holders()))

    def _failed(self, error: Exception, lasted: bool) -> None:
        """Raises the error if the attempt ends with it."""
        if self._has_ended() or (self._wait == 0 and is_connection(error)):
            raise self._ended(error) from error
        self._outages.failed(error, lasted)

    def _ended(self, error: Exception) -> Exception:
        """A try without a reply ends with the library's error: NotAcquired only means that it is held."""
        if self._wait == 0:
            return typed(error, self.spec, self._server)
        return not_acquired(self.spec, self._wait or 0, cause=error)

    def _holders(self) -> Generator[Send, Any, List[str]]:
        """Who holds it, of the first key that is held, as far as there is time for that."""
        holders: List[str] = []
        for key in self.spec.keys:
            if holders or time.monotonic() >= self._last or self.given_up:
                break
            try:
                holders = holders_of((yield Send(["LOCK.INFO", key, "COUNT", 0], self._last)))
            except library.RedisError:
                break
        return holders

    def state(self, answer: Any) -> "State":
        """That of the hold, from the reply."""
        state = State(self.spec, self.owner, answer, self.sent, self._server)
        if self.entries is not None:
            self.entries[self.spec.identity] = state
            state.entries = self.entries
        return state

    def give_up(self, has_ended: Callable[[], bool]) -> Steps:
        """Cancels it until nothing of it is left. `has_ended()`: its last request has the reply, or lost its connection."""
        spec, owner = self.spec, self.owner
        until = time.monotonic() + min(spec.lease, GIVE_UP_LIMIT)
        pause, confirmed = pauses(), 0
        while time.monotonic() < until:
            had_ended = has_ended()
            try:
                answer = yield short(spec.cancel(owner))
                if answer == 0 and spec.kind == "multi":
                    answer = yield from _released(spec, owner)
            except Exception as error:
                if not is_transient(error):
                    raise
                yield Pause(next(pause))
                continue
            # After 0 the request may not have arrived yet. And a request on a dead connection may still arrive: cancel once
            # more.
            confirmed += had_ended or bool(answer and not self.was_cut)
            if confirmed > self.was_cut:
                return
            yield Pause(0.1 if confirmed else next(pause))


def _released(spec: Spec, owner: str) -> Steps:
    """Releases it. Returns whether it was held. If one key of a multi-key lock was lost, the others are released."""
    commands = [spec.release(owner)]
    if spec.kind == "multi":
        commands += [["LOCK.RELEASE", key, owner] for key in spec.keys]
    for number, command in enumerate(commands):
        try:
            yield short(command)
        except Exception as error:
            if not is_not_held(error):
                raise
        else:
            if number == 0:
                return True
    return False


class State:
    """The state of one acquisition, of which reentrant holds share one."""

    is_listed = True  # among those that Locks release when they are closed

    def __init__(self, spec: Spec, owner: str, answer: Any, sent: float, server: Any):
        self.spec, self.owner, self._server = spec, owner, server
        self.token: Optional[int] = answer if spec.fenced else None
        now = time.monotonic()
        # After a wait, the time of the grant is not known, so the lease is renewed at once.
        has_waited = now - sent > self.third
        self.until = (now if has_waited else sent) + spec.lease
        self.renew_at = now if has_waited else sent + self.third
        self.is_ending = False  # release() was called
        self.is_sending = False  # and it is in progress
        self.is_released = False  # or the server has replied
        self.schedule = 0  # the number of the present schedule of renewals
        self.keeping: Any = None  # with asyncio: the timer, and then the task, that renews it
        self.holds: List[weakref.ref[Any]] = []  # those that have not been released
        self.wholes: List[weakref.ref[State]] = []  # those of combined locks of which it is a member
        self.entries: Dict[Any, State] = {}  # where it is found by the thread or task that may enter it again
        self._doubtful = float("inf")  # the shortest lease of those that were requested without having had a reply
        self._loss: Dict[str, List[str]] = {}
        self._last: Dict[str, Any] = {}

    def enter(self, hold: "weakref.ref[Any]") -> None:
        self.holds.append(hold)

    def leave(self, hold: "weakref.ref[Any]") -> bool:
        """Returns whether no other hold is left."""
        self.holds.remove(hold)
        # setdefault() is atomic: two may be released by two threads at the same time.
        is_last = not self.holds and self._last.setdefault("", hold) is hold
        if is_last:
            self.entries.pop(self.spec.identity, None)
        return is_last

    def check(self) -> None:
        if self.is_lost or self.has_ended():
            raise self.not_held()

    @property
    def third(self) -> float:
        return self.spec.lease / 3

    @property
    def is_renewed(self) -> bool:
        return self.spec.renew and not self.spec.session

    @property
    def may_be_left(self) -> bool:
        """Whether something of it may be left on a server though it is lost."""
        return self.spec.session

    @property
    def is_lost(self) -> bool:
        """Whether it is known to be lost: the server reported it, or the lease has expired by the local clock."""
        return bool(self._loss) or (not self.is_released and self._has_expired())

    def _has_expired(self) -> bool:
        return time.monotonic() >= self.until

    def lose(self) -> bool:
        """Records the loss. Returns whether it was not known before."""
        return not self.is_ending and self._lose()

    def _lose(self) -> bool:
        # It may be noticed by two threads at the same time, and setdefault() is atomic.
        loss = ["its lease expired" if self._has_expired() else "the server reported its loss"]
        return self._loss.setdefault("", loss) is loss

    def notify(self) -> None:
        """It is lost: its holds are notified, once."""
        if self.lose():
            for ref in list(self.holds):
                hold = ref()
                if hold is not None:
                    hold._lost()
            for whole in filter(None, [ref() for ref in self.wholes]):
                whole.notify()

    def not_held(self) -> NotHeld:
        return not_held(self.spec, *self._loss.get("") or ["its lease expired" if self.is_lost else "it was released before"])

    def has_ended(self) -> bool:
        return bool(self._loss) or self.is_ending

    def confirm(self, sent: float, lease: float) -> None:
        """The server confirmed the hold with the reply to a command that was sent at `sent`. The command for a shorter lease
        that has had no reply may be executed after it."""
        lease, self._doubtful = min(lease, self._doubtful), float("inf")
        self.until = max(self.until, sent + self._lasting(lease))
        self.renew_at = sent + lease / 3

    def _lasting(self, lease: float) -> float:
        """How long a lease lasts by the local clock."""
        return lease

    def due(self) -> float:
        """When renewed() has to do something next."""
        return min(self.renew_at, self.until) if self.is_renewed else self.until

    def renewed(self, schedule: int = 0) -> Steps:
        """Renews it, and notices when its lease expires, until it is lost (True), or has ended or another schedule has begun
        (False)."""
        is_failing = False
        while not self.has_ended() and self.schedule == schedule:
            now = time.monotonic()
            if now >= self.until:
                return True
            if now < self.due():
                yield Pause(self.due() - now)
                continue
            lease = self._request_lease()
            try:
                yield Send(self.spec.renewal(self.owner), min(now + MARGIN + self.spec.replica_time, self.until))
                self.confirm(now, lease)
                is_failing = False
            except Exception as error:
                if is_not_held(error):
                    return True
                self.renew_at = time.monotonic() + min(0.5, self.third / 4)
                is_failing = is_failing or self._warn("could not be renewed", error)
        return False

    def _request_lease(self) -> float:
        self._doubtful = min(self._doubtful, self.spec.lease)
        return self.spec.lease

    def renew(self, lease: Optional[float]) -> Steps:
        """Renews it now, with this lease from now on."""
        sent = self._change(lease)
        lease = self._request_lease()
        yield from self._asked(self.spec.renewal(self.owner, binds=False), self.spec.replica_time)
        self.confirm(sent, lease)

    def _change(self, lease: Optional[float]) -> float:
        """Before a renewal. Until the server has confirmed the lease, the hold ends with the shorter one. Returns the time."""
        if lease is not None:
            check_lease(lease)
            if self.spec.session:
                raise ValueError("lease: that of a session cannot be changed")
        self.check()
        now = time.monotonic()
        if lease is not None:
            self.spec, self.schedule = replace(self.spec, lease=lease), self.schedule + 1
            self.until, self.renew_at = min(self.until, now + self._lasting(lease)), min(self.renew_at, now + self.third)
        return now

    def guarded(self, command: Words) -> Steps:
        """Executes a command if it is held, and returns the reply."""
        self.check()
        return (yield from self._asked(["LOCK.GUARD", self.spec.key, self.owner, *command], is_repeatable=False))

    def _asked(self, words: Words, more: float = 0.0, is_repeatable: bool = True) -> Steps:
        try:
            return (yield from asked(words, self.spec, self._server, is_repeatable, more))
        except Refused as error:
            if error.code != "NOTHELD":
                raise
            self.notify()
            raise self.not_held() from error

    def _warn(self, what: str, error: Exception) -> bool:
        if not self.has_ended():
            log.warning("%s %s: %s", self.spec.named, what, reason_of(error, self._server.address(self.spec.key)))
        return True

    def watched(self, key: Key, block: float) -> Steps:
        """Waits until it is lost (True) or has ended (False). A session's hold is bound to the connection of these commands;
        if one of them fails, the hold is bound to the next connection, and confirmed."""
        pause, is_bound, is_failing = pauses(), True, False
        while not self.has_ended() and not self._has_expired():
            sent = time.monotonic()
            try:
                if not is_bound:
                    yield short(self.spec.renewal(self.owner), self.spec.replica_time)
                    self.confirm(sent, self.spec.lease)
                    is_bound, sent = True, time.monotonic()
                words = self.spec.watch(key, self.owner, max(1, round(block * 1000)))
                answer = yield Send(words, sent + block + MARGIN)
            except Exception as error:
                if is_not_held(error):
                    return True
                if isinstance(error, Closed):
                    return False
                if not is_transient(error):
                    is_failing = is_failing or self._warn("cannot be watched", error)
                is_bound = not self.spec.session
                yield Pause(next(pause))
                continue
            pause, is_failing = pauses(), False
            if answer in ("LOST", b"LOST"):
                return True
            if self.spec.session:
                self.confirm(sent, self.spec.lease)
        return False

    def released(self) -> Steps:
        """Releases it. After transient errors this is repeated until the lease expires. If it fails, it can be called again."""
        if self.is_released:
            raise self.not_held()
        was_lost, pause, repeated = self.is_lost, pauses(), self.is_ending
        if was_lost:
            self._lose()
        self.is_ending = self.is_sending = True
        try:
            while True:
                try:
                    was_held = yield from _released(self.spec, self.owner)
                    break
                except Exception as error:
                    if not is_transient(error) or self._has_expired():
                        raise typed(error, self.spec, self._server) from error
                    repeated = True
                yield Pause(next(pause))
        finally:
            self.is_sending = False
        if not was_held and not self.is_released and (not repeated or self._has_expired()):
            self._lose()  # otherwise the first command was executed
        is_second, self.is_released = not was_held and self.is_released, True
        if was_lost or self._loss or is_second:
            raise self.not_held()
