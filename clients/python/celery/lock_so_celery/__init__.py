"""Locks of lock.so for Celery: LockedTask, a task that runs once at a time. The beat is in lock_so_celery.beat."""

from .task import LockedTask

__all__ = ["LockedTask"]
