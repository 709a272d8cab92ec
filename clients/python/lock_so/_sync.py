"""Locks for threads, on redis-py's Redis and RedisCluster, and on the client that a Sentinel's master_for() returns."""

import atexit
import heapq
import itertools
import queue
import socket
import threading
import time
import weakref
from collections import deque
from concurrent import futures
from typing import Any, Callable, Deque, Dict, List, Literal, NoReturn, Optional, Sequence, Set, Union

import redis
import redis.exceptions as library
from redis.backoff import NoBackoff
from redis.retry import Retry

from ._base import DEFAULT, BaseHold, BaseLock, BaseLocks, Shared, all_shared, log_error
from ._combine import BaseCombined, BaseCombinedHold, Combination, combined_spec, ordered
from ._delay import BaseQueue, Consumer, Job, Pending, Value
from ._info import LockInfo
from ._latch import BaseLatch
from ._pool import Await, Check, Exchange, Link, Open, Operations, Pool
from ._redlock import BaseMajorityHold, BaseMajorityLock, BaseRedLock, Servers, servers_of
from ._spec import Key, OnLost, Spec, Use, Words, check_positive
from ._steps import CONNECT_TIMEOUT, GIVE_UP_WITHIN, MARGIN, MAX_BLOCK, AnyOf, Do, Pause, State, Steps, log
from .errors import Cancelled, Closed, closed

WORKERS = 8  # how many threads release and renew at one server


class _Pool(Pool):
    retry, event = Retry(NoBackoff(), 0), queue.SimpleQueue

    def disconnect(self, connection: Any) -> None:
        connection.disconnect()

    def leave(self, connection: Any, words: Words) -> None:
        try:
            connection.send_command(*words)
        except (library.RedisError, OSError):
            pass
        finally:
            self.disconnect(connection)

    def notify(self, event: Any) -> None:
        event.put(None)

    def open(self, step: Open) -> Any:
        """In a thread of its own, because name resolution, TLS and Sentinels have no deadline."""
        opening: futures.Future[Any] = futures.Future()
        server, limit = self.server(step.place), max(0.0, step.until - time.monotonic())

        def work() -> None:
            connection = None
            try:
                connection = self.new(step.place)
                self._connect(connection)
                opening.set_result(self.opened(connection))
            except futures.InvalidStateError:
                self.give(connection, server)
            except BaseException as error:
                if connection is not None:
                    connection.disconnect()
                if not opening.done():
                    opening.set_exception(error)
            finally:
                server.opening.discard(opening)
                self.wake(server)

        step.link.opening = opening
        if step.is_short:
            server.opening.add(opening)
        try:
            _start(work)
        except RuntimeError as error:
            server.opening.discard(opening)
            raise library.ConnectionError(str(error)) from error
        try:
            return opening.result(limit)
        except futures.CancelledError:
            raise Closed() from None
        except futures.TimeoutError:
            if not opening.cancel():
                return opening.result()
            raise library.TimeoutError(f"no connection within {limit:.3g} s") from None
        except BaseException:
            opening.cancel()
            raise

    def _connect(self, connection: Any) -> None:
        error: Optional[Exception] = None
        for manager, sentinel, name in self.lookups():
            try:
                self.master = manager.discover_master(name)
                connection.connect_to(self.master)
                return
            except (library.RedisError, OSError) as problem:
                error = problem
            finally:
                sentinel.disconnect()
        if error:
            raise error
        connection.connect()


def _exchange(step: Exchange) -> Any:
    connection, limit = step.connection, max(0.0, step.until - time.monotonic())
    connection.send_command(*step.words)
    if not connection.can_read(limit):
        raise library.TimeoutError(f"no reply to {step.words[0]} within {limit:.3g} s")
    # For a server that stops in the middle of a reply.
    connection._sock.settimeout(max(0.01, min(MARGIN, step.until - time.monotonic())))
    return connection.read_response()


def _is_usable(connection: Any) -> bool:
    try:
        return not connection.can_read(0)
    except (library.ConnectionError, library.TimeoutError, OSError):
        return False


