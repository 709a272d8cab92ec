"""Tasks that run once at a time."""

import time
from contextvars import ContextVar
from inspect import isfunction
from typing import Any, Callable, Dict, NoReturn, Optional, Union

import redis
from celery.app.task import Task
from celery.exceptions import Ignore, Reject, Retry
from celery.signals import task_postrun
from celery.states import SUCCESS
from celery.utils.log import get_task_logger
from lock_so import Hold, Lock, LockError, Locks, ModuleMissing, NotAcquired, NotHeld

from ._source import locks_of

logger = get_task_logger(__name__)

# In the headers of a message that may be the second one of a run.
REDELIVERED = "lock_so_redelivered"

CONNECTING = 3.0  # s

_current: "ContextVar[Optional[Hold]]" = ContextVar("lock_so_celery.hold", default=None)


class Unsure(NotAcquired):
    """The lock is held, perhaps by a request of our own that had no reply and is being cancelled."""


class LockedTask(Task):  # type: ignore[misc]
    """A base class for tasks of which one run at a time has a lock: `@app.task(base=LockedTask, …)`, with its attributes as
    options. The lock is acquired in the worker, when a run begins, and is released when its result has been stored.

    A message that was delivered again, because its worker died or the broker's visibility timeout has passed, is never
    skipped: if its first run has stored its success, it is dropped, and otherwise it runs after it."""

    abstract = True

    lock: Union[None, str, Callable[..., Union[str, Lock]]] = None
    """The key, or a function of the task's arguments that returns a key or a lock of any kind. By default the key is
    `celery:` and the name of the task: one run of the task at a time, whatever its arguments."""

    lock_options: Dict[str, Any] = {}
    """Options of `Locks.lock()`, if `lock` returns no lock. By default `session=True`: if the worker dies, the lock is free
    about a second later."""

    lock_conflict: str = "skip"
    """If another run has the lock: "skip" the message (its state is REVOKED); "retry" after `lock_delay` s, as often as
    necessary; or "wait" for the lock, which occupies the worker's process, for as long as the option `wait` allows."""

    lock_delay: float = 5.0

    locks: Optional[Locks] = None
    """By default those of the server in the setting `lock_so_url`, or of the broker."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if isfunction(cls.__dict__.get("lock")):
            cls.lock = staticmethod(cls.__dict__["lock"])
        if cls.lock_conflict not in ("skip", "retry", "wait"):
            raise ValueError(f'lock_conflict must be "skip", "retry" or "wait", not {cls.lock_conflict!r}')

    @property
    def hold(self) -> Optional[Hold]:
        """The hold of the run in this thread: `token`, `is_lost`, `guard()`."""
        return _current.get()

    def on_lock_lost(self, hold: Hold) -> None:
        """Is called, in another thread, within milliseconds after the lock of a run was lost, unless `lock` returns a lock,
        which has an `on_lost` of its own. The run continues, and ends with NotHeld."""
        keys = ", ".join(map(str, hold.keys))
        logger.error("Task %s has lost its lock %s while it runs: another run may begin", self.name, keys)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        request, lock = self.request, self._lock(*args, **kwargs)
        if request.called_directly or request.is_eager or "lock_hold" in request.__dict__:
            with self._acquired(lock) as hold:
                return self._run(super().__call__ if request.called_directly else self.run, hold, args, kwargs)
        hold = self._acquire(request, lock)
        request.lock_hold = hold
        result = self._run(self.run, hold, args, kwargs)
        if hold.is_lost:
            raise NotHeld(f"{self.name} has lost its lock while it ran", keys=hold.keys)
        return result

    def _lock(self, *args: Any, **kwargs: Any) -> Lock:
        found: Any = self.lock(*args, **kwargs) if callable(self.lock) else self.lock or f"celery:{self.name}"
        if not isinstance(found, (str, bytes)):
            return found  # type: ignore[no-any-return]
        options = {"session": "lease" not in self.lock_options, "on_lost": self.on_lock_lost, **self.lock_options}
        return (self.locks or locks_of(self.app)).lock(found, **options)

    def _acquired(self, lock: Lock) -> Hold:
        """A try has 0.1 s in all, which may be too short for a first connection: it is repeated for some time. If an earlier
        one had no reply, it may be that one that holds the lock: then Unsure is raised instead of NotAcquired."""
        if self.lock_conflict == "wait":
            return lock.acquire()
        until, problem = time.monotonic() + CONNECTING, None
        while True:
            try:
                return lock.acquire(wait=0)
            except NotAcquired as error:
                if problem:
                    raise Unsure(str(error)) from problem
                raise
            except redis.RedisError as error:
                problem = error
                if time.monotonic() >= until:
                    raise
            time.sleep(0.05)

    def _run(self, call: Callable[..., Any], hold: Hold, args: Any, kwargs: Any) -> Any:
        before = _current.set(hold)
        try:
            return call(*args, **kwargs)
        finally:
            _current.reset(before)

    def _acquire(self, request: Any, lock: Lock) -> Hold:
        """Raises Ignore, Reject or Retry, which end the handling of the message."""
        is_second = bool((request.delivery_info or {}).get("redelivered") or getattr(request, REDELIVERED, False))
        headers = {**(request.headers or {}), **({REDELIVERED: True} if is_second else {})}
        try:
            hold = self._acquired(lock)
        except ModuleMissing:
            raise
        except NotAcquired as error:
            if self.lock_conflict == "wait":
                raise self.retry(exc=error, headers=headers)
            if self.lock_conflict == "skip" and not is_second and not isinstance(error, Unsure):
                self._skip(request, error)
            self._try_again(request, headers, error)
        except (LockError, redis.RedisError) as error:
            raise self.retry(exc=error, headers=headers)
        if is_second:
            self._check_result(request, headers, hold)
        return hold

    def _skip(self, request: Any, error: NotAcquired) -> NoReturn:
        logger.info("Skipped: %s", error)
        store = not (self.ignore_result or request.ignore_result)
        self.backend.mark_as_revoked(request.id, str(error), request=request, store_result=store)
        raise Ignore(str(error))

    def _try_again(self, request: Any, headers: Any, error: NotAcquired) -> NoReturn:
        """Not by retry(), which counts: a task's own retries are for its own errors."""
        again = self.signature_from_request(request, countdown=self.lock_delay, retries=request.retries, headers=headers)
        try:
            again.apply_async()
        except Exception as problem:
            raise Reject(problem, requeue=True)
        raise Retry(exc=error, when=self.lock_delay, sig=again)

    def _check_result(self, request: Any, headers: Any, hold: Hold) -> None:
        """Ends the handling of the message if its first run has succeeded."""
        try:
            if self.AsyncResult(request.id).state == SUCCESS:
                raise Ignore("an earlier delivery of this message has succeeded")
        except NotImplementedError:  # there is no result backend
            pass
        except Ignore:
            _release(hold, self.name)
            raise
        except Exception as error:
            _release(hold, self.name)
            raise self.retry(exc=error, headers=headers)


def _release(hold: Hold, name: str) -> None:
    try:
        hold.release()
    except NotHeld as error:
        logger.error("Task %s: %s", name, error)
    except Exception as error:  # its lease or session ends by itself
        logger.warning("Task %s: the lock could not be released: %s", name, error)


@task_postrun.connect  # type: ignore[untyped-decorator]
def _ended(task: Any = None, **_: Any) -> None:
    hold = task.request.__dict__.pop("lock_hold", None) if isinstance(task, LockedTask) else None
    if hold:
        _release(hold, task.name)
