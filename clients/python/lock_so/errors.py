"""The errors of a lock. Connection errors of redis-py are passed on unchanged."""

import re
from typing import Any, Optional, Sequence

import redis.exceptions as library

from ._spec import Key, Spec, is_own

_UNKNOWN = re.compile(r"(ERR )?unknown command .(LOCK|LATCH|DELAY)\.")


class LockError(Exception):
    """The base class of all errors of this package. Their texts begin with the lock that they concern. They can be pickled."""


class NotAcquired(LockError, TimeoutError):
    """The lock was not acquired in time; nothing of the request is left on the server, or will be soon. `holders`: who
    holds it, as far as that is known. `__cause__` is redis-py's error if there was no connection at the end. It is a
    TimeoutError, and therefore an OSError, too."""

    def __init__(self, text: str = "", *, keys: Sequence[Key] = (), wait: float = 0, holders: Sequence[str] = ()):
        super().__init__(text)
        self.keys, self.wait, self.holders = tuple(keys), wait, list(holders)


class NotHeld(LockError):
    """The lock was lost before it was released, or was released before: another owner may hold it."""

    def __init__(self, text: str = "", *, keys: Sequence[Key] = ()):
        super().__init__(text)
        self.keys = tuple(keys)


class Deadlock(LockError):
    """The wait would have closed a cycle; the text names who waits for whom."""


class NoReplicas(LockError):
    """Too few replicas acknowledged the grant; the lock is not held."""


class Cancelled(LockError):
    """A Cancellation ended the wait; nothing of the request is left on the server."""


class Closed(LockError):
    """The Locks were closed before or during the wait."""

    def __init__(self, text: str = "these Locks are closed"):
        super().__init__(text)


class Refused(LockError):
    """Any other error reply of the server; `code` is its first word."""

    def __init__(self, text: str = "", *, code: str = "ERR"):
        super().__init__(text)
        self.code = code


class ModuleMissing(Refused):
    """The server does not know the commands of lock.so."""


class Busy(library.TimeoutError):
    """All connections that short commands may use were in use for too long. It is no fault of the server."""


def not_acquired(spec: Spec, wait: float, holders: Sequence[str] = (), cause: Optional[Exception] = None) -> NotAcquired:
    within = f" within {wait:g} s" if wait else ""
    after = f": {cause}" if cause else f": held by {_listed(holders)}" if holders else ""
    text = f"{spec.named} was not acquired{within}{after}"
    return NotAcquired(text, keys=spec.keys, wait=wait, holders=holders)


def not_held(spec: Spec, why: str) -> NotHeld:
    return NotHeld(f"{spec.named} is not held: {why}", keys=spec.keys)


def closed(spec: Spec) -> Closed:
    return Closed(f"{spec.named}: {Closed()}")


def _listed(owners: Sequence[str]) -> str:
    owners = [f"{owner} (this process)" if is_own(owner) else owner for owner in owners]
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

# The server is not ready, or is not the right one.
_TRANSIENT = ("READONLY", "UNBLOCKED", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "MOVED", "ASK")


def code_of(error: BaseException) -> str:
    """The code of an error reply: NOTHELD, WRONGTYPE, ERR, …"""
    for cls in type(error).__mro__:
        if cls in _CODES:
            return _CODES[cls]
    first = str(error).partition(" ")[0]
    return first if first.isupper() else "ERR"


def is_connection(error: BaseException) -> bool:
    """Whether the error is about the connection."""
    if isinstance(error, (library.AuthenticationError, LockError)):
        return False
    return isinstance(error, (library.ConnectionError, library.TimeoutError, OSError))


def is_transient(error: BaseException) -> bool:
    """Whether the command may succeed if it is sent again, on a new connection."""
    if is_connection(error):
        return True
    return isinstance(error, library.ResponseError) and code_of(error) in _TRANSIENT


def is_not_held(error: BaseException) -> bool:
    return isinstance(error, library.ResponseError) and code_of(error) == "NOTHELD"


def reason_of(error: BaseException, address: Any) -> str:
    """Of an error reply the server's own text, with the code that redis-py removes, or that the module is missing."""
    code, text = code_of(error), str(error)
    if not isinstance(error, library.ResponseError):
        return text
    if _is_unknown(text):
        return f"unknown command: is lock.so loaded on {address}?"
    return text if text.split(" ")[0] == code else f"{code} {text}"


def _is_unknown(text: str) -> bool:
    """Whether this is the error reply of a server without the module. That for an unknown command in LOCK.GUARD is not."""
    return _UNKNOWN.match(text) is not None


def typed(error: Exception, spec: Spec, server: Any) -> Exception:
    """The error to raise: one of this package, which names the lock, for an error reply and for what the connections raise;
    any other error unchanged."""
    if isinstance(error, Closed):
        return closed(spec)
    if not isinstance(error, (library.ResponseError, Refused)) or isinstance(error, library.AuthenticationError):
        return error
    code, text = code_of(error), f"{spec.named}: {reason_of(error, server.address(spec.key))}"
    if _is_unknown(str(error)):
        return ModuleMissing(text)
    if code == "DEADLOCK":
        return Deadlock(text)
    return NoReplicas(text) if code == "NOREPLICAS" else Refused(text, code=code)
