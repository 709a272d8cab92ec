"""A competitor's process: it prints JSON lines, and continues when it receives a line."""

import json
import queue
import signal
import subprocess
import threading


class ProgramFailed(Exception):
    """A competitor ended, or printed nothing for too long."""


class Program:
    def __init__(self, command, log):
        # Its folder is named after the competitor and the measure.
        self._where = "/".join(log.parts[-2:])
        self._log = open(log, "a")
        self._process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def expect(self, at, seconds, or_silence=False):
        """The line that it prints at that point. With or_silence: None if it has printed nothing by then."""
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            if or_silence:
                return None
            raise ProgramFailed(f"nothing after {seconds:g} s instead of {at!r}: {self._where}") from None
        said = json.loads(line) if line else None
        if said and said["at"] == "failed":
            raise ProgramFailed(said["why"])
        if not said or said["at"] != at:
            raise ProgramFailed(f"{line!r} instead of {at!r}: {self._where}")
        return said

    def go_on(self):
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self):
        """kill -9: none of its code runs any more."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self.kill()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            try:
                stream.close()
            except BrokenPipeError:
                pass
