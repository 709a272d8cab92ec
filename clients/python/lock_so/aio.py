"""Locks for asyncio, on redis.asyncio's Redis and RedisCluster, and on the client of a Sentinel's master_for()."""

import asyncio
import inspect
import os
import time
import warnings
import weakref
from typing import Any, Awaitable, Dict, List, Optional, Set, Union

import redis.asyncio

from ._aioconnections import Connections, Link
from ._factory import Factory, OnLost
from ._spec import Key, Spec, check_positive, check_wait
from ._steps import CONNECT_TIMEOUT, GIVE_UP_WITHIN, MAX_BLOCK, Attempt, Connect, Send, State, Steps, give_up, log
from .errors import Closed, NotHeld

__all__ = ["Hold", "Lock", "Locks"]

_DEFAULT: Any = object()


async def _run(steps: Steps, link: Link) -> Any:
    """Executes the steps of a generator: sends commands and pauses. Returns what the generator returns."""
    try:
        step = next(steps)
        while True:
            result = None
            try:
                if isinstance(step, Send):
                    result = await link.send(step.words, step.limit)
                elif isinstance(step, Connect):
                    await link.connect(step.limit)
                else:
                    await link.rest()
                    await asyncio.sleep(step.seconds)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as end:
        return end.value


async def _ask(attempt: Attempt, link: Link, answered: "asyncio.Future[Any]") -> None:
    try:
        answer = await _run(attempt.run(), link)
        if not answered.done():
            answered.set_result(answer)
    except BaseException as error:
        if not answered.done():
            answered.set_exception(error)


class _Parts:
    """What Locks have: their connections and tasks. It does not refer to the Locks, so that these can be collected."""

    def __init__(self, client: Any):
        self.connections = Connections(client)
        self.tasks: Set[asyncio.Future[Any]] = set()
        self.waits: Set[asyncio.Future[Any]] = set()
        self.giving_up: Set[asyncio.Future[Any]] = set()
        self.holds: Dict[int, weakref.ref[Hold]] = {}
        self.loop: Optional[asyncio.AbstractEventLoop] = None
        self.is_closed = False

    async def send(self, key: Key, steps: Steps) -> Any:
        link = Link(self.connections, key, is_short=True)
        try:
            return await _run(steps, link)
        finally:
            await link.close()

    def in_background(self, work: Awaitable[Any]) -> "asyncio.Future[Any]":
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Future[Any]") -> None:
        self.tasks.discard(task)
        if not task.cancelled() and task.exception():
            log.warning("%s", task.exception())

    def from_anywhere(self, work: Any, *args: Any) -> None:
        """Does it in the background of the loop, also from a finalizer; not if the loop has ended."""
        if self.loop and self.loop.is_running():
            self.loop.call_soon_threadsafe(lambda: self.in_background(work(*args)))

    async def end(self) -> None:
        self.is_closed = True
        current = asyncio.current_task()
        tasks = [task for task in self.tasks if task is not current]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.connections.close()


def _collected(parts: _Parts) -> None:
    parts.from_anywhere(parts.end)


class Locks(Factory["Lock", "Hold"]):
    """Locks on the server that a client connects to. `max_block`: how long one command blocks at most;
    `connect_timeout`: how long a wait tries to connect if it was never connected. Both in s."""

    def __init__(self, client: Union["redis.asyncio.Redis", "redis.asyncio.RedisCluster"], max_block: float = MAX_BLOCK,
                 connect_timeout: float = CONNECT_TIMEOUT) -> None:  # fmt: skip
        if not isinstance(client, (redis.asyncio.Redis, redis.asyncio.RedisCluster)):
            raise TypeError(f"the client must be a redis.asyncio.Redis or RedisCluster, not {type(client)!r}; "
                            "lock_so.Locks is for those without asyncio")  # fmt: skip
        check_positive("max_block", max_block)
        check_positive("connect_timeout", connect_timeout)
        self._max_block, self._connect_timeout, self._parts = max_block, connect_timeout, _Parts(client)
        weakref.finalize(self, _collected, self._parts).atexit = False

    def _make(self, spec: Spec, wait: Optional[float], on_lost: OnLost["Hold"], cancel_on_loss: bool) -> "Lock":
        return Lock(self, spec, wait, on_lost, cancel_on_loss)

    async def close(self, timeout: float = 5.0) -> None:
        """Ends all waits with Closed, releases all locks that are held, and closes connections and tasks, within
        `timeout` s. What is not released by then is not renewed any more."""
        parts = self._parts
        if parts.is_closed:
            return
        parts.is_closed = True
        for wait in list(parts.waits):
            if not wait.done():
                wait.set_exception(Closed())
        holds = [hold for hold in [found() for found in parts.holds.values()] if hold is not None]
        await asyncio.sleep(0)  # the waits begin to give up
        ends = [*parts.giving_up, *(parts.in_background(_release(hold)) for hold in holds)]
        if ends:
            await asyncio.wait(ends, timeout=timeout)
        await parts.end()

    async def __aenter__(self) -> "Locks":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()


