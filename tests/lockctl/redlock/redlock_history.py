"""Who counted on the lock, and when: written down for the checker of tests/torture, which judges it."""

import json
import re
import subprocess
from dataclasses import asdict, dataclass


@dataclass
class Hold:
    """Somebody had the lock. Times are ns of this machine's monotonic clock."""

    owner: str
    token: int
    asked: int
    since: int  # when it was told
    until: int  # when it is known to have counted on it last
    over: int  # when it is known not to any more


class Judge:
    def __init__(self, program, folder):
        self._program, self._file = program, folder / "history.jsonl"
        self.text = ""

    def __call__(self, holds):
        """The kinds of faults that the checker finds. `text` has its own words then."""
        assert holds, "an empty history says nothing"
        self._file.write_text("".join(json.dumps(asdict(hold)) + "\n" for hold in holds))
        done = subprocess.run([self._program, "-check", self._file], capture_output=True, text=True, timeout=100)
        self.text = done.stdout + done.stderr
        faults = set(re.findall(r"^(\w+): ", done.stdout, re.M))
        assert (done.returncode == 0) == (not faults), self.text
        # Of an illegal one it looks at no more than shows it.
        assert faults or f"\n{2 * len(holds)} operations" in self.text, self.text
        assert ", 0 undecided" in self.text, self.text
        return faults