def _has_happened(event: Any, seconds: float) -> bool:
    try:
        event.get(timeout=max(0.0, seconds))
        return True
    except queue.Empty:
        return False


def _run(pool: _Pool, operations: Operations, pause: Optional[Callable[[float], Any]] = time.sleep) -> Any:
    """Executes operations. Returns what they return; without `pause`, a Pause, after which it can be called again."""
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
                result = _exchange(step)
            elif isinstance(step, Check):
                result = _is_usable(step.connection)
            elif isinstance(step, Open):
                result = pool.open(step)
            elif isinstance(step, Do):
                result = step.call()
            elif isinstance(step, AnyOf):
                limit = max(0.0, step.until - time.monotonic())
                result = futures.wait(step.jobs, limit, futures.FIRST_COMPLETED).done
            elif isinstance(step, Await):
                result = _has_happened(step.event, step.until - time.monotonic())
            elif pause:
                pause(step.seconds)
            else:
                return step
        except BaseException as problem:
            error = problem


def _stop(link: Link) -> None:
    """Ends what another thread does with it. That thread closes the connection."""
    link.is_stopped = True
    opening, sock = link.opening, getattr(link.connection, "_sock", None)
    if opening:
        opening.cancel()
    if link.event:
        link.event.put(None)
    if sock:
        try:
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
        except OSError:
            pass


def _start(work: Callable[..., Any], *args: Any) -> None:
    threading.Thread(target=work, args=args, name="lock-so", daemon=True).start()


class _Keeper:
    """A thread that calls things at their times, and for each server the threads that execute its jobs. It refers to no hold
    and to no Locks."""

    def __init__(self) -> None:
        self._new: Deque[Any] = deque()
        self._due: List[Any] = []
        self._numbers, self._wake, self._wakes_at, self._limit = itertools.count(), queue.SimpleQueue[Any](), 0.0, 64
        self._threads: Dict[str, threading.Thread] = {}
        self._workers: Dict[Any, _Workers] = {}
        self.is_closed = False

    def begin(self) -> None:
        """Starts the thread, unless it runs."""
        if self._threads or self.is_closed:
            return
        thread = threading.Thread(target=self._run, name="lock-so-keeper", daemon=True)
        if self._threads.setdefault("", thread) is thread:
            try:
                thread.start()
            except BaseException:
                self._threads.clear()
                raise

    def at(self, due: float, call: Callable[[], Optional[float]], has_ended: Callable[[], bool] = lambda: False) -> None:
        """Calls it at `due`, and again at the time that it returns, until `has_ended()`. It must not block. This can be used
        in finalizers and signal handlers."""
        self._new.append((due, next(self._numbers), call, has_ended))
        if due < self._wakes_at:
            self._wake.put(None)

    def put(self, group: Any, job: Callable[[], Any]) -> None:
        """Executes a job in one of the workers of this group. Only for what at() calls."""
        self._workers.setdefault(group, _Workers()).put(job)

    def close(self) -> None:
        self.is_closed = True
        self._wake.put(None)

    def _run(self) -> None:
        while True:
            self._wakes_at = 0.0
            is_last = self.is_closed
            while self._new:
                heapq.heappush(self._due, self._new.popleft())
            while self._due and self._due[0][0] <= time.monotonic():
                self._call(*heapq.heappop(self._due))
            if is_last:
                break
            if len(self._due) > self._limit:
                self._due = [entry for entry in self._due if not entry[3]()]
                heapq.heapify(self._due)
                self._limit = 64 + 2 * len(self._due)
            self._wakes_at = self._due[0][0] if self._due else float("inf")
            # What was added before this line has not woken it.
            if not self._new:
                _has_happened(self._wake, min(60.0, self._wakes_at - time.monotonic()))
        for workers in self._workers.values():
            workers.close()

    def _call(self, _: float, number: int, call: Callable[[], Optional[float]], has_ended: Callable[[], bool]) -> None:
        if has_ended():
            return
        try:
            due = call()
        except Exception as error:  # no thread can be started, for instance
            log.exception("an error in the background: %s", error)
            due = time.monotonic() + 0.5
        if due is not None:
            heapq.heappush(self._due, (due, number, call, has_ended))


