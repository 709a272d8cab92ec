"""The errors of a lock. Connection errors of redis-py are passed on unchanged."""

import redis.exceptions as library


class LockError(Exception):
    """The base class of all errors of this package."""


class NotAcquired(LockError, TimeoutError):
    """The lock was not acquired in time; nothing of the request is left on the server."""


class NotHeld(LockError):
    """The lock was lost before it was released: another owner may have held it meanwhile."""


class Deadlock(LockError):
    """The wait would have closed a cycle; the text names who waits for whom."""


class NoReplicas(LockError):
    """Too few replicas acknowledged the grant; the lock is not held."""


class Cancelled(LockError):
    """A Cancellation ended the wait; nothing of the request is left on the server."""


class Refused(LockError):
    """Any other error reply of the server; `code` is its first word."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


_TYPES = {"NOTHELD": NotHeld, "DEADLOCK": Deadlock, "NOREPLICAS": NoReplicas}

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


def code_of(error):
    """The code of an error reply: NOTHELD, WRONGTYPE, ERR, …"""
    for cls in type(error).__mro__:
        if cls in _CODES:
            return _CODES[cls]
    first = str(error).partition(" ")[0]
    return first if first.isupper() else "ERR"


def is_passing(error):
    """Whether the error is transient: the command may succeed if it is sent again, on a new connection."""
    if isinstance(error, library.AuthenticationError):
        return False
    if isinstance(error, (library.ConnectionError, library.TimeoutError, OSError)):
        return True
    return isinstance(error, library.ResponseError) and code_of(error) in _PASSING


def typed(error):
    """The error to raise: one of this package for an error reply, and any other error unchanged."""
    if not isinstance(error, library.ResponseError) or isinstance(error, library.AuthenticationError):
        return error
    code = code_of(error)
    return _TYPES[code](str(error)) if code in _TYPES else Refused(code, str(error))
