"""Locks for asyncio, on redis.asyncio's Redis and RedisCluster, and on the client of a Sentinel's master_for()."""

import asyncio
import inspect
import sys
import time
import weakref
from typing import Any, Awaitable, Callable, Dict, List, NoReturn, Optional, Sequence, Set, Union

import redis.asyncio
import redis.exceptions as library
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from ._base import DEFAULT, BaseHold, BaseLock, BaseLocks, Shared, log_error
from ._combine import BaseCombined, BaseCombinedHold, Combination, combined_spec, ordered
from ._delay import BaseQueue, Job, Pending, Value
from ._info import LockInfo
from ._latch import BaseLatch
from ._pool import Await, Check, Exchange, Link, Open, Operations, Pool
from ._redlock import BaseMajorityHold, BaseMajorityLock, BaseRedLock, Servers, servers_of
from ._spec import Key, OnLost, Spec, Use, Words, check_positive
from ._steps import CONNECT_TIMEOUT, GIVE_UP_WITHIN, MAX_BLOCK, AnyOf, Do, State, Steps, log
from .errors import closed

if sys.version_info >= (3, 11, 3):
    from asyncio import timeout
else:
    from async_timeout import timeout  # type: ignore[import-not-found, no-redef, unused-ignore] # redis-py needs it, too

__all__ = ["CombinedHold", "CombinedLock", "DelayedQueue", "Hold", "Latch", "Lock", "Locks", "MajorityHold", "MajorityLock",
           "RedLock", "combine"]  # fmt: skip

_callbacks: "Set[asyncio.Future[Any]]" = set()  # asyncio itself does not keep tasks


class _Pool(Pool):
    retry = Retry(NoBackoff(), 0)

    def __init__(self, *words: Any):
        super().__init__(*words)
        self._opening: Set[asyncio.Future[Any]] = set()

    def event(self) -> Any:
        return asyncio.get_running_loop().create_future()

    def notify(self, event: Any) -> None:
        if not event.done():
            event.set_result(None)

    def disconnect(self, connection: Any) -> None:
        writer, connection._writer, connection._reader = connection._writer, None, None
        if writer is not None:
            try:
                writer.close()
            except RuntimeError:
                pass  # the loop has ended

    async def leave(self, connection: Any, words: Words) -> None:
        try:
            await connection.send_command(*words)
        except (library.RedisError, OSError):
            pass
        finally:
            self.disconnect(connection)

    async def open(self, step: Open) -> Any:
        limit, server = max(0.0, step.until - time.monotonic()), self.server(step.place)
        opening = asyncio.ensure_future(self._open(self.new(step.place)))
        self._opening.add(opening)
        if step.is_short:
            server.opening.add(opening)

        def ended(_: Any) -> None:
            self._opening.discard(opening)
            server.opening.discard(opening)
            self.wake(server)

        opening.add_done_callback(ended)
        try:
            done, _ = await asyncio.wait({opening}, timeout=limit)
        except asyncio.CancelledError:
            opening.add_done_callback(lambda late: self._opened_late(late, server))
            raise
        if done:
            return opening.result()
        opening.add_done_callback(lambda late: self._opened_late(late, server))
        raise library.TimeoutError(f"no connection within {limit:.3g} s")

    async def _open(self, connection: Any) -> Any:
        # The time limits are enforced here. redis-py's own would be taken for a null reply.
        connection.socket_timeout = connection.socket_connect_timeout = None
        try:
            async with timeout(self.timeout):
                await self._connect(connection)
        except asyncio.TimeoutError:
            self.disconnect(connection)
            raise library.TimeoutError(f"no connection within {self.timeout:g} s") from None
        except BaseException:
            self.disconnect(connection)
            raise
        return self.opened(connection)

    async def _connect(self, connection: Any) -> None:
        error: Optional[Exception] = None
        for manager, sentinel, name in self.lookups():
            try:
                self.master = await manager.discover_master(name)
                await connection.connect_to(self.master)
                return
            except (library.RedisError, OSError) as problem:
                error = problem
            finally:
                await sentinel.disconnect()
        if error:
            raise error
        await connection.connect()

    def _opened_late(self, opening: "asyncio.Future[Any]", server: Any) -> None:
        if not opening.cancelled() and opening.exception() is None:
            self.give(opening.result(), server)
            self.wake(server)

    def close(self) -> None:
        super().close()
        for opening in list(self._opening):
            opening.cancel()


