"""The settings of a lock and the methods that create locks, how texts name it, and the arguments of its commands.
Times are in seconds."""

import os
import secrets
import socket
from dataclasses import dataclass
from numbers import Real
from typing import Any, Callable, Dict, Generic, Iterable, List, NamedTuple, Optional, Tuple, TypeVar, Union

Key = Union[str, bytes]
Words = List[Any]
L = TypeVar("L")
H = TypeVar("H")
C = TypeVar("C")
Replicas = Optional[Tuple[int, float]]
OnLost = Optional[Callable[[H], Any]]

# The command that acquires it, and its name in texts.
KINDS = {
    "lock": ("LOCK.ACQUIRE", "lock"),
    "fair": ("LOCK.FAIR", "fair lock"),
    "read": ("LOCK.RWREAD", "read lock"),
    "write": ("LOCK.RWWRITE", "write lock"),
    "multi": ("LOCK.MACQUIRE", "multi-key lock"),
    "semaphore": ("LOCK.SEMAPHORE", "semaphore"),
    "latch": ("LATCH.WAIT", "latch"),
    "queue": ("", "delayed queue"),
    "combined": ("", "combined lock"),
    "redlock": ("LOCK.ACQUIRE", "RedLock"),
}


def text_of(name: Any) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)


def new_owner() -> str:
    return f"{_this_process()}{secrets.token_hex(8)}"


def is_own(owner: str) -> bool:
    """Whether it is an owner of this process."""
    return owner.startswith(_this_process())


def _this_process() -> str:
    return f"{_HOST}:{os.getpid()}:"


_HOST = socket.gethostname().replace(":", "_")


def check_positive(name: str, value: Any) -> None:
    if not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, not {value!r}")
    if not float(value) > 0:
        raise ValueError(f"{name} must be greater than 0, not {float(value):g}")
    if value == float("inf"):
        raise ValueError(f"{name} must have a limit, not inf")


def check_lease(lease: Any) -> None:
    check_positive("lease", lease)
    if lease < 0.001:
        raise ValueError(f"lease must be at least 1 ms, not {float(lease):g} s")


def check_delay(name: str, value: Any) -> None:
    if not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, not {value!r}")
    if not 0 <= float(value) < float("inf"):
        raise ValueError(f"{name} must have a limit and not be negative, not {float(value):g}")


def check_count(name: str, value: Any, least: int = 1) -> None:
    if not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, not {value}")


def check_key(key: Any) -> None:
    if not isinstance(key, (str, bytes)):
        raise TypeError(f"a key must be str or bytes, not {key!r}")


