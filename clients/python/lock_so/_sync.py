"""Locks for threads, on redis-py's Redis and RedisCluster, and on the client that a Sentinel's master_for() returns."""

import os
import threading
import time
import warnings
import weakref
from typing import Any, Callable, Dict, List, Optional, Set, Union

import redis

from ._connections import Connections, Link
from ._factory import Factory, OnLost
from ._keeper import Keeper
from ._spec import Key, Spec, check_positive, check_wait
from ._steps import CONNECT_TIMEOUT, GIVE_UP_WITHIN, MAX_BLOCK, Attempt, Connect, Send, State, Steps, give_up, log
from .errors import Cancelled, Closed, LockError, NotHeld

_DEFAULT: Any = object()
_RELEASERS = 8  # how many threads release what is held when the Locks are closed


def _run(steps: Steps, link: Link, pause: Callable[[float], Any] = time.sleep) -> Any:
    """Executes the steps of a generator: sends commands and pauses. Returns what the generator returns."""
    try:
        step = next(steps)
        while True:
            result = None
            try:
                if isinstance(step, Send):
                    result = link.send(step.words, step.limit)
                elif isinstance(step, Connect):
                    link.connect(step.limit)
                else:
                    link.rest()
                    pause(step.seconds)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as end:
        return end.value


def _start(work: Callable[..., Any], *args: Any) -> threading.Thread:
    thread = threading.Thread(target=_logged, args=(work, *args), name="lock-so", daemon=True)
    thread.start()
    return thread


def _logged(work: Callable[..., Any], *args: Any) -> None:
    try:
        work(*args)
    except Exception as error:
        log.warning("%s", error)


class _Parts:
    """What Locks have: their connections and threads. It does not refer to the Locks, so that these can be collected."""

    def __init__(self, client: Any):
        self._client = client
        self.begin()
        _all.add(self)

    def begin(self) -> None:
        """Starts without connections and threads; also in the child after a fork, where these are the parent's."""
        self.connections, self.clock, self.renewer = Connections(self._client), Keeper(), Keeper()
        self.waits: Set[_Acquisition] = set()
        self.holds: Dict[int, weakref.ref[Hold]] = {}
        self.watches: Set[Link] = set()
        self.is_closed = False

    def send(self, key: Key, steps: Steps) -> Any:
        link = Link(self.connections, key, is_short=True)
        try:
            return _run(steps, link)
        finally:
            link.close()

    def end(self) -> None:
        self.is_closed = True
        self.clock.close()
        self.renewer.close()
        self.connections.close()
        for link in list(self.watches):
            link.drop()


_all: "weakref.WeakSet[_Parts]" = weakref.WeakSet()


def _begin_all() -> None:
    for parts in list(_all):
        parts.begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all)


class Locks(Factory["Lock", "Hold"]):
    """Locks on the server that a client connects to. `max_block`: how long one command blocks at most;
    `connect_timeout`: how long a wait tries to connect if it was never connected. Both in s."""

    def __init__(self, client: Union["redis.Redis", "redis.RedisCluster"], max_block: float = MAX_BLOCK,
                 connect_timeout: float = CONNECT_TIMEOUT) -> None:  # fmt: skip
        if not isinstance(client, (redis.Redis, redis.RedisCluster)):
            raise TypeError(f"the client must be a redis.Redis or redis.RedisCluster, not {type(client)!r}; "
                            "lock_so.aio is for those of redis.asyncio")  # fmt: skip
        check_positive("max_block", max_block)
        check_positive("connect_timeout", connect_timeout)
        self._max_block, self._connect_timeout = max_block, connect_timeout
        self._parts = _Parts(client)
        weakref.finalize(self, self._parts.end).atexit = False

    def _make(self, spec: Spec, wait: Optional[float], on_lost: OnLost["Hold"], cancel_on_loss: bool) -> "Lock":
        if cancel_on_loss:
            raise ValueError("cancel_on_loss: only a task of asyncio can be cancelled")
        return Lock(self, spec, wait, on_lost)

    def close(self, timeout: float = 5.0) -> None:
        """Ends all waits with Closed, releases all locks that are held, and closes connections and threads, within
        `timeout` s. What is not released by then is not renewed any more."""
        parts, until = self._parts, time.monotonic() + timeout
        if parts.is_closed:
            return
        parts.is_closed = True
        for wait in list(parts.waits):
            wait.cancel()
        holds = [hold for hold in [found() for found in list(parts.holds.values())] if hold is not None]
        threads = [_start(_release_all, holds) for _ in range(min(_RELEASERS, len(holds)))]
        threads += [wait.helper for wait in list(parts.waits) if wait.helper]
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        parts.end()

    def __enter__(self) -> "Locks":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _release_all(holds: List["Hold"]) -> None:
    while holds:
        try:
            holds.pop().release()
        except (NotHeld, IndexError):
            pass
        except Exception as error:
            log.warning("%s", error)


