"""What LOCK.INFO shows. Times are in seconds."""

from dataclasses import dataclass
from typing import Any, Iterable, List, Optional

from ._spec import Key, fields_of, text_of


@dataclass(frozen=True)
class Holder:
    """`mode`: "exclusive", "read", "write" or "semaphore"; `holds`: how many holds or permits the owner has; `left`: until
    the lease ends, None if the key has no TTL; `session`: the hold is bound to a connection."""

    key: str
    owner: str
    mode: str
    holds: int
    left: Optional[float]
    session: bool


@dataclass(frozen=True)
class Waiter:
    """`fair`: it is in the fair queue; `waited`: for how long; `left`: until its blocking call ends, None is never."""

    key: str
    owner: str
    mode: str
    fair: bool
    waited: float
    left: Optional[float]


@dataclass(frozen=True)
class LockInfo:
    """Who holds a lock, and who waits for it: `waiting` clients, of which `waiters` are the first 10 of each key."""

    holders: List[Holder]
    waiting: int
    waiters: List[Waiter]


def info_of(key: Key, reply: Any) -> LockInfo:
    """From the reply of LOCK.INFO."""
    name, info = text_of(key), fields_of(reply)
    holders = [
        Holder(name, text_of(one["owner"]), text_of(one["mode"]), int(one["holds"]),
               None if int(one["pttl"]) < 0 else int(one["pttl"]) / 1000, one["session"] is not None)
        for one in map(fields_of, info.get("holders", ()))
    ]  # fmt: skip
    waiters = [
        Waiter(name, text_of(one["owner"]), text_of(one["mode"]), int(one["fair"]) == 1, int(one["waited"]) / 1000,
               None if one["left"] is None else int(one["left"]) / 1000)
        for one in map(fields_of, info.get("waiters", ()))
    ]  # fmt: skip
    return LockInfo(holders, int(info.get("waiting", 0)), waiters)


def joined(found: Iterable[LockInfo]) -> LockInfo:
    """That of several keys as one."""
    each = list(found)
    return LockInfo([one for info in each for one in info.holders], sum(info.waiting for info in each),
                    [one for info in each for one in info.waiters])  # fmt: skip
