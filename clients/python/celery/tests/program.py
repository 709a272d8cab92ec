"""An application of the tests: its workers and beats are processes of their own. What runs is recorded in lists."""

import os
import signal

import redis
from celery import Celery
from redbeat import RedBeatScheduler

from lock_so import Locks
from lock_so_celery import LockedTask
from lock_so_celery.beat import LockedScheduler

URL = os.environ["PROGRAM_URL"]
server = redis.Redis.from_url(URL, decode_responses=True, socket_timeout=None)
locks = Locks(redis.Redis.from_url(URL))

app = Celery("program", broker=URL, backend=URL)
app.conf.update(
    broker_transport_options={
        "visibility_timeout": float(os.environ.get("PROGRAM_VISIBILITY", 3600)),
        # How often the broker looks for messages whose visibility timeout has passed.
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    },
    broker_connection_retry_on_startup=True,
    worker_prefetch_multiplier=1,
    task_track_started=True,
    result_expires=3600,
    lock_so_url=os.environ.get("PROGRAM_LOCKS"),
    beat_max_loop_interval=float(os.environ.get("PROGRAM_INTERVAL", 0)),
    lock_so_beat_options={"session": True} if "PROGRAM_SESSION" in os.environ else None,
    beat_schedule={
        "often": {"task": "tick", "schedule": 0.2},
        "hourly": {"task": "hourly", "schedule": 3600.0},
    },
)


def run(task, label):
    """Records its begin, and its end, for which it waits until the test opens a gate."""
    server.rpush("begun", f"{label}:{os.getpid()}")
    server.blpop([f"gate:{label}"])
    server.rpush("ended", label)
    return task.request.retries


@app.task(bind=True, base=LockedTask)
def skips(self, label):
    return run(self, label)


@app.task(bind=True, base=LockedTask, lock_conflict="retry", lock_delay=0.2, lock_options={"lease": 30})
def retries(self, label):
    return run(self, label)


@app.task(bind=True, base=LockedTask, lock_conflict="wait")
def waits(self, label):
    return run(self, label)


@app.task(bind=True, base=LockedTask, lock_conflict="wait", lock_options={"wait": 0.2}, max_retries=1, default_retry_delay=0)
def waits_shortly(self, label):
    return run(self, label)


@app.task(bind=True, base=LockedTask, lock=lambda label, account: f"account:{account}", lock_conflict="retry", lock_delay=0.2)
def by_account(self, label, account):
    return run(self, label)


@app.task(bind=True, base=LockedTask, lock=lambda label: locks.semaphore("api", limit=2, session=True))
def two_at_a_time(self, label):
    return run(self, label)


@app.task(bind=True, base=LockedTask, acks_late=True, reject_on_worker_lost=True, lock_delay=0.2)
def late(self, label):
    return run(self, label)


@app.task(bind=True, base=LockedTask, lock_options={"fenced": True})
def fenced(self):
    return self.hold.token, list(self.hold.keys), self.hold.is_lost


@app.task(bind=True, base=LockedTask, lock_conflict="wait")
def counts(self):
    now = server.incr("now")
    server.lpush("most", now)
    server.decr("now")


@app.task(bind=True, base=LockedTask, lock_conflict="wait", default_retry_delay=0, max_retries=2)
def fails(self, error):
    if self.request.retries < 1:
        raise self.retry()
    raise {"KeyError": KeyError("own"), "SystemExit": SystemExit(3)}[error]


@app.task
def add(numbers, more=0):
    server.rpush("begun", "add")
    return more


def may_stop():
    if server.getdel("stop"):
        os.kill(os.getpid(), signal.SIGSTOP)


class StopsItself(LockedScheduler):
    """A beat that is stopped at the worst moment: it has checked that it is active, and is about to send."""

    def apply_entry(self, entry, producer=None):
        may_stop()
        super().apply_entry(entry, producer)


class StopsItselfRed(RedBeatScheduler):
    """The same with RedBeat, for the comparison."""

    def apply_async(self, entry, **words):
        may_stop()
        return super().apply_async(entry, **words)