class _Workers:
    """Threads that execute jobs: more of them, if one does not suffice. If none can be started, as at the end of a program
    from Python 3.12 on, put() executes the job."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._threads = 0

    def put(self, job: Callable[[], Any]) -> None:
        if not self._threads or (self._threads < WORKERS and not self._jobs.empty()):
            try:
                _start(self._run)
                self._threads += 1
            except RuntimeError:
                if not self._threads:
                    job()
                    return
        self._jobs.put(job)

    def close(self) -> None:
        for _ in range(self._threads):
            self._jobs.put(None)

    def _run(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            job()
            del job


class _Job(futures.Future):  # type: ignore[type-arg]
    """Steps that are executed in the background, by workers for the key's server."""

    def __init__(self, shared: "_Shared", key: Optional[Key], steps: Steps, group: str = "",
                 has_ended: Callable[[], bool] = lambda: False):  # fmt: skip
        super().__init__()
        self._shared, self._link, self._group, self.has_ended = shared, Link(shared.pool, key, is_short=True), group, has_ended
        self._operations = self._link.run(steps)

    def start(self) -> None:
        """In the keeper's thread."""
        key = self._link.key
        self._shared.keeper.put((self._group, key is not None and self._shared.pool.place(key)), self._continue)

    def _continue(self) -> None:
        try:
            with self._link:
                result = _run(self._shared.pool, self._operations, None)
        except BaseException as error:
            self.set_exception(error)
        else:
            if isinstance(result, Pause):
                self._shared.keeper.at(time.monotonic() + result.seconds, self.start, self.has_ended)
            else:
                self.set_result(result)


class _Shared(Shared):
    pool: _Pool
    pool_class = _Pool
    closed_by = float("inf")

    def begin(self) -> None:
        super().begin()
        self._local = threading.local()
        self.keeper = _Keeper()
        self.waits: Set[_Wait] = set()
        self.watches: Set[Link] = set()
        self.cleanups: Set[_Job] = set()

    def own(self) -> Dict[Any, State]:
        return self._local.__dict__

    def start(self, key: Optional[Key], steps: Steps, named: str = "", group: str = "", frees: bool = False) -> _Job:
        """Executes steps in the background, in workers of this group. If they have a name, their error is logged. close()
        waits for those, and for what frees something."""
        job = _Job(self, key, steps, group)
        if named or frees:
            self.cleanups.add(job)
            job.add_done_callback(lambda done: log_error(named, done.exception()))
        job.add_done_callback(self.cleanups.discard)
        self.keeper.begin()
        self.keeper.at(0.0, job.start)
        return job

    def forget(self, state: State) -> None:
        self.start(state.spec.key, state.released(), state.spec.named)

    def send(self, key: Key, steps: Steps) -> Any:
        with Link(self.pool, key, is_short=True) as link:
            return _run(self.pool, link.run(steps))

    def close(self, timeout: float) -> None:
        if timeout != 0:
            check_positive("timeout", timeout)
        if self.is_closed:
            return
        self.closed_by, self.is_closed = time.monotonic() + timeout, True
        for wait in list(self.waits):
            wait.cancel()
        for state in self.held():
            self.forget(state)
        futures.wait(list(self.cleanups), max(0.0, self.closed_by - time.monotonic()))
        while self.waits and time.monotonic() < self.closed_by:
            time.sleep(0.005)
        self.end()

    def end(self) -> None:
        self.is_closed = True
        self.keeper.close()
        self.pool.close()
        for link in [*list(self.watches), *(wait.link for wait in list(self.waits))]:
            _stop(link)