async def _exchange(step: Exchange) -> Any:
    # wait_for() creates a task, which runs later than the reply could be read.
    limit = max(0.0, step.until - time.monotonic())
    try:
        async with timeout(limit):
            await step.connection.send_command(*step.words)
            return await step.connection.read_response(disconnect_on_error=False)  # its Link disconnects
    except asyncio.TimeoutError:
        raise library.TimeoutError(f"no reply to {step.words[0]} within {limit:.3g} s") from None


async def _is_usable(connection: Any) -> bool:
    # The method's name from redis-py 8 on, and its name before.
    has_news = getattr(connection, "can_read", None) or connection.can_read_destructive
    try:
        return connection.is_connected and not await has_news()
    except (library.RedisError, OSError):
        return False


async def _run(pool: _Pool, operations: Operations) -> Any:
    """Executes operations. Returns what they return."""
    result: Any = None
    error: Optional[BaseException] = None
    while True:
        try:
            step = operations.throw(error) if error else operations.send(result)
        except StopIteration as end:
            return end.value
        result = error = None
        try:
            if isinstance(step, Exchange):
                result = await _exchange(step)
            elif isinstance(step, Check):
                result = await _is_usable(step.connection)
            elif isinstance(step, Open):
                result = await pool.open(step)
            elif isinstance(step, Do):
                result = await step.call()
            elif isinstance(step, AnyOf):
                limit = max(0.0, step.until - time.monotonic())
                result = (await asyncio.wait(step.jobs, timeout=limit, return_when=asyncio.FIRST_COMPLETED))[0]
            elif isinstance(step, Await):
                result = bool((await asyncio.wait({step.event}, timeout=max(0.0, step.until - time.monotonic())))[0])
            else:
                await asyncio.sleep(step.seconds)
        except BaseException as problem:
            error = problem


class _Shared(Shared):
    pool: _Pool
    pool_class = _Pool

    def begin(self) -> None:
        super().begin()
        self.tasks: Set[asyncio.Future[Any]] = set()
        self.cleanups: Set[asyncio.Future[Any]] = set()  # releases, and what is given up
        self.waits: Dict[asyncio.Future[Any], Spec] = {}
        self.loop: Optional[asyncio.AbstractEventLoop] = None
        self._own: "weakref.WeakKeyDictionary[Any, Dict[Any, State]]" = weakref.WeakKeyDictionary()

    def attach(self) -> None:
        """To the running loop. It begins again if the one before has ended."""
        loop = asyncio.get_running_loop()
        if loop is not self.loop:
            if self.loop and not self.loop.is_closed():
                raise RuntimeError("these Locks are used in another event loop")
            if self.loop:
                self.begin()
                self._inherited.clear()
            self.loop = loop

    def own(self) -> Dict[Any, State]:
        # Not by a context variable, which the tasks that this one starts would inherit.
        return self._own.setdefault(asyncio.current_task(), {})

    async def send(self, key: Optional[Key], steps: Steps) -> Any:
        with Link(self.pool, key, is_short=True) as link:
            return await _run(self.pool, link.run(steps))

    def start(self, key: Optional[Key], steps: Steps, named: str = "", group: str = "",
              frees: bool = False) -> "asyncio.Future[Any]":  # fmt: skip
        """Executes steps in the background; tasks need no groups. If they have a name, their error is logged. close() waits for
        those, and for what frees something."""
        self.attach()
        return self.track(self.send(key, steps), self.cleanups if named or frees else self.tasks, named)

    def track(self, work: Awaitable[Any], tasks: "Set[asyncio.Future[Any]]", named: str = "") -> "asyncio.Future[Any]":
        """Does it in the background. If it has a name, its error is logged."""
        task = asyncio.ensure_future(work)
        tasks.add(task)

        def done(_: Any) -> None:
            tasks.discard(task)
            if not task.cancelled():
                log_error(named, task.exception())

        task.add_done_callback(done)
        return task

    def from_anywhere(self, work: Any, *args: Any) -> None:
        """Calls it in the loop, also from a finalizer; not if the loop has ended."""
        if self.loop and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(work, *args)

    def release(self, state: State, named: str) -> "asyncio.Future[Any]":
        self.attach()
        return self.track(self.send(state.spec.key, state.released()), self.cleanups, named)

    def forget(self, state: State) -> None:
        self.from_anywhere(self.release, state, state.spec.named)

    def end(self) -> None:
        self.is_closed = True
        self.from_anywhere(lambda: self.track(self.ended(5.0), _callbacks))

    async def ask(self, spec: Spec, steps: Steps) -> Any:
        self.attach()
        return await super().ask(spec, steps)

    async def wait(self, spec: Spec, steps: Steps, is_settling: Callable[[], bool] = lambda: False) -> Any:
        """Executes steps in a task of their own, until this one is cancelled or the Locks are closed; later, if they must not
        be interrupted then."""
        self.attach()
        if self.is_closed:
            raise closed(spec)
        link, ended = Link(self.pool, spec.key), asyncio.get_running_loop().create_future()

        async def work() -> Any:
            with link:
                return await _run(self.pool, link.run(steps))

        task = self.track(work(), self.cleanups)
        self.waits[ended] = spec
        try:
            await asyncio.wait({task, ended}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else ended.result()
        finally:
            self.waits.pop(ended)
            ended.cancel()
            if not task.done():
                link.is_stopped = True
                if not is_settling():
                    task.cancel()
                await asyncio.wait({task}, timeout=GIVE_UP_WITHIN)

    async def close(self, limit: float) -> None:
        if limit != 0:
            check_positive("timeout", limit)
        if not self.is_closed:
            self.attach()
            self.is_closed = True
            await self.ended(limit)

    async def ended(self, limit: float) -> None:
        until = time.monotonic() + limit
        for wait, spec in list(self.waits.items()):
            if not wait.done():
                wait.set_exception(closed(spec))
        await asyncio.sleep(0)  # the waits begin to give up
        for state in self.held():
            self.release(state, state.spec.named)
        if self.cleanups:
            await asyncio.wait(self.cleanups, timeout=limit)
        current = asyncio.current_task()
        tasks = [task for task in [*self.tasks, *self.cleanups] if task is not current]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=max(0.05, until - time.monotonic()))
        self.pool.close()


