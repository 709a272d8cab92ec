"""What processes have used, as the kernel counts it: the same for all servers, whatever they say of themselves."""

import os
import re
import shutil
import subprocess
from pathlib import Path


def family(pid):
    """The process, and all that it has started: PostgreSQL has one for each connection."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    found = [pid]
    for child in children.read_text().split() if children.exists() else []:
        found += family(int(child))
    return found


def cpu_seconds(pid):
    """Of the process and all that it has started, threads and processes that are gone among them. In steps of 10 ms."""
    ticks = 0
    for member in family(pid):
        try:
            text = Path(f"/proc/{member}/stat").read_text()
        except OSError:
            continue  # it has just ended, and its parent counts it from now on
        # What follows the name, which may hold spaces: utime, stime, and those of children that have been waited for.
        ticks += sum(int(number) for number in text.rpartition(")")[2].split()[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_bytes(pid):
    """What would be free without them: memory that several share is counted once."""
    kilobytes = 0
    for member in family(pid):
        try:
            text = Path(f"/proc/{member}/smaps_rollup").read_text()
        except OSError:
            continue
        kilobytes += int(re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE)[1])
    return kilobytes * 1024


def tcp_bytes(port):
    """What a server's connections have carried, both ways, without headers; None where nobody can tell."""
    if not shutil.which("ss"):
        return None
    shown = subprocess.run(["ss", "-tinH", f"sport = :{port}"], capture_output=True, text=True, check=True).stdout
    return sum(int(number) for number in re.findall(r"\bbytes_(?:acked|received):(\d+)", shown))
