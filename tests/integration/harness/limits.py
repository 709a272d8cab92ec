"""The shortest limit of time of the test that runs: what it, its file or what they use has given to scaled() or
scaled_ms(), a lease, a deadline, a time to wait.

A file's own limits are those that it names when it is imported, at its top level; they count for each of its tests.
"""

import math
import sys

_of_files = {}
_runs = False
_shortest = math.inf


def note(seconds, given_by):
    """A limit of `seconds` s is made use of, by the code of the file `given_by`."""
    global _shortest
    if seconds <= 0:
        return
    if _runs:
        _shortest = min(_shortest, seconds)
    else:
        _of_files[given_by] = min(_of_files.get(given_by, math.inf), seconds)


def begin(test_file):
    """A test of this file begins."""
    global _runs, _shortest
    _runs, _shortest = True, _of_files.get(str(test_file), math.inf)


def shortest():
    """In s; infinite if the test has none so far."""
    return _shortest


def caller():
    """The file whose code has called the function that asks."""
    return sys._getframe(2).f_code.co_filename
