"""Locks of lock.so, a module for Redis and Valkey, for programs that use redis-py."""

from ._info import Holder, LockInfo, Waiter
from ._sync import Cancellation, Hold, Lock, Locks
from .errors import Cancelled, Closed, Deadlock, LockError, ModuleMissing, NoReplicas, NotAcquired, NotHeld, Refused

__all__ = ["Cancellation", "Cancelled", "Closed", "Deadlock", "Hold", "Holder", "Lock", "LockError", "LockInfo", "Locks",
           "ModuleMissing", "NoReplicas", "NotAcquired", "NotHeld", "Refused", "Waiter"]  # fmt: skip
