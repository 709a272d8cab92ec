"""A command for lockctl that records what happens to it, and the interface for tests that read the record."""

import json
import os
import signal
import sys
from pathlib import Path

from harness.waiting import wait_for

_PROGRAM = Path(__file__).resolve().parent / "witness_program.py"


class Witness:
    """`words` is the command. Its options:

    "beat": writes every 2 ms that it is still alive.
    hear=[signal, ...]: records these signals and continues. Other signals have their default action.
    depth=n: has n descendants, each the child of the one before, which survive the same signals and also write "beat".
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
        """Waits until it runs, with all its descendants; returns itself."""
        wait_for(self.has_begun, timeout, "the command to run")
        return self

    def _story(self):
        return json.loads(self._read("begun"))

    @property
    def pid(self):
        return self._story()["pids"][0]

    @property
    def pids(self):
        """The ids of the process and its descendants."""
        return self._story()["pids"]

    @property
    def variables(self):
        """The variables of its environment that begin with LOCK, as bytes."""
        return {name: os.fsencode(value) for name, value in self._story()["variables"].items()}

    def heard(self):
        """The signals that it has received, each as often as it was delivered."""
        return [signal.Signals(number) for number in self._read("signals")]

    def wait_received(self, *numbers):
        """Waits until it has received these signals, in this order, and no others."""
        wait_for(lambda: len(self.heard()) >= len(numbers), what=f"the command to receive {numbers}")
        assert self.heard() == list(numbers)

    def beats(self):
        """The times in unix ms at which it, or one of its descendants, was alive."""
        return [float(line) for line in self._read("beats").split(b"\n")[:-1]]

    def wait_beat(self):
        """Waits until it has written once more that it is alive."""
        before = len(self.beats())
        wait_for(lambda: len(self.beats()) > before, what="a sign of life of the command")

    def finish(self, status=0):
        """Makes it end with this status."""
        (self._folder / "status").write_text(str(status))
        os.rename(self._folder / "status", self._folder / "finish")
