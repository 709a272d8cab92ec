"""The errors of a lock. Connection errors of redis-py are passed on unchanged."""

from typing import Any, List, Optional

import redis.exceptions as library

from ._spec import Spec


class LockError(Exception):
    """The base class of all errors of this package."""


class NotAcquired(LockError, TimeoutError):
    """The lock was not acquired in time; nothing of the request is left on the server, or will be soon. `holders`: who
    holds it, as far as that is known. `__cause__` is redis-py's error if there was no connection at the end."""

    def __init__(self, spec: Spec, wait: float, holders: Optional[List[str]] = None, cause: Optional[Exception] = None):
        self.keys, self.wait, self.holders = spec.keys, wait, list(holders or [])
        within = f" within {wait:g} s" if wait else ""
        after = f": {cause}" if cause else f": held by {_listed(self.holders)}" if self.holders else ""
        super().__init__(f"{spec.named} was not acquired{within}{after}")


class NotHeld(LockError):
    """The lock was lost before it was released, or was released before: another owner may hold it."""

    def __init__(self, spec: Spec, why: str = ""):
        self.keys = spec.keys
        super().__init__(f"{spec.named} is not held" + (f": {why}" if why else ""))


class Deadlock(LockError):
    """The wait would have closed a cycle; the text names who waits for whom."""


class NoReplicas(LockError):
    """Too few replicas acknowledged the grant; the lock is not held."""


class Cancelled(LockError):
    """A Cancellation ended the wait; nothing of the request is left on the server."""


class Closed(LockError):
    """The Locks were closed before or during the wait."""

    def __init__(self) -> None:
        super().__init__("these Locks are closed")


class Refused(LockError):
    """Any other error reply of the server; `code` is its first word."""

    def __init__(self, code: str, text: str):
        super().__init__(text)
        self.code = code


class ModuleMissing(Refused):
    """The server does not know the commands of lock.so."""

    def __init__(self, address: str):
        super().__init__("ERR", f"unknown command: is lock.so loaded on {address}?")


def _listed(owners: List[str]) -> str:
    if len(owners) < 3:
        return " and ".join(owners)
    others = f"{len(owners) - 2} other" + ("s" if len(owners) > 3 else "")
    return f"{owners[0]}, {owners[1]} and {others}"


# redis-py removes these codes from the text.
_CODES = {
    library.MovedError: "MOVED",
    library.AskError: "ASK",
    library.TryAgainError: "TRYAGAIN",
    library.ClusterDownError: "CLUSTERDOWN",
    library.MasterDownError: "MASTERDOWN",
    library.ClusterCrossSlotError: "CROSSSLOT",
    library.ReadOnlyError: "READONLY",
    library.OutOfMemoryError: "OOM",
    library.NoPermissionError: "NOPERM",
}

# Transient errors: the server is not ready, or is not the right one. The command is sent again, on a new connection.
_PASSING = ("READONLY", "UNBLOCKED", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "MOVED", "ASK")


def code_of(error: BaseException) -> str:
    """The code of an error reply: NOTHELD, WRONGTYPE, ERR, …"""
    for cls in type(error).__mro__:
        if cls in _CODES:
            return _CODES[cls]
    first = str(error).partition(" ")[0]
    return first if first.isupper() else "ERR"


def is_connection(error: BaseException) -> bool:
    """Whether the error is about the connection."""
    if isinstance(error, library.AuthenticationError):
        return False
    return isinstance(error, (library.ConnectionError, library.TimeoutError, OSError))


def is_passing(error: BaseException) -> bool:
    """Whether the error is transient: the command may succeed if it is sent again, on a new connection."""
    if is_connection(error):
        return True
    return isinstance(error, library.ResponseError) and code_of(error) in _PASSING


def is_not_held(error: BaseException) -> bool:
    return isinstance(error, library.ResponseError) and code_of(error) == "NOTHELD"


def typed(error: Exception, address: Any = "the server") -> Exception:
    """The error to raise: one of this package for an error reply, and any other error unchanged."""
    if not isinstance(error, library.ResponseError) or isinstance(error, library.AuthenticationError):
        return error
    code, text = code_of(error), str(error)
    if text.startswith("unknown command"):
        return ModuleMissing(address)
    if code == "DEADLOCK":
        return Deadlock(text)
    return NoReplicas(text) if code == "NOREPLICAS" else Refused(code, text)
