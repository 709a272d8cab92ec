"""What Locks, Lock and Hold are in both flavours."""

import copy
import os
import sys
import threading
import warnings
import weakref
from typing import Any, Callable, Dict, Generic, Iterator, List, Optional, Tuple

from ._combine import parts_of
from ._pool import Pool
from ._spec import Factory, C, H, Key, L, Spec, Use, check_positive, checked_wait
from ._steps import MAX_BLOCK, Attempt, State, Steps, forced, inspected, log
from .errors import LockError, NotHeld, closed, not_held

DEFAULT: Any = type("Default", (), {"__repr__": lambda _: "<the lock's>"})()


class Shared:
    """What Locks have: connections, threads or tasks. It refers to no Locks, no Hold and no callback, so that these can be
    collected."""

    pool: Pool
    pool_class: Any
    start: Callable[..., Any]  # executes steps in the background: key, steps
    send: Callable[..., Any]  # executes steps: key, steps
    own: Callable[[], Dict[Any, State]]  # what this thread or task may enter again
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

    def ask(self, spec: Spec, steps: Steps) -> Any:
        """Executes steps of a method that the program calls."""
        if self.is_closed:
            raise closed(spec)
        return self.send(spec.key, steps)

    def held(self) -> List[State]:
        """The holds that are not being released."""
        states = dict.fromkeys(list(self.holds.values()))
        return [state for state in states if not (state.is_sending or state.is_released)]

    def collected(self) -> None:
        """When the Locks are collected, maybe before holds in the same cycle."""
        states = list(dict.fromkeys(self.holds.values()))
        self.holds.clear()
        try:
            self.abandon(*states)
        finally:
            self.end()

    def abandon(self, *states: State, source: Any = None) -> None:
        """Releases what was never released, from a finalizer."""
        lost = [state for state in states if state.is_lost]
        left = [state for state in states if not state.is_ending and (state.may_be_left or state not in lost)]
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


def _name_of(cls: type) -> str:
    """As a program imports it."""
    return f"{cls.__module__}.{cls.__name__}".replace("._sync", "")


class BaseLocks(Factory[L, H, C]):
    """Locks on the server that a client connects to. `max_block`: how long one command blocks at most;
    `connect_timeout`: how long a wait tries to connect if it was never connected. Both in s."""

    _shared: Any
    _lock_class: Any
    _combined_class: Any
    _can_cancel = False

    def __repr__(self) -> str:
        return f"<{_name_of(type(self))}: {self._shared.pool.name}>"

    def _make(self, kind: str, keys: Tuple[Key, ...], use: Use, *options: Any, **more: Any) -> L:
        if use.cancel_on_loss and not self._can_cancel:
            raise ValueError("cancel_on_loss: only a task of asyncio can be cancelled")
        spec = Spec(kind, keys, *options, **more)
        parts = parts_of(spec, self._shared.pool.slot) if kind == "multi" else []
        lock: L = self._lock_class(self, spec, use)
        if len(parts) > 1:
            own = Use(None, None, None, use.reentrant)
            lock = self._combined_class([self._lock_class(self, part, own) for part in parts], spec, use)
        return lock


