"""Locks of lock.so, a module for Redis and Valkey, for programs that use redis-py."""

from ._delay import Job, Pending
from ._info import Holder, LockInfo, Waiter
from ._sync import Cancellation, DelayedQueue, Hold, Latch, Lock, Locks
from .errors import Cancelled, Closed, Deadlock, LockError, ModuleMissing, NoReplicas, NotAcquired, NotHeld, Refused

__all__ = ["Cancellation", "Cancelled", "Closed", "Deadlock", "DelayedQueue", "Hold", "Holder", "Job", "Latch", "Lock",
           "LockError", "LockInfo", "Locks", "ModuleMissing", "NoReplicas", "NotAcquired", "NotHeld", "Pending", "Refused",
           "Waiter"]  # fmt: skip
