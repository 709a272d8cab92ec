"""A command for lockctl that writes down what happens to it, and what a test reads of that."""

import json
import os
import signal
import sys
from pathlib import Path

from harness.waiting import wait_for

_PROGRAM = Path(__file__).resolve().parent / "witness_program.py"


class Witness:
    """`words` is the command. Its options:

    "beat": writes each 2 ms that it still lives.
    hear=[signal, ...]: these it notes, and lives on. The others do what they do.
    depth=n: so many descendants, each the child of the one before, hear and beat as it does.
    """

    def __init__(self, folder, *options, hear=(), depth=0):
        folder.mkdir()
        self._folder = folder
        order = {"beat": "beat" in options, "hear": [int(number) for number in hear], "depth": depth}
        self.words = [sys.executable, "-ISE", str(_PROGRAM), str(folder), json.dumps(order)]

    def _read(self, name):
        path = self._folder / name
        return path.read_bytes() if path.exists() else b""

    def has_begun(self):
        return bool(self._read("begun"))

    def wait_begun(self, timeout=20.0):
        """Until it runs, with all its descendants; returns itself."""
        wait_for(self.has_begun, timeout, "the command to run")
        return self

    def _story(self):
        return json.loads(self._read("begun"))

    @property
    def pid(self):
        return self._story()["pids"][0]

    @property
    def pids(self):
        """Its own, and its descendants'."""
        return self._story()["pids"]

    @property
    def variables(self):
        """Those of its environment that begin with LOCK, as bytes."""
        return {name: os.fsencode(value) for name, value in self._story()["variables"].items()}

    def heard(self):
        """The signals that it has got, each as often as it was delivered."""
        return [signal.Signals(number) for number in self._read("signals")]

    def wait_heard(self, *numbers):
        """Until it has heard these, in this order, and no other."""
        wait_for(lambda: len(self.heard()) >= len(numbers), what=f"the command to hear {numbers}")
        assert self.heard() == list(numbers)

    def beats(self):
        """When it lived, in unix ms: itself, and each of its descendants."""
        return [float(line) for line in self._read("beats").split(b"\n")[:-1]]

    def wait_beat(self):
        """Until it has shown once more that it lives."""
        before = len(self.beats())
        wait_for(lambda: len(self.beats()) > before, what="a sign of life of the command")

    def finish(self, status=0):
        """It ends with this status."""
        (self._folder / "status").write_text(str(status))
        os.rename(self._folder / "status", self._folder / "finish")
