"""Owners that hold and wait in a cycle, as steps of schedules.

Owners have the names of their clients; `b2` is a second connection of owner b.
"""

from redis.exceptions import ResponseError

from harness.schedule import BLOCKS

MODES = ("ACQUIRE", "FAIR", "RWREAD", "RWWRITE", "MACQUIRE")


def words(mode, key, owner, *options):
    count = ("1",) if mode == "MACQUIRE" else ()
    return (f"LOCK.{mode}", *count, key, owner, *options)


def holds(name, key, mode="ACQUIRE", count=1):
    return (name, words(mode, key, name[0]), count)


def waits(name, key, mode="ACQUIRE"):
    return (name, words(mode, key, name[0], "BLOCK", "0"), BLOCKS)


class deadlock:
    """An error reply of DEADLOCK and exactly this text."""

    def __init__(self, cycle):
        self._text = f"DEADLOCK {cycle}"

    def __call__(self, got):
        assert str(got) == self._text
        return isinstance(got, ResponseError)

    def __repr__(self):
        return f"deadlock({self._text!r})"


def refused(name, key, cycle, mode="ACQUIRE"):
    return (name, words(mode, key, name[0], "BLOCK", "0"), deadlock(cycle))


def in_db(number, *names):
    return [(name, f"SELECT {number}", "OK") for name in names]


def releases(name, key, left=0):
    return (name, f"LOCK.RELEASE {key} {name[0]}", left)


def detection(state):
    return ("z", f"CONFIG SET lock.deadlock-detection {state}", "OK")


# Waits until the search has been done from all waits that have begun.
SEARCHED = (lambda run: run.server.all_searched(),)
TWO = "b waits for k held by a, a waits for l held by b"


def counters(server):
    info = server.info("lock")
    return info["lock_deadlocks_refused"], info["lock_deadlock_searches_cut"]


def pipelined(server, commands):
    pipeline = server.control.pipeline(transaction=False)
    for words in commands:
        pipeline.execute_command(*words)
    return pipeline.execute()