class Cancellation:
    """Ends waits from another thread: those of acquire() with this object as `cancel`."""

    def __init__(self) -> None:
        self._is_set, self._lock = False, threading.Lock()
        self._calls: Set[Callable[[], None]] = set()

    def cancel(self) -> None:
        with self._lock:
            self._is_set, calls = True, list(self._calls)
        for call in calls:
            call()

    def _add(self, call: Callable[[], None]) -> None:
        with self._lock:
            self._calls.add(call)
            is_set = self._is_set
        if is_set:
            call()

    def _remove(self, call: Callable[[], None]) -> None:
        with self._lock:
            self._calls.discard(call)


class _Acquisition:
    """An attempt that may be cancelled by another thread."""

    def __init__(self, locks: Locks, spec: Spec, wait: Optional[float]):
        self._parts = parts = locks._parts
        self.attempt = Attempt(spec, wait, parts.connections, locks._max_block, locks._connect_timeout)
        self.link, self._over, self._lock = Link(parts.connections, spec.key), threading.Event(), threading.Lock()
        self._is_done = False
        self.helper: Optional[threading.Thread] = None
        self._stopped = threading.Event()

    def run(self) -> Any:
        """Returns the reply. Without one, nothing is left on the server, or will be soon."""
        self._parts.waits.add(self)
        try:
            if self._parts.is_closed:
                raise Closed()
            return self._answer()
        finally:
            self._parts.waits.discard(self)

    def _answer(self) -> Any:
        try:
            answer = _run(self.attempt.run(), self.link, self._stopped.wait)
            with self._lock:
                self._is_done = not self.attempt.given_up
            if self._is_done:
                return answer
        except BaseException as error:
            with self._lock:
                self._is_done = not self.attempt.given_up
            if not isinstance(error, LockError):
                self.link.drop()
                self.attempt.was_cut = self.attempt.was_cut or not isinstance(error, Exception)
            if self._is_done and self.attempt.was_cut:
                self._give_up()
                if self.helper and not isinstance(error, Exception):
                    self.helper.join(GIVE_UP_WITHIN)
            if self._is_done:
                self._over.set()
                self.link.close()
                raise
        self._over.set()
        self.link.close()
        if self.helper:
            self.helper.join(GIVE_UP_WITHIN)
        raise Closed() if self._parts.is_closed else Cancelled(f"{self.attempt.spec.named}: the wait was cancelled")

    def cancel(self) -> None:
        with self._lock:
            if self._is_done or self.attempt.given_up:
                return
            self.attempt.given_up = True
            self._stopped.set()
            self._give_up()
        _start(self._drop_later)

    def _drop_later(self) -> None:
        """If the server does not respond, the waiting thread is released after some time."""
        if not self._over.wait(GIVE_UP_WITHIN):
            self.link.drop()

    def _give_up(self) -> None:
        self.helper = _start(self._parts.send, self.attempt.spec.key, give_up(self.attempt, self._over.is_set))


class Lock:
    """A lock that can be acquired any number of times: `with lock as hold:`, or acquire() and release()."""

    def __init__(self, locks: Locks, spec: Spec, wait: Optional[float], on_lost: OnLost["Hold"]):
        self._locks, self._spec, self._wait, self._on_lost = locks, spec, wait, on_lost
        self._entered = threading.local()

    def acquire(self, wait: Optional[float] = _DEFAULT, cancel: Optional[Cancellation] = None) -> "Hold":
        """Returns a Hold. `wait`: seconds; None has no limit, 0 only tries. `cancel`: a Cancellation. Raises
        NotAcquired, Cancelled, Closed, Deadlock, NoReplicas, Refused, or redis-py's error if no connection was ever
        possible, or if a try could not ask the server."""
        wait = self._wait if wait is _DEFAULT else wait
        check_wait(wait)
        acquisition = _Acquisition(self._locks, self._spec, wait)
        if cancel:
            cancel._add(acquisition.cancel)
        try:
            answer = acquisition.run()
        finally:
            if cancel:
                cancel._remove(acquisition.cancel)
        attempt = acquisition.attempt
        state = State(self._spec, attempt.owner, answer, attempt.sent)
        return Hold(self._locks, state, acquisition.link, self._on_lost)

    def __enter__(self) -> "Hold":
        hold = self.acquire()
        self._holds().append(hold)
        return hold

    def __exit__(self, _: Any, error: Optional[BaseException], __: Any) -> None:
        hold = self._holds().pop()
        if hold._is_inherited():
            return
        try:
            hold.release()
        except Exception as problem:
            if error is None:
                raise
            log.warning("the release after %r: %s", error, problem)

    def _holds(self) -> List["Hold"]:
        holds: List[Hold] = self._entered.__dict__.setdefault("holds", [])
        return holds


