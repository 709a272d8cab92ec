"""The shortest time limit of the running test: of the leases, deadlines and timeouts that the test, its file or the
code that they use has given to scaled() or scaled_ms().

A file's own limits are those that it gives at its top level, when it is imported; they count for each of its tests.
"""

import math
import sys

_of_files = {}
_runs = False
_shortest = math.inf


def note(seconds, given_by):
    """Records a limit of `seconds` s that the code of the file `given_by` uses."""
    global _shortest
    if seconds <= 0:
        return
    if _runs:
        _shortest = min(_shortest, seconds)
    else:
        _of_files[given_by] = min(_of_files.get(given_by, math.inf), seconds)


def begin(test_file):
    """Call this when a test of this file begins."""
    global _runs, _shortest
    _runs, _shortest = True, _of_files.get(str(test_file), math.inf)


def shortest():
    """In s; infinite if the test has no limit so far."""
    return _shortest


def caller():
    """The file whose code has called the function that calls this."""
    return sys._getframe(2).f_code.co_filename