class Locks(BaseLocks["Lock", "Hold", bool]):
    _can_cancel = True

    def __init__(self, client: Union["redis.asyncio.Redis", "redis.asyncio.RedisCluster"], *, max_block: float = MAX_BLOCK,
                 connect_timeout: float = CONNECT_TIMEOUT) -> None:  # fmt: skip
        if not isinstance(client, (redis.asyncio.Redis, redis.asyncio.RedisCluster)):
            raise TypeError(f"the client must be a redis.asyncio.Redis or RedisCluster, not {type(client)!r}; "
                            "lock_so.Locks is for those without asyncio")  # fmt: skip
        found: Any = client
        if isinstance(client, redis.asyncio.RedisCluster):
            found = next(iter(client.nodes_manager.startup_nodes.values()))
        else:
            found = client.connection_pool
        self._lock_class, self._combined_class = Lock, CombinedLock
        self._shared = _Shared(client, (found.connection_class, found.connection_kwargs), max_block, connect_timeout)
        weakref.finalize(self, self._shared.collected).atexit = False

    def latch(self, key: Key) -> "Latch":
        """A latch, for which any number of clients wait until it has been counted down."""
        return Latch(self, key)

    def delayed_queue(self, list: Key) -> "DelayedQueue":
        """The delayed queue of this list."""
        return DelayedQueue(self, list)

    async def close(self, *, timeout: float = 5.0) -> None:
        """Ends all waits with Closed, releases all locks that are held, and closes connections and tasks, within
        `timeout` s. What is not released by then is not renewed any more."""
        await self._shared.close(timeout)

    async def __aenter__(self) -> "Locks":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()


async def _request(shared: _Shared, attempt: Any, link: Link, answered: "asyncio.Future[Any]") -> None:
    try:
        answer = await _run(shared.pool, link.run(attempt.run()))
        if not answered.done():
            answered.set_result(answer)
    except BaseException as error:
        if not answered.done():
            answered.set_exception(error)