def ms_of(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def encoded(text: Key) -> bytes:
    return text.encode() if isinstance(text, str) else text


def checked_wait(wait: Any) -> Optional[float]:
    """None if it has no limit."""
    if wait is None or wait == float("inf"):
        return None
    if not isinstance(wait, Real):
        raise TypeError(f"wait must be a number, not {wait!r}")
    if not float(wait) >= 0:
        raise ValueError(f"wait must not be negative, not {float(wait):g}")
    return float(wait)


@dataclass(frozen=True)
class Spec:
    """One lock. `replicas` is (number, seconds)."""

    kind: str
    keys: Tuple[Key, ...]
    lease: float = 30.0
    session: bool = False
    replicas: Replicas = None
    renew: bool = True
    fenced: bool = False
    limit: int = 1
    permits: int = 1
    modes: Tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.keys:
            raise ValueError("keys must not be empty")
        for key in self.keys:
            check_key(key)
        check_lease(self.lease)
        if self.replicas is not None:
            if not isinstance(self.replicas, (tuple, list)) or len(self.replicas) != 2:
                raise TypeError(f"replicas must be (number, seconds), not {self.replicas!r}")
            check_count("replicas", self.replicas[0])
            check_positive("replicas: the time", self.replicas[1])
        check_count("limit", self.limit)
        if not 1 <= self.permits <= self.limit:
            raise ValueError(f"permits must be from 1 to the limit of {self.limit}, not {self.permits}")

    @property
    def key(self) -> Key:
        """The key by which commands are routed: all keys are in one slot."""
        return self.keys[0]

    @property
    def identity(self) -> Any:
        """Equal for locks of which a reentrant one enters the other."""
        return self.kind, tuple(map(encoded, self.keys)), self.modes

    @property
    def replica_time(self) -> float:
        """How much later a reply may be because of replicas."""
        return self.replicas[1] if self.replicas else 0.0

    @property
    def named(self) -> str:
        keys = ", ".join(f'"{text_of(key)}"' for key in self.keys)
        return f"{KINDS[self.kind][1]} {keys}"

    def acquire(self, owner: str, block_ms: Optional[int]) -> Words:
        """The command that acquires it. `block_ms`: None does not block, 0 has no limit."""
        block = [] if block_ms is None else ["BLOCK", block_ms]
        if self.kind == "latch":
            return ["LATCH.WAIT", self.key, *block]
        options = [*self._lease(), *block, *(["FENCED"] if self.fenced else []), "ONCE", *self._replicas()]
        if self.kind == "multi":
            return ["LOCK.MACQUIRE", *self._several(owner), *self._modes(), *options]
        limit = [self.limit, "PERMITS", self.permits] if self.kind == "semaphore" else []
        return [KINDS[self.kind][0], self.key, owner, *limit, *options]

    def release(self, owner: str) -> Words:
        if self.kind == "multi":
            return ["LOCK.MRELEASE", *self._several(owner), *self._modes()]
        return ["LOCK.RELEASE", self.key, owner, *self._selection()]

    def cancel(self, owner: str) -> Words:
        """Ends the wait, or releases the hold if it was granted already; for a multi-key lock it only ends the wait."""
        if self.kind == "multi":
            return ["LOCK.CANCEL", self.key, owner]
        return ["LOCK.CANCEL", self.key, owner, "RELEASE", *self._selection()]

    def renewal(self, owner: str, binds: bool = True) -> Words:
        """`binds`: a session's hold is bound to the connection of this command."""
        command = ["LOCK.MRENEW", *self._several(owner)] if self.kind == "multi" else ["LOCK.RENEW", self.key, owner]
        return [*command, *(self._lease() if binds or not self.session else []), *self._replicas()]

    @staticmethod
    def watch(key: Key, owner: str, block_ms: int) -> Words:
        return ["LOCK.WATCH", key, owner, "BLOCK", block_ms]

    def _several(self, owner: str) -> Words:
        return [len(self.keys), *self.keys, owner]

    def _modes(self) -> Words:
        return ["MODES", *self.modes] if self.modes else []

    def _lease(self) -> Words:
        return ["SESSION"] if self.session else ["PX", ms_of(self.lease)]

    def _selection(self) -> Words:
        if self.kind == "semaphore":
            return ["PERMITS", self.permits]
        return [self.kind.upper()] if self.kind in ("read", "write") else []

    def _replicas(self) -> Words:
        return ["REPLICAS", self.replicas[0], ms_of(self.replicas[1])] if self.replicas else []


def holders_of(info: Any) -> List[str]:
    """The owners that hold a lock, from the reply of LOCK.INFO in RESP2 or RESP3, decoded or not."""
    return [text_of(fields_of(one)["owner"]) for one in fields_of(info).get("holders", [])]


def fields_of(reply: Any) -> Dict[str, Any]:
    """The fields of a map, from a reply in RESP2 or RESP3."""
    pairs = reply.items() if isinstance(reply, dict) else zip((reply or [])[::2], (reply or [])[1::2])
    return {text_of(name): value for name, value in pairs}


class Use(NamedTuple):
    """How a program uses a lock: what the server does not need to know."""

    wait: Any
    on_lost: Any
    cancel_on_loss: Any
    reentrant: bool = False


class Factory(Generic[L, H, C]):
    """Options of every kind:

    wait     how long to wait for the lock: None has no limit, 0 only tries
    lease    how long the lock stays held if this program ends or cannot reach the server; renewed after a third of it
    session  the server renews the lease, for as long as the connection of the hold lives
    fenced   request a fencing token (only for lock(), fair() and write())
    replicas (n, seconds): n replicas must acknowledge the grant within this time
    renew    False: the lease is not renewed
    on_lost  called once, with the hold, when it is lost before the release: soon, if the server can be reached
    reentrant  the thread or task that holds this lock by a reentrant lock object of these Locks enters it again, without a
             request: the last release releases it. The options are those of the first acquisition
    cancel_on_loss  only with asyncio: a loss cancels the body of `async with`, which then ends with NotHeld
    """

    _make: Callable[..., L]

    def lock(self, key: Key, *, wait: Optional[float] = None, lease: float = 30.0, session: bool = False,
             fenced: bool = False, replicas: Replicas = None, renew: bool = True, on_lost: OnLost[H] = None,
             cancel_on_loss: Optional[C] = None, reentrant: bool = False) -> L:  # fmt: skip
        """A lock with one owner at a time."""
        return self._make("lock", (key,), Use(wait, on_lost, cancel_on_loss, reentrant), lease, session, replicas, renew, fenced)

    def fair(self, key: Key, *, wait: Optional[float] = None, lease: float = 30.0, session: bool = False,
             fenced: bool = False, replicas: Replicas = None, renew: bool = True, on_lost: OnLost[H] = None,
             cancel_on_loss: Optional[C] = None, reentrant: bool = False) -> L:  # fmt: skip
        """The same lock, strictly first come, first served."""
        return self._make("fair", (key,), Use(wait, on_lost, cancel_on_loss, reentrant), lease, session, replicas, renew, fenced)

    def read(self, key: Key, *, wait: Optional[float] = None, lease: float = 30.0, session: bool = False,
             replicas: Replicas = None, renew: bool = True, on_lost: OnLost[H] = None,
             cancel_on_loss: Optional[C] = None, reentrant: bool = False) -> L:  # fmt: skip
        """The read lock of a read-write lock, shared with other readers."""
        return self._make("read", (key,), Use(wait, on_lost, cancel_on_loss, reentrant), lease, session, replicas, renew)

    def write(self, key: Key, *, wait: Optional[float] = None, lease: float = 30.0, session: bool = False,
              fenced: bool = False, replicas: Replicas = None, renew: bool = True, on_lost: OnLost[H] = None,
              cancel_on_loss: Optional[C] = None, reentrant: bool = False) -> L:  # fmt: skip
        """The write lock of a read-write lock, held alone."""
        return self._make("write", (key,), Use(wait, on_lost, cancel_on_loss, reentrant), lease, session, replicas, renew, fenced)

    def multi(self, *keys: Key, read: Iterable[Key] = (), write: Iterable[Key] = (), wait: Optional[float] = None,
              lease: float = 30.0, session: bool = False, replicas: Replicas = None, renew: bool = True,
              on_lost: OnLost[H] = None, cancel_on_loss: Optional[C] = None, reentrant: bool = False) -> L:  # fmt: skip
        """A multi-key lock: all of these keys, or none; in a cluster those of one slot after those of the other. With `read`
        and `write` these are read-write locks, to be read and to be written; a key in both is written."""
        if isinstance(read, (str, bytes)) or isinstance(write, (str, bytes)):
            raise TypeError("read and write must be lists of keys")
        written = tuple(write)
        found = *(key for key in read if key not in written), *written
        if keys and found:
            raise ValueError("keys: either all of them are exclusive, or each is in read or write")
        modes = ("READ",) * (len(found) - len(written)) + ("WRITE",) * len(written)
        return self._make("multi", keys or found, Use(wait, on_lost, cancel_on_loss, reentrant), lease, session, replicas, renew,
                          modes=modes)  # fmt: skip

    def semaphore(self, key: Key, limit: int, permits: int = 1, *, wait: Optional[float] = None, lease: float = 30.0,
                  session: bool = False, replicas: Replicas = None, renew: bool = True, on_lost: OnLost[H] = None,
                  cancel_on_loss: Optional[C] = None) -> L:  # fmt: skip
        """`permits` permits of a semaphore; a grant requires that at most `limit` are held then."""
        return self._make("semaphore", (key,), Use(wait, on_lost, cancel_on_loss), lease, session, replicas, renew,
                          False, limit, permits)  # fmt: skip
