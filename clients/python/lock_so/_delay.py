"""Delayed queues and their consumers, in both flavours."""

import re
import secrets
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Tuple, Union

import redis.exceptions as library

from ._spec import Key, Spec, Words, check_count, check_delay, check_positive, encoded, ms_of, text_of
from ._steps import LASTING, MARGIN, Connect, Do, Outages, Pause, Send, Steps, asked, log, pauses, repeated
from .errors import ModuleMissing, Refused, is_connection, is_transient, reason_of, typed

LONGEST = 2**50  # ms: the longest delay that a consumer requests
LOOK = 1.0  # s: how often a consumer looks for what others have left behind, and how long it waits for an element at most
SHORTEST = 0.1  # s: the shortest pause after a command that was refused
FATAL = ("WRONGTYPE", "NOPERM", "MOVED", "ASK")  # what will be refused again

Value = Union[str, bytes]


@dataclass(frozen=True)
class Job:
    """`value`: bytes, or str if the client decodes replies; `tries`: 1 on the first try."""

    value: Any
    tries: int


@dataclass(frozen=True)
class Pending:
    """An element that has not been delivered yet; `left`: seconds until it is due."""

    id: str
    left: float
    value: Any


def parsed(element: Any) -> Tuple[int, Any]:
    """How many tries of it were begun, and its value."""
    # No more digits than int() reads.
    pattern: Any = rb"lock-so:([0-9]{1,999}):" if isinstance(element, bytes) else r"lock-so:([0-9]{1,999}):"
    found = re.match(pattern, element)
    return (int(found[1]), element[found.end():]) if found else (0, element)


def element_of(tries: int, value: Any) -> Any:
    return b"lock-so:%d:%s" % (tries, value) if isinstance(value, bytes) else f"lock-so:{tries}:{value}"


def beside(name: bytes, suffix: bytes) -> bytes:
    """A key in the slot of this list."""
    return (name if re.match(rb"[^{]*\{[^}]+\}", name) else b"{%s}" % name) + suffix


class BaseQueue:
    """A delayed queue: the server pushes its elements to a list when they are due."""

    def __init__(self, locks: Any, key: Key):
        self._spec = Spec("queue", (key,))
        self.key, self._locks, self._shared = key, locks, locks._shared

    def _ask(self, steps: Steps) -> Any:
        return self._shared.ask(self._spec, steps)

    def _asked(self, *words: Any, is_repeatable: bool = True) -> Steps:
        return asked(list(words), self._spec, self._shared.pool, is_repeatable)

    def _push(self, value: Value, delay: float, id: Optional[Key]) -> Steps:
        if not isinstance(value, (str, bytes)):
            raise TypeError(f"value must be str or bytes, not {value!r}")
        if re.match(rb"lock-so:[0-9]+:", encoded(value)):
            raise ValueError("value must not begin with what a consumer writes in front of it: lock-so:<number>:")
        if id is not None and encoded(id) in (b"", b"*"):
            raise ValueError(f"id must be a name, not {text_of(id)!r}")
        check_delay("delay", delay)
        # With an id the same element is replaced if the command is executed twice.
        words = ["DELAY.PUSH", self.key, "*" if id is None else id, round(delay * 1000), value]
        return text_of((yield from self._asked(*words, is_repeatable=id is not None)))

    def _cancelled(self, id: Key) -> Steps:
        # It is not repeated: the second reply would not show whether the element was cancelled or delivered.
        return (yield from self._asked("DELAY.CANCEL", self.key, id, is_repeatable=False)) == 1

    def _listed(self, count: Optional[int]) -> Steps:
        if count is not None:
            check_count("count", count, 0)
        found = yield from self._asked("DELAY.LIST", self.key, *(["COUNT", count] if count is not None else []))
        return [Pending(text_of(id), int(left) / 1000, value) for id, left, value in found]

    def _consumer(self, handle: Callable[[Job], Any], timeout: float, max_tries: int, backoff: float) -> "Consumer":
        check_positive("timeout", timeout)
        check_count("max_tries", max_tries)
        check_delay("backoff", backoff)
        return Consumer(self._shared, self._spec, handle, timeout, max_tries, backoff)


