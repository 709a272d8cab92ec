"""Tests that measure time run alone; all others run together.

Workers (and other test runs in this folder) agree by two file locks: `room` is held shared by an
ordinary test and exclusively by a measuring one; `door` is passed through before, so that a
measuring test that waits for the room keeps others from entering it again and again.
"""

import fcntl
from contextlib import contextmanager


@contextmanager
def _locked(path, how):
    with open(path, "w") as file:
        fcntl.flock(file, how)
        yield


@contextmanager
def room(folder, alone):
    """Holds the room while a test runs."""
    how = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    with open(folder / "room.lock", "w") as file:
        with _locked(folder / "door.lock", fcntl.LOCK_EX):
            fcntl.flock(file, how)
        yield
