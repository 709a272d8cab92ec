"""What Locks, Lock and Hold are in both flavours."""

import os
import sys
import threading
import warnings
import weakref
from typing import Any, Dict, Generic, Iterator, List, Optional, Tuple

from ._pool import Pool
from ._spec import Factory, C, H, Key, L, Spec, check_positive, checked_wait
from ._steps import MAX_BLOCK, Attempt, State, Steps, log
from .errors import NotHeld, not_held

DEFAULT: Any = object()


class Parts:
    """What Locks have: connections, threads or tasks. It does not refer to the Locks, so that these can be collected."""

    pool: Pool
    pool_class: Any
    retry: Any

    def __init__(self, client: Any, source: Any, max_block: float, connect_timeout: float):
        check_positive("max_block", max_block)
        check_positive("connect_timeout", connect_timeout)
        self._client, self._source, self.is_closed = client, source, False
        self.max_block, self.connect_timeout = max_block, connect_timeout
        self._inherited: List[Any] = []
        self.begin()
        _all.add(self)

    def begin(self) -> None:
        """Starts without connections, threads and tasks; also in the child after a fork, where these are the parent's, and
        must not be closed."""
        self._inherited.append(self.__dict__.get("pool"))
        start = lambda steps: self.start(None, steps)  # noqa: E731
        self.pool = self.pool_class(self._client, self._source, self.retry, self.connect_timeout, start)
        self.holds: Dict[int, weakref.ref[Any]] = {}

    def attempt(self, spec: Spec, wait: Any) -> Attempt:
        wait = checked_wait(spec.wait if wait is DEFAULT else wait)
        return Attempt(spec, wait, self.pool, self.max_block, self.connect_timeout)

    def held(self) -> List[Any]:
        """The holds that nobody releases at present."""
        holds = [found() for found in list(self.holds.values())]
        return [hold for hold in holds if hold is not None and not (hold._state.is_sending or hold._state.is_released)]

    def start(self, key: Optional[Key], steps: Steps, named: str = "") -> Any:
        raise NotImplementedError

    def forget(self, state: State) -> None:
        """Releases a hold, from a finalizer."""
        raise NotImplementedError


_all: "weakref.WeakSet[Parts]" = weakref.WeakSet()


def all_parts() -> List[Parts]:
    return list(_all)


def _begin_all() -> None:
    for parts in all_parts():
        parts.begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all)


class BaseLocks(Factory[L, H, C]):
    _parts: Any
    _lock_class: Any
    _can_cancel = False

    def _make(self, *options: Any) -> L:
        spec = Spec(*options)
        if spec.cancel_on_loss and not self._can_cancel:
            raise ValueError("cancel_on_loss: only a task of asyncio can be cancelled")
        lock: L = self._lock_class(self, spec)
        return lock


class BaseLock(Generic[H]):
    """A lock that can be acquired any number of times."""

    def __init__(self, locks: Any, spec: Spec):
        self._locks, self._spec, self._parts = locks, spec, locks._parts
        self._entered: List[Tuple[Any, H]] = []
        self._entering = threading.RLock()

    def _enter(self, who: Any, hold: H) -> H:
        with self._entering:
            self._entered.append((who, hold))
        return hold

    def _leave(self, who: Any) -> H:
        """The last hold that this thread or task entered; or any, if it was another thread or task."""
        with self._entering:
            own = [number for number, (by, _) in enumerate(self._entered) if by == who]
            return self._entered.pop(own[-1] if own else -1)[1]


class BaseHold:
    """A lock that is held, from one acquisition: `owner`, `keys`, `token` (or None), `is_lost`."""

    def __init__(self, locks: Any, state: State):
        self._locks, self._parts, self._state, self._pid = locks, locks._parts, state, os.getpid()
        self.owner, self.keys, self.token = state.owner, state.spec.keys, state.token
        self._parts.holds[id(self)] = weakref.ref(self)

    @property
    def is_lost(self) -> bool:
        """Whether it is known to be lost, without a request to the server."""
        return self._state.is_lost

    def _watches(self) -> Iterator[Tuple[Key, float, bool]]:
        """Of each key that is watched: (key, how long a command blocks, whether the hold is bound to the connection)."""
        spec = self._state.spec
        block = self._state.third if spec.session else min(self._parts.max_block, MAX_BLOCK)
        for key in self.keys if spec.on_lost or spec.cancel_on_loss else self.keys[:1] if spec.session else ():
            yield key, block, spec.session and key == self.keys[0]

    def _is_inherited(self) -> bool:
        return self._pid != os.getpid()

    def _releasing(self) -> Steps:
        if self._is_inherited():
            raise not_held(self._state.spec, "it belongs to the parent process")
        return self._state.released()

    def _left(self, error: Optional[BaseException], problem: Exception) -> None:
        """The release at the end of a body that failed with `error` has failed, too."""
        if error is None:
            raise problem
        log.warning("the release after %r: %s", error, problem)

    def __del__(self) -> None:
        state = getattr(self, "_state", None)
        if state is None or sys.is_finalizing() or self._is_inherited():
            return
        self._parts.holds.pop(id(self), None)
        is_lost = state.is_lost
        if state.is_ending or self._parts.is_closed or (is_lost and not state.spec.session):
            return
        self._parts.forget(state)
        if not is_lost:
            warnings.warn(f"{state.spec.named} was never released; it is released now", ResourceWarning, source=self)


def lost(found: "weakref.ref[Any]") -> None:
    hold = found()
    if hold is not None and hold._state.lose():
        hold._lost()


def log_error(named: str, error: Optional[BaseException]) -> None:
    if error is not None and named and not isinstance(error, NotHeld):
        log.warning("%s: %s", named, error)