@atexit.register
def _release_all() -> None:
    """At the end of the program: what is still held, or being released, is released as far as that is possible soon."""
    until = time.monotonic() + 1.0
    for shared in list(all_shared):
        if isinstance(shared, _Shared) and (shared.held() or shared.cleanups):
            shared.close(max(0.05, until - time.monotonic()))


class Locks(BaseLocks["Lock", "Hold", Literal[False]]):
    def __init__(self, client: Union["redis.Redis", "redis.RedisCluster"], *, max_block: float = MAX_BLOCK,
                 connect_timeout: float = CONNECT_TIMEOUT) -> None:  # fmt: skip
        if not isinstance(client, (redis.Redis, redis.RedisCluster)):
            raise TypeError(f"the client must be a redis.Redis or redis.RedisCluster, not {type(client)!r}; "
                            "lock_so.aio is for those of redis.asyncio")  # fmt: skip
        found: Any = client
        if isinstance(client, redis.RedisCluster):
            found = found.get_redis_connection(found.get_default_node())
        source = found.connection_pool.connection_class, found.connection_pool.connection_kwargs
        self._lock_class, self._combined_class = Lock, CombinedLock
        self._shared = _Shared(client, source, max_block, connect_timeout)
        weakref.finalize(self, self._shared.collected).atexit = False

    def latch(self, key: Key) -> "Latch":
        """A latch, for which any number of clients wait until it has been counted down."""
        return Latch(self, key)

    def delayed_queue(self, list: Key) -> "DelayedQueue":
        """The delayed queue of this list."""
        return DelayedQueue(self, list)

    def close(self, *, timeout: float = 5.0) -> None:
        """Ends all waits with Closed, releases all locks that are held, and closes connections and threads, within
        `timeout` s. What is not released by then is not renewed any more."""
        self._shared.close(timeout)

    def __enter__(self) -> "Locks":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Cancellation:
    """Ends waits from another thread or from a signal handler: those of acquire() with this object as `cancel`."""

    def __init__(self) -> None:
        self._is_set = False
        self._calls: Set[Callable[[], None]] = set()

    def cancel(self) -> None:
        self._is_set = True
        for call in list(self._calls):
            call()

    def _add(self, call: Callable[[], None]) -> None:
        self._calls.add(call)
        if self._is_set:
            call()

    def _remove(self, call: Callable[[], None]) -> None:
        self._calls.discard(call)


class _Wait:
    """Steps that may be cancelled by another thread, or by a signal handler of its own: there are no locks."""

    def __init__(self, shared: _Shared, spec: Spec, steps: Steps):
        self._shared, self._spec = shared, spec
        self.link = Link(shared.pool, spec.key)
        self._steps = steps
        self._stopped: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._outcome: Dict[str, str] = {}

    def _is(self, outcome: str) -> bool:
        """Whether this is the outcome. The first one is; setdefault() is atomic."""
        return self._outcome.setdefault("", outcome) == outcome

    def _answer(self) -> Any:
        return _run(self._shared.pool, self.link.run(self._steps), self._pause)

    def run(self) -> Any:
        try:
            with self.link:
                answer = None if self._outcome else self._answer()
            if self._is("ended"):
                return answer
        except Exception:
            if self._is("failed"):
                raise
        raise self._cancelled()

    def _cancelled(self) -> Exception:
        return closed(self._spec) if self._shared.is_closed else Cancelled(f"{self._spec.named}: the wait was cancelled")

    def cancel(self) -> None:
        if self._is("cancelled"):
            self._stopped.put(None)
            _stop(self.link)

    def _pause(self, seconds: float) -> None:
        try:
            self._stopped.get(timeout=seconds)
        except queue.Empty:
            pass

    def result(self, cancel: Optional[Cancellation]) -> Any:
        """Executes it, until it is cancelled or the Locks are closed."""
        shared = self._shared
        shared.keeper.begin()
        shared.waits.add(self)
        try:
            if cancel:
                cancel._add(self.cancel)
            if shared.is_closed:
                self.cancel()
            return self.run()
        finally:
            shared.waits.discard(self)
            if cancel:
                cancel._remove(self.cancel)


