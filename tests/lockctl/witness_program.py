"""The program that witness.py describes: it runs as the command, and gets its options as JSON."""

import json
import os
import signal
import sys
import time

folder, order = sys.argv[1], json.loads(sys.argv[2])


def path(name):
    return os.path.join(folder, name)


def opened(name):
    return os.open(path(name), os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def note_signals():
    # Python may call its handlers once for several signals; this file gets a byte for each.
    signals = opened("signals")
    os.set_blocking(signals, False)
    signal.set_wakeup_fd(signals)
    for number in order["hear"]:
        signal.signal(number, lambda *_: None)


def note_begin(pids):
    variables = {name: value for name, value in os.environ.items() if name.startswith("LOCK")}
    with open(path("beginning"), "w") as file:
        json.dump({"pids": pids, "variables": variables}, file)
    os.rename(path("beginning"), path("begun"))


def descend(pids, depth):
    """Forks a chain of descendants; the last one has all ids."""
    for _ in range(depth):
        if os.fork():
            return
        pids.append(os.getpid())
        # Descendants do not record their signals.
        signal.set_wakeup_fd(-1)
    note_begin(pids)


def live():
    beats = opened("beats")
    while not os.path.exists(path("finish")):
        if order["beat"]:
            os.write(beats, b"%.3f\n" % (time.time() * 1000))
        time.sleep(0.002)
    with open(path("finish")) as file:
        return int(file.read())


note_signals()
descend([os.getpid()], order["depth"])
sys.exit(live())
