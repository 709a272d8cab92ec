"""What Locks, Lock and Hold are in both flavours."""

import os
import sys
import threading
import warnings
import weakref
from typing import Any, Callable, Dict, Generic, Iterator, List, Optional, Tuple

from ._pool import Pool
from ._spec import Factory, C, H, Key, L, OnLost, Spec, check_positive, checked_wait
from ._steps import MAX_BLOCK, Attempt, State, log
from .errors import Closed, NotHeld, not_held

DEFAULT: Any = type("Default", (), {"__repr__": lambda _: "<the lock's>"})()


class Shared:
    """What Locks have: connections, threads or tasks. It refers to no Locks, no Hold and no callback, so that these can be
    collected."""

    pool: Pool
    pool_class: Any
    start: Callable[..., Any]  # executes steps in the background: key, steps
    forget: Callable[[State], Any]  # releases a hold in the background, also from a finalizer
    end: Callable[[], Any]  # closes everything at once

    def __init__(self, client: Any, source: Any, max_block: float, connect_timeout: float):
        check_positive("max_block", max_block)
        check_positive("connect_timeout", connect_timeout)
        self._client, self._source, self.is_closed = client, source, False
        self.max_block, self.connect_timeout = max_block, connect_timeout
        self._inherited: List[Any] = []
        self.begin()
        all_shared.add(self)

    def begin(self) -> None:
        """Starts without connections, threads and tasks; also in the child after a fork, where these are the parent's, and
        must not be closed."""
        self._inherited.append(self.__dict__.get("pool"))
        start = lambda steps: self.start(None, steps)  # noqa: E731
        self.pool = self.pool_class(self._client, self._source, self.connect_timeout, start)
        self.holds: Dict[int, State] = {}

    def held(self) -> List[State]:
        """The holds that are not being released."""
        return [state for state in list(self.holds.values()) if not (state.is_sending or state.is_released)]

    def collected(self) -> None:
        """When the Locks are collected, maybe before holds in the same cycle."""
        states = list(self.holds.values())
        self.holds.clear()
        try:
            self.abandon(*states)
        finally:
            self.end()

    def abandon(self, *states: State, source: Any = None) -> None:
        """Releases what was never released, from a finalizer."""
        lost = [state for state in states if state.is_lost]
        left = [state for state in states if not state.is_ending and (state.spec.session or state not in lost)]
        for state in left:
            self.forget(state)
        for state in left:
            if state not in lost:
                warnings.warn(f"{state.spec.named} was never released; it is released now", ResourceWarning, source=source)


all_shared: "weakref.WeakSet[Shared]" = weakref.WeakSet()


def _begin_all() -> None:
    for shared in list(all_shared):
        shared.begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all)


class BaseLocks(Factory[L, H, C]):
    """Locks on the server that a client connects to. `max_block`: how long one command blocks at most;
    `connect_timeout`: how long a wait tries to connect if it was never connected. Both in s."""

    _shared: Any
    _lock_class: Any
    _can_cancel = False

    def _make(self, kind: str, keys: Tuple[Key, ...], wait: Any, on_lost: Any, cancel_on_loss: Any, *options: Any, **more: Any) -> L:
        if cancel_on_loss and not self._can_cancel:
            raise ValueError("cancel_on_loss: only a task of asyncio can be cancelled")
        lock: L = self._lock_class(self, Spec(kind, keys, *options, **more), checked_wait(wait), on_lost, bool(cancel_on_loss))
        return lock


class BaseLock(Generic[H]):
    """A lock that can be acquired any number of times."""

    def __init__(self, locks: Any, spec: Spec, wait: Optional[float], on_lost: OnLost[H], cancel_on_loss: bool):
        self._locks, self._spec, self._shared, self._wait = locks, spec, locks._shared, wait
        self._on_lost, self._cancel_on_loss = on_lost, cancel_on_loss
        self._entered: List[Tuple[Any, H]] = []
        self._entering = threading.RLock()

    def _attempt(self, wait: Any) -> Attempt:
        if self._shared.is_closed:
            raise Closed()
        shared, wait = self._shared, self._wait if wait is DEFAULT else checked_wait(wait)
        return Attempt(self._spec, wait, shared.pool, shared.max_block, shared.connect_timeout)

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

    def __init__(self, lock: Any, state: State):
        self._locks, self._shared, self._state, self._pid = lock._locks, lock._shared, state, os.getpid()
        self._on_lost, self._cancel_on_loss = lock._on_lost, lock._cancel_on_loss
        self.owner, self.keys, self.token = state.owner, state.spec.keys, state.token
        self._shared.holds[id(self)] = state

    @property
    def is_lost(self) -> bool:
        """Whether it is known to be lost, without a request to the server."""
        return self._state.is_lost

    def _watches(self) -> Iterator[Tuple[Key, float, bool]]:
        """Of each key that is watched: (key, how long a command blocks, whether the hold is bound to the connection)."""
        spec, block = self._state.spec, min(self._shared.max_block, MAX_BLOCK)
        if spec.session:
            block = min(block, self._state.third)
        for key in self.keys if self._on_lost or self._cancel_on_loss else self.keys[:1] if spec.session else ():
            yield key, block, spec.session and key == self.keys[0]

    def _is_inherited(self) -> bool:
        return self._pid != os.getpid()

    def _check_process(self) -> None:
        if self._is_inherited():
            raise not_held(self._state.spec, "it belongs to the parent process")

    def _left(self, error: Optional[BaseException], problem: Exception) -> None:
        """The release at the end of a body that failed with `error` has failed, too."""
        if error is None:
            raise problem
        log.warning("the release after %r: %s", error, problem)

    def __del__(self) -> None:
        # Of a parent process, or of an event loop that has ended, it is not listed.
        shared = self.__dict__.get("_shared")
        state = shared and shared.holds.pop(id(self), None)
        if shared and state and not sys.is_finalizing():
            shared.abandon(state, source=self)


def lost(found: "weakref.ref[Any]") -> None:
    hold = found()
    if hold is not None and hold._state.lose():
        hold._lost()


def log_error(named: str, error: Optional[BaseException]) -> None:
    if error is not None and named and not isinstance(error, NotHeld):
        log.warning("%s: %s", named, error)
