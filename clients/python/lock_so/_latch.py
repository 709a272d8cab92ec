"""Latches, in both flavours."""

from typing import Any, Optional

from ._spec import Key, Spec, check_count, check_lease, checked_wait, ms_of
from ._steps import Attempt, Steps, asked
from .errors import NotAcquired, Refused


class LatchWait(Attempt):
    """A wait until a latch is open. Returns whether it is."""

    def run(self) -> Steps:
        try:
            yield from super().run()
        except NotAcquired:
            return False
        return True

    def _holders(self) -> Any:
        return []
        yield  # a generator, as that of a lock


class BaseLatch:
    """A latch: it is closed while its number is greater than 0, and opens when that has been counted down."""

    def __init__(self, locks: Any, key: Key):
        self._spec = Spec("latch", (key,))
        self.key, self._locks, self._shared = key, locks, locks._shared

    def _ask(self, *words: Any, is_repeatable: bool = True) -> Any:
        return self._shared.ask(self._spec, asked(list(words), self._spec, self._shared.pool, is_repeatable))

    def _set(self, count: int, lease: Optional[float]) -> Any:
        check_count("count", count, 0)
        if lease is not None:
            check_lease(lease)
        # It is not repeated: a second execution would undo what was counted down since the first one.
        return self._ask("LATCH.SET", self.key, count, *(["PX", ms_of(lease)] if lease is not None else []), is_repeatable=False)

    def _count_down(self, by: int) -> Any:
        check_count("by", by)
        return self._ask("LATCH.DOWN", self.key, by, is_repeatable=False)

    def _number(self, reply: Any) -> int:
        try:
            return max(0, int(reply or 0))
        except ValueError:
            raise Refused(f"{self._spec.named}: its value is not an integer") from None

    def _attempt(self, wait: Any) -> LatchWait:
        shared = self._shared
        return LatchWait(self._spec, checked_wait(wait), shared.pool, shared.max_block, shared.connect_timeout)
