"""What can go wrong with a lock. Errors of redis-py about the connection pass through as they are."""

import redis.exceptions as library


class LockError(Exception):
    """The base of all errors of this package."""


class NotAcquired(LockError, TimeoutError):
    """The lock was not had in time; nothing of the request is left."""


class NotHeld(LockError):
    """The lock was lost before it was released: somebody else may have had it meanwhile."""


class Deadlock(LockError):
    """The wait would have closed a cycle; the text names who waits for whom."""


class NoReplicas(LockError):
    """Too few replicas have the grant; the lock is not held."""


class Cancelled(LockError):
    """The wait was given up, by a Cancellation; nothing of it is left."""


class Refused(LockError):
    """Any other error that the server answers; `code` is its first word."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


_TYPES = {"NOTHELD": NotHeld, "DEADLOCK": Deadlock, "NOREPLICAS": NoReplicas}

# redis-py takes these codes out of the text.
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

# The server that has said so cannot answer now, or is not the one to ask; a connection that is made anew may be.
_PASSING = ("READONLY", "UNBLOCKED", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "MOVED", "ASK")


def code_of(error):
    """The code of an error that the server has answered: NOTHELD, WRONGTYPE, ERR, …"""
    for cls in type(error).__mro__:
        if cls in _CODES:
            return _CODES[cls]
    first = str(error).partition(" ")[0]
    return first if first.isupper() else "ERR"


def is_passing(error):
    """Whether it may be otherwise if the command is sent again, on a new connection."""
    if isinstance(error, library.AuthenticationError):
        return False
    if isinstance(error, (library.ConnectionError, library.TimeoutError, OSError)):
        return True
    return isinstance(error, library.ResponseError) and code_of(error) in _PASSING


def typed(error):
    """The error to raise for one that a command has met: of this package, if the server has answered it."""
    if not isinstance(error, library.ResponseError) or isinstance(error, library.AuthenticationError):
        return error
    code = code_of(error)
    return _TYPES[code](str(error)) if code in _TYPES else Refused(code, str(error))
