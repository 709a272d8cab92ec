"""A decorator for functions and coroutine functions that are to run with a lock held."""

import functools
import inspect
from contextvars import ContextVar
from typing import Any, Callable, Optional, TypeVar, Union

from . import _sync, aio

__all__ = ["current_hold", "locked"]

F = TypeVar("F", bound=Callable[..., Any])
AnyLock = Union[_sync.Lock, aio.Lock]

_current: "ContextVar[Any]" = ContextVar("lock_so.current_hold", default=None)


def locked(lock: Union[AnyLock, Callable[..., AnyLock]]) -> Callable[[F], F]:
    """Acquires a lock before each call, and releases it when the call ends.

    `lock`: a lock of any kind, with its options, or a function that returns one: it is called with the arguments of each
    call, so that a key may be made of them. For a coroutine function it is a lock of lock_so.aio.

    The call raises what acquire() raises, before the function has begun: NotAcquired, for instance. If the lock was lost
    meanwhile and the function has raised no error of its own, it raises NotHeld instead of returning. The options `on_lost`
    and `cancel_on_loss` (coroutines) are for what is to happen at once; current_hold() is the hold.
    """
    if not callable(lock):
        _check(lock, _sync.Lock, aio.Lock)

    def decorate(function: F) -> F:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{_named(function)} is a generator, whose body runs after the call: lock what it does instead")
        is_async = inspect.iscoroutinefunction(function)
        if not callable(lock):
            _check(lock, aio.Lock if is_async else _sync.Lock)
        found: Any = (_asynchronous if is_async else _synchronous)(lock, function)
        functools.update_wrapper(found, function)
        return found  # type: ignore[no-any-return]

    return decorate


def current_hold() -> Optional[Any]:
    """The hold of the call that runs in this thread or task, with its `token`, `is_lost` and `guard()`: that of the innermost
    one, if several functions with locks call each other. None outside of such calls, and in threads that they start."""
    return _current.get()


def _synchronous(lock: Any, function: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        with _made(lock, args, kwargs, _sync.Lock).acquire() as hold:
            before = _current.set(hold)
            try:
                result = function(*args, **kwargs)
            finally:
                _current.reset(before)
            if inspect.iscoroutine(result):
                result.close()
                raise TypeError(f"{_named(function)} returned a coroutine, which runs after the call: decorate that instead")
            return result

    return call


def _asynchronous(lock: Any, function: Any) -> Any:
    async def call(*args: Any, **kwargs: Any) -> Any:
        async with await _made(lock, args, kwargs, aio.Lock).acquire() as hold:
            before = _current.set(hold)
            try:
                return await function(*args, **kwargs)
            finally:
                _current.reset(before)

    return call


def _made(lock: Any, args: Any, kwargs: Any, kind: Any) -> Any:
    return _check(lock(*args, **kwargs), kind) if callable(lock) else lock


def _check(lock: Any, *kinds: Any) -> Any:
    if not isinstance(lock, kinds):
        names = " or ".join(f"{kind.__module__.replace('._sync', '')}.Lock" for kind in kinds)
        raise TypeError(f"the lock must be a {names}, or a function that returns one, not {lock!r}")
    return lock


def _named(function: Any) -> str:
    return f"{getattr(function, '__qualname__', function)}()"
