"""The settings of a lock, and the arguments of its commands."""

from dataclasses import dataclass
from typing import Optional, Tuple

COMMANDS = {
    "lock": "LOCK.ACQUIRE",
    "fair": "LOCK.FAIR",
    "read": "LOCK.RWREAD",
    "write": "LOCK.RWWRITE",
    "multi": "LOCK.MACQUIRE",
    "semaphore": "LOCK.SEMAPHORE",
}
FENCED = ("lock", "fair", "write")


@dataclass(frozen=True)
class Spec:
    """One lock. `lease_ms` is in ms; `replicas` is (number, ms)."""

    kind: str
    keys: Tuple[str, ...]
    lease_ms: int = 30_000
    session: bool = False
    fenced: bool = False
    limit: Optional[int] = None
    permits: int = 1
    replicas: Optional[Tuple[int, int]] = None
    renew: bool = True

    def __post_init__(self):
        if self.kind not in COMMANDS:
            raise ValueError(f"no such kind of lock: {self.kind}")
        if not self.keys or (self.kind != "multi" and len(self.keys) > 1):
            raise ValueError(f"{len(self.keys)} keys for a lock of the kind {self.kind}")
        if self.fenced and self.kind not in FENCED:
            raise ValueError(f"a lock of the kind {self.kind} has no fencing token")
        if self.kind == "semaphore" and self.limit is None:
            raise ValueError("a semaphore needs a limit")

    @property
    def key(self):
        """The key by which commands are routed: all keys are in one slot."""
        return self.keys[0]

    def acquire(self, owner, block_ms):
        """The command that acquires it. `block_ms`: None does not block, 0 has no limit."""
        lease = ["SESSION"] if self.session else ["PX", self.lease_ms]
        block = [] if block_ms is None else ["BLOCK", block_ms]
        options = [*lease, *block, *(["FENCED"] if self.fenced else []), "ONCE", *self._replicas()]
        if self.kind == "multi":
            return ["LOCK.MACQUIRE", len(self.keys), *self.keys, owner, *options]
        limit = [self.limit, "PERMITS", self.permits] if self.kind == "semaphore" else []
        return [COMMANDS[self.kind], self.key, owner, *limit, *options]

    def release(self, owner):
        if self.kind == "multi":
            return ["LOCK.MRELEASE", len(self.keys), *self.keys, owner]
        return ["LOCK.RELEASE", self.key, owner, *self._which()]

    def cancel(self, owner):
        """Ends the wait, or releases the hold if it was granted already; for a multi-key lock it only ends the wait."""
        if self.kind == "multi":
            return ["LOCK.CANCEL", self.key, owner]
        return ["LOCK.CANCEL", self.key, owner, "RELEASE", *self._which()]

    def renew_key(self, key, owner):
        lease = ["SESSION"] if self.session else ["PX", self.lease_ms]
        return ["LOCK.RENEW", key, owner, *lease, *self._replicas()]

    @staticmethod
    def watch(key, owner, block_ms):
        return ["LOCK.WATCH", key, owner, "BLOCK", block_ms]

    def _which(self):
        if self.kind == "semaphore":
            return ["PERMITS", self.permits]
        return [self.kind.upper()] if self.kind in ("read", "write") else []

    def _replicas(self):
        return ["REPLICAS", *self.replicas] if self.replicas else []