class BaseLock(Generic[H]):
    """A lock that can be acquired any number of times."""

    _hold_class: Any

    def __init__(self, locks: Any, spec: Spec, use: Use):
        self._locks, self._spec, self._shared, self._use = locks, spec, locks._shared, use
        self._wait = checked_wait(use.wait)
        self._entered: List[Tuple[Any, H]] = []
        self._entering = threading.RLock()

    def __repr__(self) -> str:
        return f"<{_name_of(type(self))}: {self._spec.named}>"

    def _attempt(self, wait: Any, entries: Any = None, last: float = float("inf")) -> Any:
        shared = self._shared
        return Attempt(self._spec, wait, shared.pool, shared.max_block, shared.connect_timeout, entries, last)

    def _begun(self, wait: Any) -> Any:
        """The attempt of a caller."""
        if self._shared.is_closed:
            raise closed(self._spec)
        return self._attempt(self._wait if wait is DEFAULT else checked_wait(wait), self._entries())

    def _entries(self) -> Any:
        """What the caller may enter again."""
        return self._shared.own() if self._use.reentrant else None

    def _watched(self) -> Any:
        """The same lock, whose holds are watched."""
        lock = copy.copy(self)
        lock._use = self._use._replace(on_lost=self._use.on_lost or (lambda _: None))
        return lock

    def _inspected(self, count: int) -> Any:
        return inspected(self._spec, self._shared.pool, count)

    def _forced(self) -> Any:
        return forced(self._spec, self._shared.pool)

    def _ask(self, steps: Steps) -> Any:
        return self._shared.ask(self._spec, steps)

    def _again(self, attempt: Any) -> Optional[H]:
        """A further hold of what this thread or task holds already."""
        if self._shared.is_closed:  # those of a member
            raise closed(self._spec)
        state = attempt.entries.get(self._spec.identity) if attempt.entries else None
        if state is None or not state.holds:
            return None
        if self._spec.fenced and state.token is None:
            raise ValueError("fenced: the hold that is entered again has no token")
        state.check()
        hold: H = self._hold_class(self, state)
        return hold

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
        self._on_lost, self._cancel_on_loss = lock._use.on_lost, bool(lock._use.cancel_on_loss)
        self.owner, self.keys, self.token = state.owner, state.spec.keys, state.token
        self._ref, self._has_left, self._is_last = weakref.ref(self), False, False
        state.enter(self._ref)
        if state.is_listed:
            self._shared.holds[id(self)] = state

    def __repr__(self) -> str:
        state = "lost" if self.is_lost else "released" if self._has_left else "held"
        token = "" if self.token is None else f", token {self.token}"
        return f"<{_name_of(type(self))}: {self._state.spec.named}, {state}, owner {self.owner}{token}>"

    @property
    def is_lost(self) -> bool:
        """Whether it is known to be lost, without a request to the server."""
        return self._state.is_lost

    @property
    def holds(self) -> List[Any]:
        """Those of the members, if the lock is combined of several, in the order in which they were acquired; or itself."""
        return [self]

    def _watches(self, is_first: bool) -> Iterator[Tuple[Key, float, bool]]:
        """Of each key that is watched: (key, how long a command blocks, whether the hold is bound to the connection).
        `is_first`: it is that of the acquisition, and was not entered again."""
        spec, block = self._state.spec, min(self._shared.max_block, MAX_BLOCK)
        if spec.session:
            block = min(block, self._state.third)
        is_bound = spec.session and is_first
        for key in self.keys if self._on_lost or self._cancel_on_loss else self.keys[:1] if is_bound else ():
            yield key, block, is_bound and key == self.keys[0]

    def _leave(self) -> bool:
        """Whether this release is that of the lock, because no other hold of the acquisition is left."""
        if not self._has_left:
            self._has_left = True
            self._is_last = self._state.leave(self._ref)
            if not self._is_last:
                self._shared.holds.pop(id(self), None)
                if self.is_lost:
                    raise self._state.not_held()
                return False
        if not self._is_last:
            raise not_held(self._state.spec, "it was released before")
        return True

    def _give_back(self) -> None:
        """Releases it in the background."""
        try:
            if self._leave():
                self._shared.holds.pop(id(self), None)
                self._shared.forget(self._state)
        except NotHeld:
            pass

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
        if shared and state and not sys.is_finalizing() and (self._is_last or state.leave(self._ref)):
            shared.abandon(state, source=self)


def log_error(named: str, error: Optional[BaseException]) -> None:
    if error is not None and named and not isinstance(error, NotHeld):
        log.warning("%s", error if isinstance(error, LockError) else f"{named}: {error}")
