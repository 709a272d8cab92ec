"""A server under Valgrind: how it is started, and what is in Valgrind's log."""

import re
from itertools import islice

# The log file of one server process, in the server's folder.
LOG_NAME = "valgrind.log"

# How much longer everything may take. The start takes longest: 1.3 s instead of 0.02 s.
SLOWDOWN = 5

# How many errors of one server are shown; the first ones cause the others.
MOST_SHOWN = 5

_ERROR = re.compile(r"^==\d+== BEGIN-ERROR\n(.*?)^==\d+== END-ERROR$", re.M | re.S)
_ALLOCS = re.compile(r"total heap usage: ([\d,]+) allocs")


def command(log, suppressions):
    return [
        "valgrind",
        f"--log-file={log}",
        f"--suppressions={suppressions}",
        "--error-markers=BEGIN-ERROR,END-ERROR",
        # Servers allocate with jemalloc, in a separate library; without this Valgrind sees no block.
        "--soname-synonyms=somalloc=*jemalloc*",
        "--leak-check=full",
        # Not "possible": the server's strings and the module's lists are reached by pointers into
        # the middle of a block, so that live blocks look possibly lost.
        "--show-leak-kinds=definite",
        "--errors-for-leak-kinds=definite",
        "--track-origins=no",
        "--num-callers=25",
        # Keeps the names of frames of a module that has been unloaded.
        "--keep-debuginfo=yes",
        # BGSAVE's child would report its parent's blocks a second time.
        "--child-silent-after-fork=yes",
    ]


def problems(text, ended):
    """The errors and definite leaks in a log; `ended`: the server shut down and was not killed.

    A server that was killed has no leak check. If a server shut down and Valgrind saw none of its
    allocations, it was not checked at all, which is a problem too.
    """
    found = [match.group(1) for match in islice(_ERROR.finditer(text), MOST_SHOWN)]
    if ended:
        allocs = _ALLOCS.search(text)
        if allocs is None:
            found.append("Valgrind made no leak check")
        elif int(allocs.group(1).replace(",", "")) < 1000:
            found.append("Valgrind does not see this server's allocations: is jemalloc linked in?")
    return found
