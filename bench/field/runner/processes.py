"""What processes have used, as counted by the kernel: the same method for all servers, whatever they report themselves."""

import os
import re
import shutil
import subprocess
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def family(pid):
    """The process and all processes that it has started: PostgreSQL has one for each connection."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    found = [pid]
    for child in children.read_text().split() if children.exists() else []:
        found += family(int(child))
    return found


def threads_seconds(pid):
    """The CPU seconds of the living threads, to the nanosecond: /proc/PID/stat has steps of 10 ms, which is more than each
    process of a server of many processes uses for some hundred locks."""
    nanoseconds = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            nanoseconds += int((task / "schedstat").read_text().split()[0])
        except OSError:
            continue  # a thread that has just ended; the others count
    return nanoseconds / 1e9


def cpu_seconds(pid):
    """The CPU seconds of the process and all that it has started, including threads and processes that have ended."""
    seconds = 0.0
    for member in family(pid):
        try:
            text = Path(f"/proc/{member}/stat").read_text()
            living = threads_seconds(member)
        except OSError:
            continue  # it has just ended, and its parent counts it from now on
        # What follows the name, which may hold spaces: utime, stime, and those of children that have been waited for.
        own, system, *children = [int(ticks) / TICKS for ticks in text.rpartition(")")[2].split()[11:15]]
        seconds += max(living, own + system) + sum(children)
    return seconds


def memory_bytes(pid):
    """The memory that would be free without them: memory that several processes share is counted once."""
    kilobytes = 0
    for member in family(pid):
        try:
            text = Path(f"/proc/{member}/smaps_rollup").read_text()
        except OSError:
            continue
        kilobytes += int(re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE)[1])
    return kilobytes * 1024


def tcp_bytes(port):
    """The bytes on a server's connections, in both directions, without headers; None if this is not known."""
    if not shutil.which("ss"):
        return None
    shown = subprocess.run(["ss", "-tinH", f"sport = :{port}"], capture_output=True, text=True, check=True).stdout
    return sum(int(number) for number in re.findall(r"\bbytes_(?:acked|received):(\d+)", shown))
