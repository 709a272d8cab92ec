"""Locks of lock.so, a module for Redis and Valkey, for programs that use redis-py."""

from ._delay import Job, Pending
from ._info import Holder, LockInfo, Waiter
from ._sync import (
    Cancellation,
    CombinedHold,
    CombinedLock,
    DelayedQueue,
    Hold,
    Latch,
    Lock,
    Locks,
    MajorityHold,
    MajorityLock,
    RedLock,
    combine,
)
from .errors import Cancelled, Closed, Deadlock, LockError, ModuleMissing, NoReplicas, NotAcquired, NotHeld, Refused

__all__ = ["Cancellation", "Cancelled", "Closed", "CombinedHold", "CombinedLock", "Deadlock", "DelayedQueue", "Hold",
           "Holder", "Job", "Latch", "Lock", "LockError", "LockInfo", "Locks", "MajorityHold", "MajorityLock",
           "ModuleMissing", "NoReplicas", "NotAcquired", "NotHeld", "Pending", "RedLock", "Refused", "Waiter", "combine"]  # fmt: skip