class _Acquisition(_Wait):
    """An attempt to acquire a lock."""

    def __init__(self, lock: "Lock", attempt: Any):
        super().__init__(lock._shared, attempt.spec, attempt.run())
        self._lock, self.attempt = lock, attempt
        self._giving_up: Optional[_Job] = None
        self._has_ended = False  # the request has its reply, or no connection any more

    def run(self) -> "Hold":
        """Without a hold nothing is left on the server, or will be soon."""
        attempt, state = self.attempt, None
        try:
            # Without a request, if it was cancelled before it began.
            answer = None if self._outcome else self._answer()
            if answer is not None and self._is("granted"):
                state = attempt.state(answer)
                hold: Hold = self._lock._hold_class(self._lock, state)
                hold._begin(self.link)
                return hold
        except BaseException as error:
            if state:
                state.is_ending = True
            if state or not isinstance(error, Exception):
                attempt.was_cut = True
                self.link.drop()
            if self._is("failed") or self._is("granted"):
                self._end(is_interrupted=bool(state) or not isinstance(error, Exception))
                raise
        self._end(is_interrupted=True)
        raise self._cancelled()

    def _end(self, is_interrupted: bool) -> None:
        """Without a hold."""
        self._has_ended = True
        self.link.close()
        if self.attempt.was_cut and not self._giving_up:
            self._give_up()
        if self._giving_up and is_interrupted:
            futures.wait([self._giving_up], max(0.0, min(GIVE_UP_WITHIN, self._shared.closed_by - time.monotonic())))

    def cancel(self) -> None:
        if not self._is("cancelled") or self._giving_up:
            return
        self.attempt.given_up = True
        self._stopped.put(None)
        self._give_up()
        # If the server does not respond, the waiting thread ends after some time.
        self._shared.keeper.at(time.monotonic() + GIVE_UP_WITHIN, lambda: _stop(self.link), lambda: self._has_ended)

    def _give_up(self) -> None:
        steps = self.attempt.give_up(lambda: self._has_ended)
        self._giving_up = self._shared.start(self.attempt.spec.key, steps, self.attempt.spec.named)


class _Consumption(_Wait):
    """A consumer, which ends when its job has been settled."""

    def __init__(self, shared: _Shared, consumer: Consumer):
        super().__init__(shared, consumer.spec, consumer.run())
        self._consumer = consumer

    def cancel(self) -> None:
        self._consumer.is_stopped = True
        super().cancel()


class Lock(BaseLock["Hold"]):
    """A lock that can be acquired any number of times: `with lock as hold:`, or acquire() and release()."""

    _shared: _Shared

    def acquire(self, *, wait: Optional[float] = DEFAULT, cancel: Optional[Cancellation] = None) -> "Hold":
        """Returns a Hold. `wait`: seconds; None has no limit, 0 only tries. `cancel`: a Cancellation. Raises
        NotAcquired, Cancelled, Closed, Deadlock, NoReplicas, Refused, or redis-py's error if no connection was ever
        possible, or if a try had no reply."""
        return self._acquire(self._begun(wait), cancel)

    def _acquire(self, attempt: Any, cancel: Optional[Cancellation]) -> "Hold":
        again = self._again(attempt)
        if again:
            again._begin()
            return again
        hold: Hold = _Acquisition(self, attempt).result(cancel)
        if self._shared.is_closed:  # close() may not have seen the hold
            try:
                hold.release()
            except Exception as error:
                log_error(self._spec.named, error)
            raise closed(self._spec)
        return hold

    def locked(self) -> bool:
        """Whether any owner holds one of its keys; of a semaphore, any permit."""
        return bool(self._ask(self._inspected(0)).holders)

    def info(self) -> LockInfo:
        """Who holds it, and who waits for it."""
        found: LockInfo = self._ask(self._inspected(10))
        return found

    def force(self) -> bool:
        """For operators: frees it, whoever holds it, and returns whether it was held. Its holder may still be working."""
        return bool(self._ask(self._forced()))

    def __enter__(self) -> "Hold":
        return self._enter(threading.get_ident(), self.acquire())

    def __exit__(self, *error: Any) -> None:
        self._leave(threading.get_ident()).__exit__(*error)