class Consumer:
    """Takes one element after the other, and passes it to `handle`. Before that it is pushed again, with `timeout` as its
    delay, and with one more try counted: this is its claim, which is cancelled when it has been handled. No element is ever
    only in the memory of a consumer."""

    def __init__(self, shared: Any, spec: Spec, handle: Callable[[Job], Any], timeout: float, max_tries: int, backoff: float):
        self.spec, self.key = spec, encoded(spec.key)
        self._shared, self._handle = shared, handle
        self._timeout, self._max_tries, self._backoff = timeout, max_tries, backoff
        self._taken, self._failed = beside(self.key, b":taken"), beside(self.key, b":failed")
        self.is_stopped = False
        self.is_settling = False
        """What it does must not be interrupted: it ends soon."""
        self._seen: Any = Counter()  # what was taken at the last look
        self._looked = float("-inf")

    def run(self) -> Steps:
        shared, pause = self._shared, pauses()
        outages = Outages(self.spec.named, self.key, shared.pool, shared.connect_timeout)
        block = min(LOOK, shared.max_block)
        while not self.is_stopped:
            sent = None
            try:
                yield Connect(time.monotonic() + shared.connect_timeout)
                yield from self._look()
                sent = time.monotonic()
                element = yield Send(["BLMOVE", self.key, self._taken, "LEFT", "RIGHT", f"{block:g}"], sent + block + MARGIN)
                pause = pauses()
                outages.ended()
                if element is not None:
                    yield from self._work(element)
            except Exception as error:
                if is_transient(error):
                    outages.failed(error, sent is not None and time.monotonic() - sent >= LASTING)
                    yield Pause(next(pause))
                    continue
                problem = typed(error, self.spec, shared.pool)
                if not isinstance(problem, Refused) or problem.code in FATAL or isinstance(problem, ModuleMissing):
                    raise problem from error
                log.warning("%s: an element could not be taken or claimed: %s", self.spec.named,
                            reason_of(error, shared.pool.address(self.key)))  # fmt: skip
                yield Pause(min(max(self._backoff, SHORTEST), LOOK))

    def _settle(self, steps: Steps) -> Steps:
        """Executes short steps, which nothing interrupts."""
        self.is_settling = True
        try:
            return (yield Do(lambda: self._shared.send(self.key, steps)))
        finally:
            self.is_settling = False

    def _push(self, claim: str, delay: float, tries: int, value: Any) -> Words:
        milliseconds = ms_of(min(delay, LONGEST / 1000)) if delay else 0
        return ["DELAY.PUSH", self.key, claim, milliseconds, element_of(tries, value)]

    def _look(self) -> Steps:
        """What has been taken for longer than a second was left behind by another consumer: it is pushed again."""
        if time.monotonic() < self._looked + LOOK:
            return
        taken: Any = Counter((yield from self._settle(repeated(["LRANGE", self._taken, 0, -1], time.monotonic() + MARGIN))))
        left = taken & self._seen
        for element in left.elements():
            yield from self._claim(element, parsed(element)[0], 0)
        self._seen, self._looked = taken - left, time.monotonic()

    def _claim(self, element: Any, tries: int, delay: float) -> Steps:
        """Pushes a taken element again. Returns the id, or None if another consumer has done so. If it fails, the element is
        still there at the next look."""
        return (yield from self._settle(self._claimed(element, tries, delay)))

    def _claimed(self, element: Any, tries: int, delay: float) -> Steps:
        claim, until = f"claim-{secrets.token_hex(8)}", time.monotonic() + MARGIN
        yield from repeated(self._push(claim, delay, tries, parsed(element)[1]), until)
        # In this order: a consumer that dies in between delivers it twice. A removal that was executed, but whose reply was
        # lost, must not be repeated, because a second one would remove an equal element of another consumer. It counts as
        # executed: if it was not, the element is delivered twice.
        try:
            is_removed = yield from repeated(["LREM", self._taken, 1, element], until, is_repeatable=False)
        except Exception as error:
            if not is_connection(error):
                raise
            is_removed = True
        if is_removed:
            return claim
        yield from repeated(self._cancel(claim), until)
        return None

    def _cancel(self, claim: str) -> Words:
        return ["DELAY.CANCEL", self.key, claim]

    def _work(self, element: Any) -> Steps:
        """One try."""
        due = time.monotonic() + self._timeout
        tries, value = parsed(element)
        claim = yield from self._claim(element, tries + 1, self._timeout)
        if claim is None:
            return
        if tries >= self._max_tries:
            log.warning("%s: an element has failed %d times: it is moved to %s", self.spec.named, tries, text_of(self._failed))
            yield from self._end([["RPUSH", self._failed, value], self._cancel(claim)], due)
            return
        again = self._push(claim, 0, tries, value)
        if self.is_stopped:
            yield from self._end([again], due)
            return
        try:
            yield Do(lambda: self._handle(Job(value, tries + 1)))
        except Exception as error:
            log.warning("%s: try %d of an element has failed: %r", self.spec.named, tries + 1, error)
            if time.monotonic() < due:
                yield from self._end([self._push(claim, self._backoff * 2.0 ** min(tries, 64), tries + 1, value)], due)
        except BaseException:
            if time.monotonic() < due:  # otherwise it has been delivered again
                yield from self._end([again], due)
            raise
        else:
            if (yield from self._end([self._cancel(claim)], due)) == 0 and time.monotonic() >= due:
                log.warning("%s: an element took longer than its timeout: it is delivered again", self.spec.named)

    def _end(self, commands: List[Words], due: float) -> Steps:
        """Sends commands until the claim times out. Returns the last reply."""
        def sent() -> Steps:
            for words in commands:
                reply = yield from repeated(words, max(due, time.monotonic() + MARGIN), words[0] != "RPUSH")
            return reply

        try:
            return (yield from self._settle(sent()))
        except (library.RedisError, OSError) as error:
            log.warning("%s: %s failed, the element is delivered again: %s", self.spec.named, commands[0][0],
                        reason_of(error, self._shared.pool.address(self.key)))  # fmt: skip
        return None
