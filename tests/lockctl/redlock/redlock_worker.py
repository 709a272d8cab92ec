"""The command that runs under the lock: python redlock_worker.py FILE UNTIL [deaf]

Writes into FILE, which must have the size of the record, when it began and when it was last alive, by
CLOCK_MONOTONIC and by the wall clock, with its token. UNTIL: it ends after this many ms, or with `told` when its
standard input ends. deaf: SIGTERM does not end it.
"""

import mmap
import os
import select
import signal
import struct
import sys
import time

# began, lives, lives by the wall clock (ns); the token; the process; LOCK_KEY and LOCK_OWNER
LAYOUT = struct.Struct("<qqqqq64s200s")


def main(path, until, deaf=None):
    began = time.monotonic_ns()
    if deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    told = os.environ.get
    rest = int(told("LOCK_TOKEN", 0)), os.getpid(), told("LOCK_KEY", "").encode(), told("LOCK_OWNER", "").encode()
    end = None if until == "told" else began + int(until) * 1_000_000
    file = os.open(path, os.O_RDWR)
    with mmap.mmap(file, LAYOUT.size) as shared:
        while True:
            LAYOUT.pack_into(shared, 0, began, time.monotonic_ns(), time.time_ns(), *rest)
            if end is None:
                if select.select([0], [], [], 0.001)[0]:
                    break
            elif time.monotonic_ns() >= end:
                break
            else:
                time.sleep(0.001)
        LAYOUT.pack_into(shared, 0, began, time.monotonic_ns(), time.time_ns(), *rest)


if __name__ == "__main__":
    main(*sys.argv[1:])
