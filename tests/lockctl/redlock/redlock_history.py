"""A history of holds, written to a file for the history checker of tests/torture."""

import json
import re
import subprocess
from dataclasses import asdict, dataclass


@dataclass
class Hold:
    """One hold of the lock. Times are ns of this machine's monotonic clock."""

    owner: str
    token: int
    asked: int
    since: int  # when the owner was notified
    until: int  # when it last certainly relied on the lock
    over: int  # when it certainly no longer relies on the lock


class Judge:
    def __init__(self, program, folder):
        self._program, self._file = program, folder / "history.jsonl"
        self.text = ""

    def __call__(self, holds):
        """Returns the kinds of faults that the checker finds. `text` is its output."""
        assert holds, "an empty history shows nothing"
        self._file.write_text("".join(json.dumps(asdict(hold)) + "\n" for hold in holds))
        done = subprocess.run([self._program, "-check", self._file], capture_output=True, text=True, timeout=100)
        self.text = done.stdout + done.stderr
        faults = set(re.findall(r"^(\w+): ", done.stdout, re.M))
        assert (done.returncode == 0) == (not faults), self.text
        # Of an illegal history it reads only as much as shows the fault.
        assert faults or f"\n{2 * len(holds)} operations" in self.text, self.text
        assert ", 0 undecided" in self.text, self.text
        return faults
