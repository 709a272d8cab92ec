"""Waiting for a condition, never for a time."""

import time

from . import limits

_scale = 1.0
_fewer = 1
_share = 1

# What is drawn is drawn anew in each run: one of so many in an ordinary one, all in a thorough one.
DRAWN_OF = 4


def set_scale(factor, fewer=1, thorough=True):
    """Makes every time limit `factor` times longer, for servers under Valgrind or a slow machine; and what a test does
    many times over, so many times less often."""
    global _scale, _fewer, _share
    _scale, _fewer, _share = float(factor), fewer, 1 if thorough else DRAWN_OF


def fewer(number):
    """How many of these servers under Valgrind can do in the time that others need for `number`."""
    return int(number / _fewer)


def drawn(number):
    """How many schedules a run draws of those that a thorough one does: --thorough."""
    return fewer(number / _share)


def scaled(seconds):
    """A time limit that is right for how fast the servers run today."""
    limits.note(seconds * _scale, limits.caller())
    return seconds * _scale


def scaled_ms(ms):
    """The same for a lease or deadline in a command: PX, BLOCK."""
    limits.note(ms * _scale / 1000, limits.caller())
    return int(ms * _scale)


def wait_for(condition, timeout=5.0, what=None):
    """Asks `condition` until it is true and returns what it said; fails when `timeout` s are over.

    A condition may raise AssertionError for "not yet": the last one is shown.
    """
    limit = scaled(timeout)
    end = time.monotonic() + limit
    pause = 0.0005
    while True:
        last_try = time.monotonic() >= end
        problem = None
        try:
            answer = condition()
        except AssertionError as error:
            answer, problem = None, error
        if answer:
            return answer
        if last_try:
            name = what or getattr(condition, "__name__", "the condition")
            why = f": {problem}" if problem else f" (last answer: {answer!r})"
            raise AssertionError(f"waited {limit:g} s for {name}, in vain{why}")
        # Between two looks only: the outcome is the condition's, not the clock's.
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)