async def _release(hold: "Hold") -> None:
    try:
        await hold.release()
    except NotHeld:
        pass


class Lock:
    """A lock that can be acquired any number of times: `async with lock as hold:`, or acquire() and release()."""

    def __init__(self, locks: Locks, spec: Spec, wait: Optional[float], on_lost: OnLost["Hold"], cancel_on_loss: bool):
        self._locks, self._spec, self._wait, self._on_lost = locks, spec, wait, on_lost
        self._cancel_on_loss = cancel_on_loss
        self._entered: Dict[Any, List[Hold]] = {}

    async def acquire(self, wait: Optional[float] = _DEFAULT) -> "Hold":
        """Returns a Hold. `wait`: seconds; None has no limit, 0 only tries. Raises NotAcquired, Closed, Deadlock,
        NoReplicas, Refused, or redis-py's error if no connection was ever possible, or if a try could not ask the
        server. If it is cancelled, it leaves nothing behind on the server."""
        wait, parts = self._wait if wait is _DEFAULT else wait, self._locks._parts
        check_wait(wait)
        if parts.is_closed:
            raise Closed()
        loop = parts.loop = asyncio.get_running_loop()
        attempt = Attempt(self._spec, wait, parts.connections, self._locks._max_block, self._locks._connect_timeout)
        link = Link(parts.connections, self._spec.key)
        # A task of its own, because it must read the reply even if the caller is cancelled.
        answered = loop.create_future()
        request = asyncio.ensure_future(_ask(attempt, link, answered))
        parts.waits.add(answered)
        try:
            answer = await answered
        except BaseException as error:
            attempt.given_up = True
            if request.done() and isinstance(error, Exception) and not attempt.was_cut:
                await link.close()
            else:
                giving = parts.in_background(_give_up(parts, attempt, request, link))
                parts.giving_up.add(giving)
                giving.add_done_callback(parts.giving_up.discard)
                if not isinstance(error, Exception):
                    await asyncio.wait({giving}, timeout=GIVE_UP_WITHIN)
            raise
        finally:
            parts.waits.discard(answered)
        hold = Hold(self._locks, State(self._spec, attempt.owner, answer, attempt.sent), self._on_lost)
        await hold._begin(link, self._on_lost is not None or self._cancel_on_loss)
        return hold

    async def __aenter__(self) -> "Hold":
        hold, task = await self.acquire(), asyncio.current_task()
        if self._cancel_on_loss:
            if hold.is_lost:
                await hold.release()
            hold._body = task
        self._entered.setdefault(task, []).append(hold)
        return hold

    async def __aexit__(self, _: Any, error: Optional[BaseException], __: Any) -> None:
        task: Any = asyncio.current_task()
        holds = self._entered[task]
        hold = holds.pop()
        if not holds:
            del self._entered[task]
        if hold._is_inherited():
            return
        hold._body = None
        if hold._has_cancelled:
            # From Python 3.11 on it is known whether another cancellation was requested, too.
            others = task.uncancel() > hold._cancelling if hasattr(task, "uncancel") else False
            error = None if isinstance(error, asyncio.CancelledError) and not others else error
        try:
            await hold.release()
        except Exception as problem:
            if error is None:
                raise hold._state.not_held() if hold._has_cancelled else problem
            log.warning("the release after %r: %s", error, problem)


async def _give_up(parts: _Parts, attempt: Attempt, request: "asyncio.Future[Any]", link: Link) -> None:
    try:
        await parts.send(attempt.spec.key, give_up(attempt, request.done))
    finally:
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        await link.close()


