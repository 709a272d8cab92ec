"""Locks for asyncio, on redis.asyncio's Redis and RedisCluster, and on the client of a Sentinel's master_for()."""

import asyncio
import inspect
import logging
import time
import uuid

from .aioconnections import Connections, Link
from .errors import LockError, NotHeld
from .factory import Factory
from .steps import GIVE_UP_WITHIN, MAX_BLOCK, Attempt, Send, State, give_up

_log = logging.getLogger("lock_so")
_DEFAULT = object()


async def run(steps, link):
    """Executes the steps of a generator: sends commands and pauses. Returns what the generator returns."""
    try:
        step = next(steps)
        while True:
            try:
                if isinstance(step, Send):
                    result = await link.send(step.words, step.limit)
                else:
                    result = await asyncio.sleep(step.seconds)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as end:
        return end.value


async def _ask(attempt, link, answered):
    try:
        answer = await run(attempt.run(), link)
        if not answered.done():
            answered.set_result(answer)
    except BaseException as error:
        if not answered.done():
            answered.set_exception(error)


class Locks(Factory):
    """Locks on the server that a client connects to. `max_block`: how long one command blocks at most, in s."""

    def __init__(self, client, max_block=MAX_BLOCK):
        self.max_block, self.connections, self._tasks = max_block, Connections(client), set()

    def _make(self, spec, wait, on_lost):
        return Lock(self, spec, wait, on_lost)

    async def send(self, key, steps):
        link = Link(self.connections, key)
        try:
            return await run(steps, link)
        finally:
            await link.close()

    def in_background(self, work):
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task):
        self._tasks.discard(task)
        if not task.cancelled() and task.exception():
            _log.warning("%s", task.exception())

    async def close(self):
        """Closes idle connections. Locks that are held stay held, but are not renewed any more."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.connections.close()


class Lock:
    """A lock that can be acquired any number of times: `async with lock as hold:`, or acquire() and release()."""

    def __init__(self, locks, spec, wait, on_lost):
        self._locks, self.spec, self._wait, self._on_lost = locks, spec, wait, on_lost
        self._entered = {}

    async def acquire(self, wait=_DEFAULT):
        """Returns a Hold. `wait`: seconds; None has no limit, 0 only tries. Raises NotAcquired, Deadlock, NoReplicas,
        Refused, or redis-py's error if there was no connection when the wait timed out. If it is cancelled, it leaves
        nothing behind on the server."""
        wait = self._wait if wait is _DEFAULT else wait
        attempt = Attempt(self.spec, str(uuid.uuid4()), wait, self._locks.max_block)
        link = Link(self._locks.connections, self.spec.key)
        # A task of its own, because it must read the reply even if the caller is cancelled.
        answered = asyncio.get_running_loop().create_future()
        request = asyncio.ensure_future(_ask(attempt, link, answered))
        try:
            answer = await answered
        except BaseException as error:
            attempt.given_up = True
            if isinstance(error, LockError) and not attempt.was_cut:
                await link.close()
            else:
                giving = self._locks.in_background(self._give_up(attempt, request, link))
                await asyncio.wait({giving}, timeout=GIVE_UP_WITHIN)
            raise
        hold = Hold(self._locks, State(self.spec, attempt.owner, answer, attempt.sent), self._on_lost)
        await hold.begin(link)
        return hold

    async def _give_up(self, attempt, request, link):
        try:
            await self._locks.send(self.spec.key, give_up(attempt, request.done))
        finally:
            request.cancel()
            await asyncio.gather(request, return_exceptions=True)
            await link.close()

    async def __aenter__(self):
        hold = await self.acquire()
        self._entered.setdefault(asyncio.current_task(), []).append(hold)
        return hold

    async def __aexit__(self, _, error, __):
        holds = self._entered[asyncio.current_task()]
        hold = holds.pop()
        if not holds:
            del self._entered[asyncio.current_task()]
        try:
            await hold.release()
        except Exception as problem:
            if error is None:
                raise
            _log.warning("the release after %r: %s", error, problem)


class Hold:
    """A lock that is held, from one acquisition: `owner`, `keys`, `token` (or None), `is_lost`."""

    def __init__(self, locks, state, on_lost):
        self._locks, self._state, self._on_lost, self._timer = locks, state, on_lost, None
        self.owner, self.keys, self.token = state.owner, state.spec.keys, state.token

    async def begin(self, link):
        state, locks = self._state, self._locks
        for key in self.keys if self._on_lost else self.keys[:1] if state.spec.session else ():
            is_bound = state.spec.session and key == self.keys[0]
            block = state.third if state.spec.session else min(locks.max_block, MAX_BLOCK)
            locks.in_background(self._watch(key, block, link if is_bound else Link(locks.connections, key)))
        self._tend_later()
        if not state.spec.session:
            await link.close()

    @property
    def is_lost(self):
        """Whether it is known to be lost, without a request to the server."""
        return self._state.is_lost

    async def release(self):
        """Releases the lock. Raises NotHeld if it was lost before, or redis-py's error if there was no reply until the
        lease expired. The release continues even if the caller is cancelled."""
        self._timer.cancel()
        await asyncio.shield(self._locks.in_background(self._locks.send(self._state.spec.key, self._state.released())))

    def _tend_later(self):
        state = self._state
        if not state.has_ended():
            due = min(state.renew_at, state.until) if self._renews() else state.until
            left = max(0, due - time.monotonic())
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(left, lambda: self._locks.in_background(self._tend()))

    def _renews(self):
        return self._state.spec.renew and not self._state.spec.session

    async def _tend(self):
        state = self._state
        if not state.has_ended() and time.monotonic() >= state.until:
            self._lost()
        elif not state.has_ended() and self._renews() and time.monotonic() >= state.renew_at:
            try:
                await self._locks.send(state.spec.key, state.renewed())
            except NotHeld:
                self._lost()
            except Exception as error:
                _log.warning("%s could not be renewed: %s", state.spec.key, error)
        self._tend_later()

    async def _watch(self, key, block, link):
        try:
            if await run(self._state.watched(key, block), link):
                self._lost()
        finally:
            await link.close()

    def _lost(self):
        if self._state.lose() and self._on_lost:
            result = self._on_lost(self)
            if inspect.isawaitable(result):
                self._locks.in_background(result)