class Hold(BaseHold):
    """A lock that is held, from one acquisition: `owner`, `keys`, `token` (or None), `is_lost`. `with hold:` releases it at
    the end."""

    def _begin(self, link: Optional[Link] = None) -> None:
        """Watches it, and with the link of its acquisition also keeps it."""
        shared, state = self._shared, self._state
        for key, block, is_bound in self._watches(link is not None):
            own = link if link and is_bound else Link(shared.pool, key)
            shared.watches.add(own)
            _start(_watch, shared, state, key, block, own, is_bound)
        if link and not state.spec.session:
            link.close()
        if link:
            self._keep()

    def _keep(self) -> None:
        shared, state = self._shared, self._state
        schedule = state.schedule

        def has_ended() -> bool:
            return state.has_ended() or state.schedule != schedule

        shared.keeper.at(state.until, lambda: _check(state), has_ended)
        if state.is_renewed:
            shared.keeper.at(state.due(), lambda: _renew(shared, state, schedule), has_ended)

    def release(self) -> None:
        """Releases the lock. Raises NotHeld if it was lost or released before, or redis-py's error if there was no reply in
        the lease; then it can be called again."""
        self._check_process()
        if self._leave():
            self._shared.send(self._state.spec.key, self._state.released())
            self._shared.holds.pop(id(self), None)

    def renew(self, lease: Optional[float] = None) -> None:
        """Renews the lease now; with `lease`, in seconds, this one applies from now on. Raises NotHeld if it was lost."""
        self._check_process()
        schedule = self._state.schedule
        try:
            self._shared.ask(self._state.spec, self._state.renew(lease))
        finally:
            if self._state.schedule != schedule:
                self._keep()

    def guard(self, command: str, *args: Any) -> Any:
        """Executes a command on the server if the lock is held at that moment, and returns the reply as redis-py receives it.
        If there is no reply, the command may have been executed: it is not sent again. Of a multi-key lock, the first key
        is checked. Raises NotHeld, or Refused for an error reply."""
        self._check_process()
        return self._shared.ask(self._state.spec, self._state.guarded([command, *args]))

    def __enter__(self) -> "Hold":
        return self

    def __exit__(self, _: Any, error: Optional[BaseException], __: Any) -> None:
        if self._is_inherited():
            return
        try:
            self.release()
        except Exception as problem:
            self._left(error, problem)

    def _lost(self) -> None:
        if self._on_lost:
            try:
                _start(self._report)
            except RuntimeError:
                self._report()

    def _report(self) -> None:
        try:
            self._on_lost(self)
        except Exception:
            log.exception("%s: error in the callback for its loss", self._state.spec.named)


def _check(state: State) -> Optional[float]:
    """Notices that the lease has expired, also if all workers wait for replies."""
    if time.monotonic() < state.until:
        return state.until
    state.notify()
    return None


def _renew(shared: _Shared, state: State, schedule: int) -> None:
    def ended(job: Any) -> None:
        if job.result():
            state.notify()

    # Renewals that wait for replicas have threads of their own.
    job = _Job(shared, state.spec.key, state.renewed(schedule), "replicas" if state.spec.replicas else "", state.has_ended)
    job.add_done_callback(ended)
    job.start()


def _watch(shared: _Shared, state: State, key: Key, block: float, link: Link, is_bound: bool) -> None:
    try:
        if shared.is_closed:
            _stop(link)
        if _run(shared.pool, link.run(state.watched(key, block))):
            state.notify()
    finally:
        shared.watches.discard(link)
        if is_bound:
            link.drop()  # the server renews the lease for as long as this connection is open
        else:
            link.close()


