"""The one data file of a run. Each program that measures has a section: the conditions of its run (`about`), and its
figures (`measured`), by measure and by competitor."""

import json
import os
import platform
import re
import time
from pathlib import Path

from .competitors import TOP

RESULTS = TOP / "build" / "bench-field"
FILE = RESULTS / "data.json"


def machine():
    """What a reader has to know about the machine; the load is that before the run."""
    cpu = Path("/proc/cpuinfo")
    model = re.search(r"^model name\s*:\s*(.+)$", cpu.read_text(), re.MULTILINE) if cpu.exists() else None
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpus": os.cpu_count(),
        "cpu": model[1] if model else platform.machine(),
        "memory_gib": round(memory / 2**30, 1),
        "system": platform.platform(),
        "load_before": os.getloadavg(),
    }


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def rounded(value):
    """Six digits are more than the precision of any figure here. This keeps the file small and readable."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(part) for part in value]
    return value


def load(file=FILE):
    return json.loads(file.read_text()) if file.exists() else {}


# Section, `measured`, measure: each value below these three levels is one line.
LEVELS = 3


def as_text(data):
    """A line for each measurement, in the order of their names: a run changes only the lines of what it has measured."""

    def text(value, level):
        if level > LEVELS or not isinstance(value, dict) or not value:
            return json.dumps(value)
        indent = "\n" + " " * level
        parts = [f"{indent} {json.dumps(name)}: {text(value[name], level + 1)}" for name in sorted(value)]
        return "{" + ",".join(parts) + indent + "}"

    return text(data, 0) + "\n"


def store(section, content, file=FILE):
    data = load(file)
    data[section] = rounded(content)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(as_text(data))