async def _give_up(shared: _Shared, attempt: Any, request: "asyncio.Future[Any]", link: Link) -> None:
    try:
        await shared.send(attempt.spec.key, attempt.give_up(request.done))
    finally:
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        link.close()


class Lock(BaseLock["Hold"]):
    """A lock that can be acquired any number of times: `async with lock as hold:`, or acquire() and release()."""

    _shared: _Shared

    async def acquire(self, *, wait: Optional[float] = DEFAULT) -> "Hold":
        """Returns a Hold. `wait`: seconds; None has no limit, 0 only tries. Raises NotAcquired, Closed, Deadlock,
        NoReplicas, Refused, or redis-py's error if no connection was ever possible, or if a try had no reply. If it is
        cancelled, it leaves nothing behind on the server."""
        self._shared.attach()
        return await self._acquire(self._begun(wait))

    async def _acquire(self, attempt: Any) -> "Hold":
        shared = self._shared
        shared.attach()
        link, again = Link(shared.pool, self._spec.key), self._again(attempt)
        if again:
            again._begin()
            return again
        # A task of its own, because it must read the reply even if the caller is cancelled.
        answered = asyncio.get_running_loop().create_future()
        request = asyncio.ensure_future(_request(shared, attempt, link, answered))
        shared.waits[answered] = self._spec
        try:
            answer = await answered
            hold: Hold = self._hold_class(self, attempt.state(answer))
        except BaseException as error:
            attempt.given_up = True
            if request.done() and isinstance(error, Exception) and not attempt.was_cut:
                link.close()
            else:
                giving_up = shared.track(_give_up(shared, attempt, request, link), shared.cleanups, self._spec.named)
                if not isinstance(error, Exception):
                    await asyncio.wait({giving_up}, timeout=GIVE_UP_WITHIN)
            raise
        finally:
            shared.waits.pop(answered)
        hold._begin(link)
        if shared.is_closed:  # close() may not have seen the hold
            await asyncio.wait({shared.release(hold._state, self._spec.named)})
            raise closed(self._spec)
        return hold

    async def locked(self) -> bool:
        """Whether any owner holds one of its keys; of a semaphore, any permit."""
        return bool((await self._ask(self._inspected(0))).holders)

    async def info(self) -> LockInfo:
        """Who holds it, and who waits for it."""
        found: LockInfo = await self._ask(self._inspected(10))
        return found

    async def force(self) -> bool:
        """For operators: frees it, whoever holds it, and returns whether it was held. Its holder may still be working."""
        return bool(await self._ask(self._forced()))

    async def __aenter__(self) -> "Hold":
        return self._enter(asyncio.current_task(), await (await self.acquire()).__aenter__())

    async def __aexit__(self, *error: Any) -> None:
        try:
            task = asyncio.current_task()
        except RuntimeError:
            task = None  # in a child after a fork, which has no loop
        await self._leave(task).__aexit__(*error)


