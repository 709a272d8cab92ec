"""The shortest time limit of the running test: of the leases, deadlines and timeouts that the test, its file or the
code that they use has given to scaled() or scaled_ms().

What is given while the test runs is recorded. A file's own limits are those that it gives at its top level, when it is
imported; they count for each of its tests. A limit that another module has given at its top level counts for the tests
that use it, themselves or by a function that they call: it is found by its name in their code.
"""

import functools
import math
import sys
import types

_of_files = {}
_runs = False
_shortest = math.inf

# A test, what it calls, what that calls.
_DEPTH = 4


class Seconds(float):
    """A limit in s."""

    @property
    def seconds(self):
        return float(self)


class Milliseconds(int):
    """A limit in ms."""

    @property
    def seconds(self):
        return self / 1000


def note(seconds, given_by):
    """Records a limit of `seconds` s that the code of the file `given_by` uses."""
    global _shortest
    if seconds <= 0:
        return
    if _runs:
        _shortest = min(_shortest, seconds)
    else:
        _of_files[given_by] = min(_of_files.get(given_by, math.inf), seconds)


def begin(test_file, functions=()):
    """Call this when a test of this file begins, which runs these functions: its own and those of its fixtures."""
    global _runs, _shortest
    _runs = True
    _shortest = min([_of_files.get(str(test_file), math.inf), *(_used_by(function, _DEPTH) for function in functions)])


@functools.cache
def _used_by(function, depth):
    """The shortest limit, in s, that this function finds in the modules that it uses; infinite if there is none."""
    shortest = math.inf
    for name in _names_in(function.__code__):
        value = function.__globals__.get(name)
        if isinstance(value, (Seconds, Milliseconds)) and value > 0:
            shortest = min(shortest, value.seconds)
        elif isinstance(value, types.FunctionType) and depth > 1:
            shortest = min(shortest, _used_by(value, depth - 1))
    return shortest


def _names_in(code):
    """The names of modules' variables, and of attributes, that the code uses, and the functions in it."""
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return {*code.co_names}.union(*map(_names_in, inner))


def shortest():
    """In s; infinite if the test has no limit so far."""
    return _shortest


def caller():
    """The file whose code has called the function that calls this."""
    return sys._getframe(2).f_code.co_filename