class Latch(BaseLatch):
    """A latch: it is closed while its number is greater than 0, and opens when that has been counted down. One that was never
    set is open."""

    def set(self, count: int, *, lease: Optional[float] = None) -> None:
        """Sets the number; 0 opens the latch. With `lease`, in seconds, it opens after this time at the latest. Without a
        reply it is not sent again, and redis-py's error is raised."""
        self._set(count, lease)

    def count_down(self, by: int = 1) -> int:
        """Returns the number that is left. Without a reply it is not sent again, and redis-py's error is raised."""
        return int(self._count_down(by))

    def count(self) -> int:
        """The number that is left; 0 if it is open."""
        return self._number(self._ask("GET", self.key))

    def wait(self, *, wait: Optional[float] = None, cancel: Optional[Cancellation] = None) -> bool:
        """Waits until it is open, as for a lock. Returns False if it is not open in time. Raises Cancelled, Closed, Refused,
        or redis-py's error if no connection was ever possible, or if a try had no reply."""
        attempt = self._attempt(wait)
        return bool(_Wait(self._shared, self._spec, attempt.run()).result(cancel))


class DelayedQueue(BaseQueue):
    """A delayed queue: the server pushes its elements to a list when they are due."""

    def push(self, value: Value, delay: float, *, id: Optional[Key] = None) -> str:
        """Pushes a value to the list in `delay` seconds. Returns its id. A pending element with this id is replaced. Without
        an id the command is not sent again if there is no reply, and redis-py's error is raised."""
        return str(self._ask(self._push(value, delay, id)))

    def cancel(self, id: Key) -> bool:
        """Removes a pending element. Returns whether it was pending: otherwise it has been delivered, or was never pushed."""
        return bool(self._ask(self._cancelled(id)))

    def list(self, count: Optional[int] = None) -> List[Pending]:
        """The elements that are due next: 10, or `count`."""
        found: List[Pending] = self._ask(self._listed(count))
        return found

    def consume(self, handler: Callable[[Job], Any], *, timeout: float = 60.0, max_tries: int = 5, backoff: float = 1.0,
                cancel: Optional[Cancellation] = None) -> NoReturn:  # fmt: skip
        """Passes each element of the list to `handler`, one after the other, until `cancel` is cancelled (Cancelled) or the
        Locks are closed (Closed); the handler then runs to its end. A try that has not ended after `timeout` s, because the
        program died for instance, is repeated by any consumer; one that raises is repeated after `backoff` s, and then after
        twice as long each time. After `max_tries` the value is moved to another list. Raises Refused if the server refuses
        the commands, or redis-py's error if no connection was ever possible."""
        consumer = self._consumer(handler, timeout, max_tries, backoff)
        _Consumption(self._shared, consumer).result(cancel)
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
            cancellation = Cancellation()
            return cancellation.cancel, lambda: lock._acquire(attempt, cancellation)

        return Combination(self, wait, acquire, entries)


def combine(*locks: Lock, wait: Optional[float] = None, on_lost: OnLost[Hold] = None) -> CombinedLock:
    """Several locks as one, of any kinds, and of the Locks of several servers: all of them, or none. They are acquired one
    after the other, in the order of their servers' names, and each in the time that is left."""
    if not all(isinstance(lock, Lock) for lock in locks):
        raise TypeError("only locks of lock_so can be combined; lock_so.aio.combine() is for those with asyncio")
    members = ordered(locks)
    return CombinedLock(members, combined_spec(members), Use(wait, on_lost, None))


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

    def lock(self, key: Key, *, wait: Optional[float] = None, lease: float = 10.0, on_lost: OnLost[Hold] = None) -> MajorityLock:
        """A lock with one owner at a time, and with a fencing token."""
        spec, use = Spec("redlock", (key,), lease, fenced=True), Use(wait, on_lost, None)
        return MajorityLock(self._servers, [Lock(locks, spec, Use(None, None, None)) for locks in self._locks], spec, use)


Lock._hold_class = Hold
MajorityLock._hold_class = MajorityHold
CombinedLock._hold_class = CombinedHold
