"""Locks of lock.so, a module for Redis and Valkey, for programs that use redis-py."""

from .errors import Cancelled, Deadlock, LockError, NoReplicas, NotAcquired, NotHeld, Refused
from .sync import Cancellation, Hold, Lock, Locks

__all__ = [
    "Cancellation",
    "Cancelled",
    "Deadlock",
    "Hold",
    "Lock",
    "LockError",
    "Locks",
    "NoReplicas",
    "NotAcquired",
    "NotHeld",
    "Refused",
]