class Hold(BaseHold):
    """A lock that is held, from one acquisition: `owner`, `keys`, `token` (or None), `is_lost`. `async with hold:` releases it
    at the end."""

    _body: Optional["asyncio.Task[Any]"] = None  # the task that a loss cancels
    _has_cancelled, _cancelling = False, 0

    def _begin(self, link: Optional[Link] = None) -> None:
        """Watches it, and with the link of its acquisition also keeps it."""
        shared, state = self._shared, self._state
        for key, block, is_bound in self._watches(link is not None):
            own = link if link and is_bound else Link(shared.pool, key)
            shared.track(_watch(shared, state, key, block, own, is_bound), shared.tasks, state.spec.named)
        if link and not state.spec.session:
            link.close()
        if link:
            self._keep()

    def _keep(self) -> None:
        state = self._state
        if state.keeping:
            state.keeping.cancel()
        left = max(0.0, state.due() - time.monotonic())
        state.keeping = asyncio.get_running_loop().call_later(left, _renew, self._shared, state, state.schedule)

    async def release(self) -> None:
        """Releases the lock. Raises NotHeld if it was lost or released before, or redis-py's error if there was no reply
        until the lease expired; then it can be called again. The release continues even if the caller is cancelled."""
        self._check_process()
        if not self._leave():
            return
        task = self._shared.release(self._state, "")
        if self._state.keeping:
            self._state.keeping.cancel()
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise closed(self._state.spec) from None
            raise
        self._shared.holds.pop(id(self), None)

    async def renew(self, lease: Optional[float] = None) -> None:
        """Renews the lease now; with `lease`, in seconds, this one applies from now on. Raises NotHeld if it was lost."""
        self._check_process()
        schedule = self._state.schedule
        try:
            await self._shared.ask(self._state.spec, self._state.renew(lease))
        finally:
            if self._state.schedule != schedule:
                self._keep()

    async def guard(self, command: str, *args: Any) -> Any:
        """Executes a command on the server if the lock is held at that moment, and returns the reply as redis-py receives it.
        If there is no reply, the command may have been executed: it is not sent again. Of a multi-key lock, the first key
        is checked. Raises NotHeld, or Refused for an error reply."""
        self._check_process()
        return await self._shared.ask(self._state.spec, self._state.guarded([command, *args]))

    async def __aenter__(self) -> "Hold":
        if self._cancel_on_loss:
            if self.is_lost:
                await self.release()
            self._body = asyncio.current_task()
            self._cancelling = self._body.cancelling() if hasattr(self._body, "cancelling") else 0  # type: ignore
        return self

    async def __aexit__(self, _: Any, error: Optional[BaseException], __: Any) -> None:
        if self._is_inherited():
            return
        body, self._body = self._body, None
        if self._has_cancelled:
            # From Python 3.11 on it is known whether another cancellation was requested, too.
            others = body.uncancel() > self._cancelling if body and hasattr(body, "uncancel") else False
            error = None if isinstance(error, asyncio.CancelledError) and not others else error
        try:
            await self.release()
        except Exception as problem:
            self._left(error, self._state.not_held() if self._has_cancelled else problem)

    def _lost(self) -> None:
        if self._body:
            self._has_cancelled = True
            self._body.cancel()
        if self._on_lost:
            self._shared.track(self._report(), _callbacks)

    async def _report(self) -> None:
        try:
            result = self._on_lost(self)
            if inspect.isawaitable(result):
                await result
        except Exception:
            log.exception("%s: error in the callback for its loss", self._state.spec.named)


def _renew(shared: _Shared, state: State, schedule: int) -> None:
    async def renewed() -> None:
        if await shared.send(state.spec.key, state.renewed(schedule)):
            state.notify()

    if not state.has_ended():
        state.keeping = shared.track(renewed(), shared.tasks)


async def _watch(shared: _Shared, state: State, key: Key, block: float, link: Link, is_bound: bool) -> None:
    try:
        if await _run(shared.pool, link.run(state.watched(key, block))):
            state.notify()
    finally:
        if is_bound:
            link.drop()  # the server renews the lease for as long as this connection is open
        else:
            link.close()


class Latch(BaseLatch):
    """A latch: it is closed while its number is greater than 0, and opens when that has been counted down. One that was never
    set is open."""

    async def set(self, count: int, *, lease: Optional[float] = None) -> None:
        """Sets the number; 0 opens the latch. With `lease`, in seconds, it opens after this time at the latest. Without a
        reply it is not sent again, and redis-py's error is raised."""
        await self._set(count, lease)

    async def count_down(self, by: int = 1) -> int:
        """Returns the number that is left. Without a reply it is not sent again, and redis-py's error is raised."""
        return int(await self._count_down(by))

    async def count(self) -> int:
        """The number that is left; 0 if it is open."""
        return self._number(await self._ask("GET", self.key))

    async def wait(self, *, wait: Optional[float] = None) -> bool:
        """Waits until it is open, as for a lock. Returns False if it is not open in time. Raises Closed, Refused, or
        redis-py's error if no connection was ever possible, or if a try had no reply."""
        return bool(await self._shared.wait(self._spec, self._attempt(wait).run()))


