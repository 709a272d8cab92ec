"""Waiting for a condition, never for a fixed time."""

import time

from . import limits

_scale = 1.0
_fewer = 1
_share = 1

# Random schedules differ in each run: an ordinary run has one of this number, a thorough one has all.
DRAWN_OF = 4


def set_scale(factor, fewer=1, thorough=True):
    """Makes every time limit `factor` times longer, for servers under Valgrind or a slow machine. What a test repeats
    many times, it repeats `fewer` times less often."""
    global _scale, _fewer, _share
    _scale, _fewer, _share = float(factor), fewer, 1 if thorough else DRAWN_OF


def fewer(number):
    """How many repetitions servers under Valgrind can do in the time that other servers need for `number`."""
    return int(number / _fewer)


def drawn(number):
    """How many random schedules a run has, if one with --thorough has `number`."""
    return fewer(number / _share)


def scaled(seconds):
    """A time limit, multiplied by the factor of set_scale()."""
    limits.note(seconds * _scale, limits.caller())
    return limits.Seconds(seconds * _scale)


def scaled_ms(ms):
    """The same for a lease or a timeout in a command: PX, BLOCK."""
    limits.note(ms * _scale / 1000, limits.caller())
    return limits.Milliseconds(ms * _scale)


def wait_for(condition, timeout=5.0, what=None):
    """Calls `condition` until it is true and returns its result; fails when `timeout` s have passed.

    A condition may raise AssertionError for "not yet": the last error is shown.
    """
    limit = scaled(timeout)
    end = time.monotonic() + limit
    pause = 0.0005
    while True:
        last_try = time.monotonic() >= end
        problem = None
        try:
            result = condition()
        except AssertionError as error:
            result, problem = None, error
        if result:
            return result
        if last_try:
            name = what or getattr(condition, "__name__", "the condition")
            why = f": {problem}" if problem else f" (last result: {result!r})"
            raise AssertionError(f"waited {limit:g} s in vain for {name}{why}")
        # Only a pause between two checks: the condition decides the outcome, not the clock.
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)
