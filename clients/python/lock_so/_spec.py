"""The settings of a lock, how texts name it, and the arguments of its commands."""

import os
import secrets
import socket
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple, Union

Key = Union[str, bytes]
Words = List[Any]

# The command that acquires it, and its name in texts.
KINDS = {
    "lock": ("LOCK.ACQUIRE", "lock"),
    "fair": ("LOCK.FAIR", "fair lock"),
    "read": ("LOCK.RWREAD", "read lock"),
    "write": ("LOCK.RWWRITE", "write lock"),
    "multi": ("LOCK.MACQUIRE", "multi-key lock"),
    "semaphore": ("LOCK.SEMAPHORE", "semaphore"),
}


def text_of(name: Any) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)


def new_owner() -> str:
    return f"{_HOST}:{os.getpid()}:{secrets.token_hex(8)}"


_HOST = socket.gethostname().replace(":", "_")


def check_positive(name: str, value: float) -> None:
    if not 0 < value < float("inf"):
        raise ValueError(f"{name} must be greater than 0, not {value:g}")


def check_wait(wait: Optional[float]) -> None:
    if wait is not None and not wait >= 0:
        raise ValueError(f"wait must not be negative, not {wait:g}")


@dataclass(frozen=True)
class Spec:
    """One lock. Times are in seconds; `replicas` is (number, seconds)."""

    kind: str
    keys: Tuple[Key, ...]
    lease: float = 30.0
    session: bool = False
    fenced: bool = False
    replicas: Optional[Tuple[int, float]] = None
    renew: bool = True
    limit: int = 1
    permits: int = 1

    def __post_init__(self) -> None:
        if not self.keys:
            raise ValueError("keys must not be empty")
        for key in self.keys:
            if not isinstance(key, (str, bytes)):
                raise TypeError(f"a key must be str or bytes, not {key!r}")
        check_positive("lease", self.lease)
        if self.replicas is not None:
            if self.replicas[0] < 1:
                raise ValueError(f"replicas must be at least 1, not {self.replicas[0]}")
            check_positive("replicas: the time", self.replicas[1])
        if self.limit < 1:
            raise ValueError(f"limit must be at least 1, not {self.limit}")
        if not 1 <= self.permits <= self.limit:
            raise ValueError(f"permits must be from 1 to the limit of {self.limit}, not {self.permits}")

    @property
    def key(self) -> Key:
        """The key by which commands are routed: all keys are in one slot."""
        return self.keys[0]

    @property
    def named(self) -> str:
        keys = ", ".join(f'"{text_of(key)}"' for key in self.keys)
        return f"{KINDS[self.kind][1]} {keys}"

    def acquire(self, owner: str, block_ms: Optional[int]) -> Words:
        """The command that acquires it. `block_ms`: None does not block, 0 has no limit."""
        block = [] if block_ms is None else ["BLOCK", block_ms]
        options = [*self._lease(), *block, *(["FENCED"] if self.fenced else []), "ONCE", *self._replicas()]
        if self.kind == "multi":
            return ["LOCK.MACQUIRE", len(self.keys), *self.keys, owner, *options]
        limit = [self.limit, "PERMITS", self.permits] if self.kind == "semaphore" else []
        return [KINDS[self.kind][0], self.key, owner, *limit, *options]

    def release(self, owner: str) -> Words:
        if self.kind == "multi":
            return ["LOCK.MRELEASE", len(self.keys), *self.keys, owner]
        return ["LOCK.RELEASE", self.key, owner, *self._which()]

    def cancel(self, owner: str) -> Words:
        """Ends the wait, or releases the hold if it was granted already; for a multi-key lock it only ends the wait."""
        if self.kind == "multi":
            return ["LOCK.CANCEL", self.key, owner]
        return ["LOCK.CANCEL", self.key, owner, "RELEASE", *self._which()]

    def renew_key(self, key: Key, owner: str) -> Words:
        return ["LOCK.RENEW", key, owner, *self._lease(), *self._replicas()]

    @staticmethod
    def watch(key: Key, owner: str, block_ms: int) -> Words:
        return ["LOCK.WATCH", key, owner, "BLOCK", block_ms]

    def _lease(self) -> Words:
        return ["SESSION"] if self.session else ["PX", max(1, round(self.lease * 1000))]

    def _which(self) -> Words:
        if self.kind == "semaphore":
            return ["PERMITS", self.permits]
        return [self.kind.upper()] if self.kind in ("read", "write") else []

    def _replicas(self) -> Words:
        return ["REPLICAS", self.replicas[0], max(1, round(self.replicas[1] * 1000))] if self.replicas else []


def holders_of(info: Any) -> List[str]:
    """The owners that hold a lock, from the reply of LOCK.INFO in RESP2 or RESP3, decoded or not."""
    info = _fields(info)
    return [text_of(_fields(one)["owner"]) for one in info.get("holders", [])]


def _fields(reply: Any) -> Dict[str, Any]:
    pairs = reply.items() if isinstance(reply, dict) else zip((reply or [])[::2], (reply or [])[1::2])
    return {text_of(name): value for name, value in pairs}