class Hold:
    """A lock that is held, from one acquisition: `owner`, `keys`, `token` (or None), `is_lost`."""

    def __init__(self, locks: Locks, state: State, on_lost: OnLost["Hold"]):
        self._locks, self._state, self._on_lost, self._pid = locks, state, on_lost, os.getpid()
        self.owner, self.keys, self.token = state.owner, state.spec.keys, state.token
        self._body: Optional[asyncio.Task[Any]] = None  # the task that a loss cancels
        self._has_cancelled, self._cancelling = False, 0
        locks._parts.holds[id(self)] = weakref.ref(self)

    async def _begin(self, link: Link, is_watched: bool) -> None:
        state, locks, parts, ref = self._state, self._locks, self._locks._parts, weakref.ref(self)
        for key in self.keys if is_watched else self.keys[:1] if state.spec.session else ():
            is_bound = state.spec.session and key == self.keys[0]
            block = state.third if state.spec.session else min(locks._max_block, MAX_BLOCK)
            own = link if is_bound else Link(parts.connections, key)
            parts.in_background(_watch(state, key, block, own, ref))
        self._tending = _Tending(parts, state, ref)
        if not state.spec.session:
            await link.close()

    @property
    def is_lost(self) -> bool:
        """Whether it is known to be lost, without a request to the server."""
        return self._state.is_lost

    async def release(self) -> None:
        """Releases the lock. Raises NotHeld if it was lost or released before, or redis-py's error if there was no reply
        until the lease expired. The release continues even if the caller is cancelled."""
        if self._is_inherited():
            raise NotHeld(self._state.spec, "it belongs to the parent process")
        parts = self._locks._parts
        parts.holds.pop(id(self), None)
        self._tending.end()
        await asyncio.shield(parts.in_background(parts.send(self._state.spec.key, self._state.released())))

    def _is_inherited(self) -> bool:
        return self._pid != os.getpid()

    def _lost(self) -> None:
        if not self._state.lose():
            return
        if self._body:
            self._cancelling = self._body.cancelling() if hasattr(self._body, "cancelling") else 0
            self._has_cancelled = True
            self._body.cancel()
        if self._on_lost:
            self._locks._parts.in_background(self._report(self._on_lost))

    async def _report(self, on_lost: Any) -> None:
        try:
            result = on_lost(self)
            if inspect.isawaitable(result):
                await result
        except Exception:
            log.exception("%s: error in the callback for its loss", self._state.spec.named)

    def __del__(self) -> None:
        state = getattr(self, "_state", None)
        if state is None or state.is_released or self._is_inherited():
            return
        parts = self._locks._parts
        parts.holds.pop(id(self), None)
        if not state.is_lost and not parts.is_closed:
            warnings.warn(f"{state.spec.named} was never released; it is released now", ResourceWarning, source=self)
            parts.from_anywhere(parts.send, state.spec.key, state.released())


class _Tending:
    """Renews a hold, and notices when its lease expires. It does not keep the hold from being collected."""

    def __init__(self, parts: _Parts, state: State, hold: "weakref.ref[Hold]"):
        self._parts, self._state, self._hold = parts, state, hold
        self._timer: Optional[asyncio.TimerHandle] = None
        self._later()

    def end(self) -> None:
        if self._timer:
            self._timer.cancel()

    def _later(self) -> None:
        state = self._state
        if not state.has_ended() and self._hold() is not None:
            due = min(state.renew_at, state.until) if state.is_renewed else state.until
            left = max(0, due - time.monotonic())
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(left, lambda: self._parts.in_background(self._tend()))

    async def _tend(self) -> None:
        state = self._state
        if not state.has_ended() and time.monotonic() >= state.until:
            _lost(self._hold)
        elif not state.has_ended() and state.is_renewed and time.monotonic() >= state.renew_at:
            try:
                await self._parts.send(state.spec.key, state.renewed())
            except NotHeld:
                _lost(self._hold)
            except Exception as error:
                log.warning("%s could not be renewed: %s", state.spec.named, error)
        self._later()


async def _watch(state: State, key: Key, block: float, link: Link, hold: "weakref.ref[Hold]") -> None:
    try:
        if await _run(state.watched(key, block), link):
            _lost(hold)
    finally:
        await link.close()


def _lost(found: "weakref.ref[Hold]") -> None:
    hold = found()
    if hold is not None:
        hold._lost()