class DelayedQueue(BaseQueue):
    """A delayed queue: the server pushes its elements to a list when they are due."""

    async def push(self, value: Value, delay: float, *, id: Optional[Key] = None) -> str:
        """Pushes a value to the list in `delay` seconds. Returns its id. A pending element with this id is replaced. Without
        an id the command is not sent again if there is no reply, and redis-py's error is raised."""
        return str(await self._ask(self._push(value, delay, id)))

    async def cancel(self, id: Key) -> bool:
        """Removes a pending element. Returns whether it was pending: otherwise it has been delivered, or was never pushed."""
        return bool(await self._ask(self._cancelled(id)))

    async def list(self, count: Optional[int] = None) -> List[Pending]:
        """The elements that are due next: 10, or `count`."""
        found: List[Pending] = await self._ask(self._listed(count))
        return found

    async def consume(self, handler: Callable[[Job], Any], *, timeout: float = 60.0, max_tries: int = 5,
                      backoff: float = 1.0) -> NoReturn:  # fmt: skip
        """Passes each element of the list to `handler`, a function or a coroutine function, one after the other, until this
        task is cancelled or the Locks are closed (Closed). The handler is then cancelled, and its element pushed back. A try
        that has not ended after `timeout` s, because the program died for instance, is repeated by any consumer; one that
        raises is repeated after `backoff` s, and then after twice as long each time. After `max_tries` the value is moved to
        another list. Raises Refused if the server refuses the commands, or redis-py's error if no connection was ever
        possible."""

        async def handle(job: Job) -> None:
            try:
                result = handler(job)
                if inspect.isawaitable(result):
                    await result
            except asyncio.CancelledError as error:
                if not consumer.is_stopped:
                    raise RuntimeError("the handler was cancelled, but not by its consumer") from error
                raise

        def is_settling() -> bool:
            consumer.is_stopped = True
            return consumer.is_settling

        consumer = self._consumer(handle, timeout, max_tries, backoff)
        await self._shared.wait(self._spec, consumer.run(), is_settling)
        raise closed(self._spec)


class CombinedHold(BaseCombinedHold, Hold):
    """Several locks that are held, from one acquisition of a combined lock. `holds` are those of its members."""


class CombinedLock(BaseCombined, Lock):
    """Several locks as one: all of them, or none."""

    def __init__(self, members: List[Lock], spec: Spec, use: Use):
        super().__init__(members[0]._locks, spec, use)
        self._members = members

    def _attempt(self, wait: Any, entries: Any = None, last: float = 0.0) -> Combination:
        def acquire(lock: Lock, attempt: Any) -> Any:
            task = asyncio.ensure_future(lock._acquire(attempt))
            return task.cancel, lambda: task

        return Combination(self, wait, acquire, entries)


def combine(*locks: Lock, wait: Optional[float] = None, on_lost: OnLost[Hold] = None, cancel_on_loss: bool = False) -> CombinedLock:
    """Several locks as one, of any kinds, and of the Locks of several servers: all of them, or none. They are acquired one
    after the other, in the order of their servers' names, and each in the time that is left."""
    if not all(isinstance(lock, Lock) for lock in locks):
        raise TypeError("only locks of lock_so.aio can be combined; lock_so.combine() is for those without asyncio")
    members = ordered(locks)
    return CombinedLock(members, combined_spec(members), Use(wait, on_lost, cancel_on_loss))


class MajorityHold(BaseMajorityHold, Hold):
    """A lock that a majority of the servers has granted; `token` is the largest of their tokens."""


class MajorityLock(BaseMajorityLock, Lock):
    """A lock on the majority of several servers."""

    def __init__(self, servers: Servers, members: List[Lock], spec: Spec, use: Use):
        super().__init__(members[0]._locks, spec, use)
        self._servers, self._members = servers, members


class RedLock(BaseRedLock):
    """Locks on the majority of three or more servers, which are independent of each other."""

    def __init__(self, locks: Sequence[Locks]) -> None:
        self._locks, self._servers = list(locks), servers_of(locks, Locks)

    def lock(self, key: Key, *, wait: Optional[float] = None, lease: float = 10.0, on_lost: OnLost[Hold] = None,
             cancel_on_loss: bool = False) -> MajorityLock:  # fmt: skip
        """A lock with one owner at a time, and with a fencing token."""
        spec, use = Spec("redlock", (key,), lease, fenced=True), Use(wait, on_lost, cancel_on_loss)
        return MajorityLock(self._servers, [Lock(locks, spec, Use(None, None, None)) for locks in self._locks], spec, use)


Lock._hold_class = Hold
MajorityLock._hold_class = MajorityHold
CombinedLock._hold_class = CombinedHold