class Hold:
    """A lock that is held, from one acquisition: `owner`, `keys`, `token` (or None), `is_lost`."""

    def __init__(self, locks: Locks, state: State, link: Link, on_lost: OnLost["Hold"]):
        self._locks, self._state, self._on_lost, self._pid = locks, state, on_lost, os.getpid()
        self.owner, self.keys, self.token = state.owner, state.spec.keys, state.token
        parts, ref = locks._parts, weakref.ref(self)
        parts.holds[id(self)] = ref
        for key in self.keys if on_lost else self.keys[:1] if state.spec.session else ():
            is_bound = state.spec.session and key == self.keys[0]
            block = state.third if state.spec.session else min(locks._max_block, MAX_BLOCK)
            _start(_watch, parts, state, key, block, link if is_bound else Link(parts.connections, key), ref)
        if not state.spec.session:
            link.close()
        self._tending = _Tending(parts, state, ref)

    @property
    def is_lost(self) -> bool:
        """Whether it is known to be lost, without a request to the server."""
        return self._state.is_lost

    def release(self) -> None:
        """Releases the lock. Raises NotHeld if it was lost or released before, or redis-py's error if there was no reply in
        the lease."""
        if self._is_inherited():
            raise NotHeld(self._state.spec, "it belongs to the parent process")
        parts = self._locks._parts
        parts.holds.pop(id(self), None)
        self._tending.forget()
        parts.send(self._state.spec.key, self._state.released())

    def _is_inherited(self) -> bool:
        return self._pid != os.getpid()

    def _lost(self) -> None:
        if self._state.lose() and self._on_lost:
            _start(self._report, self._on_lost)

    def _report(self, on_lost: Callable[["Hold"], Any]) -> None:
        try:
            on_lost(self)
        except Exception:
            log.exception("%s: error in the callback for its loss", self._state.spec.named)

    def __del__(self) -> None:
        state = getattr(self, "_state", None)
        if state is None or state.is_released or self._is_inherited():
            return
        parts = self._locks._parts
        parts.holds.pop(id(self), None)
        self._tending.forget()
        if not state.is_lost and not parts.is_closed:
            warnings.warn(f"{state.spec.named} was never released; it is released now", ResourceWarning, source=self)
            _start(parts.send, state.spec.key, state.released())


class _Tending:
    """Renews a hold, and notices when its lease expires. It does not keep the hold from being collected."""

    def __init__(self, parts: _Parts, state: State, hold: "weakref.ref[Hold]"):
        self._parts, self._state, self._hold = parts, state, hold
        parts.clock.add(self._check, state.until)
        if state.is_renewed:
            parts.renewer.add(self._renew, state.renew_at)

    def forget(self) -> None:
        self._parts.clock.forget(self._check)
        if self._state.is_renewed:
            self._parts.renewer.forget(self._renew)

    def _check(self) -> Optional[float]:
        if self._state.has_ended():
            return None
        if time.monotonic() < self._state.until:
            return self._state.until
        _lost(self._hold)
        return None

    def _renew(self) -> Optional[float]:
        state = self._state
        if state.has_ended() or time.monotonic() >= state.until:
            return None
        try:
            self._parts.send(state.spec.key, state.renewed())
        except NotHeld:
            _lost(self._hold)
            return None
        except Exception as error:
            log.warning("%s could not be renewed: %s", state.spec.named, error)
        return state.renew_at


def _watch(parts: _Parts, state: State, key: Key, block: float, link: Link, hold: "weakref.ref[Hold]") -> None:
    parts.watches.add(link)
    try:
        if _run(state.watched(key, block), link):
            _lost(hold)
    finally:
        parts.watches.discard(link)
        link.close()


def _lost(found: "weakref.ref[Hold]") -> None:
    hold = found()
    if hold is not None:
        hold._lost()
