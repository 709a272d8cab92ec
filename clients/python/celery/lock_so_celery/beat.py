"""A beat that is one of many: `celery beat -S lock_so`. Only the one that holds the lock sends."""

from datetime import datetime
from typing import Any, Dict, Optional, Union

import redis
from celery.beat import Scheduler
from celery.utils.log import get_logger
from lock_so import Hold, LockError, Locks, ModuleMissing, NotAcquired, NotHeld

from ._source import locks_of

logger = get_logger(__name__)


class LockedBeat:
    """For a scheduler class: `class MyScheduler(LockedBeat, DatabaseScheduler)`. The one that holds the lock is active, and
    the others stand by.

    Before a task is sent, its time is written to a table on the server, by a command that is executed only if the lock is
    held at that moment. So each time of an entry is sent once at most, even by a process that was stopped between the check
    and the sending. Whoever becomes active continues with the times of this table."""

    locks: Optional[Locks] = None
    """By default those of the server in the setting `lock_so_url`, or of the broker."""

    max_interval = 5.0

    def __init__(self, app: Any, *args: Any, **kwargs: Any) -> None:
        self._hold: Optional[Hold] = None
        self._is_standing_by = False
        self.lock_key = str(app.conf.get("lock_so_beat_key") or "celery:beat")
        self.lock_options: Dict[str, Any] = {"lease": 5.0, **(app.conf.get("lock_so_beat_options") or {})}
        super().__init__(app, *args, **kwargs)  # type: ignore[call-arg]

    def tick(self, *args: Any, **kwargs: Any) -> float:
        if self._hold and self._hold.is_lost:
            self._hold = None
        try:
            if not self._hold and not self._become_active():
                return 0
            return super().tick(*args, **kwargs)  # type: ignore[misc, no-any-return]
        except NotHeld as error:
            logger.warning("beat: %s; nothing more is sent", error)
            self._hold = None
            return 0
        except ModuleMissing:
            raise
        except (LockError, redis.RedisError) as error:
            logger.error("beat: nothing is sent without an answer from the server of the lock: %s", error)
            return 1

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        time = self.schedule[entry.name].last_run_at  # type: ignore[attr-defined]
        try:
            if not self._hold:
                raise NotHeld("the lock is not held")
            self._hold.guard("HSET", self._table, entry.name, repr(time.timestamp()))
        except Exception:
            self.schedule[entry.name] = entry  # type: ignore[attr-defined]
            self._heap = None
            raise
        super().apply_entry(entry, producer=producer)  # type: ignore[misc]

    def close(self) -> None:
        hold, self._hold = self._hold, None
        if hold:
            try:
                hold.release()
            except (LockError, redis.RedisError) as error:
                logger.warning("beat: the lock was not released: %s", error)
        super().close()  # type: ignore[misc]

    @property
    def info(self) -> str:
        own = str(super().info)  # type: ignore[misc]
        return own + ("\n" if own else "") + f"       . lock -> {self.lock_key}"

    @property
    def _table(self) -> str:
        """In the slot of the lock."""
        return f"{self.lock_key}:times" if "{" in self.lock_key else f"{{{self.lock_key}}}:times"

    def _become_active(self) -> bool:
        locks = self.locks or locks_of(self.app)  # type: ignore[attr-defined]
        lock = locks.lock(self.lock_key, **{"on_lost": _lost, **self.lock_options})
        try:
            hold = lock.acquire(wait=self.max_interval if self._is_standing_by else min(1.0, self.max_interval))
        except NotAcquired as error:
            if error.__cause__:  # the server did not respond
                raise
            if not self._is_standing_by:
                logger.info("beat: Standing by: %s", error)
            self._is_standing_by = True
            return False
        self._hold = hold
        try:
            self._continue(hold.guard("HGETALL", self._table))
        except BaseException:
            self._hold = None
            raise
        logger.info("beat: Active, as %s", hold.owner)
        self._is_standing_by = False
        return True

    def _continue(self, reply: Any) -> None:
        """From the times of the table, which are those of whoever was active before."""
        times = reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))
        for name, time in times.items():
            entry = self.schedule.get(_text(name))  # type: ignore[attr-defined]
            if entry is not None:
                entry.last_run_at = datetime.fromtimestamp(float(time), entry.last_run_at.tzinfo)
        self._heap = None


class LockedScheduler(LockedBeat, Scheduler):  # type: ignore[misc]
    """Celery's scheduler, whose entries are those of `beat_schedule`. It needs no file."""

    def setup_schedule(self) -> None:
        self.merge_inplace(self.app.conf.beat_schedule)
        self.install_default_entries(self.schedule)


def _lost(hold: Hold) -> None:
    logger.warning("beat: the lock %s is lost; nothing more is sent", ", ".join(map(str, hold.keys)))


def _text(name: Union[str, bytes]) -> str:
    return name.decode() if isinstance(name, bytes) else name
