"""redis-cli on a terminal of its own, as a person uses it: what is typed, and what the terminal then shows."""

import os
import re
import shutil
import signal
import subprocess
import termios

from .connect import HOST
from .waiting import scaled

# If a command took half a second or more, redis-cli prints how long.
_TOOK = re.compile(r"\(\d+\.\d\ds\)")


class Cli:
    """One process of redis-cli: a session, or a single command if `words` holds one."""

    def __init__(self, port, words=()):
        program = shutil.which("redis-cli") or shutil.which("valkey-cli")
        assert program, "neither redis-cli nor valkey-cli is there; tools/setup test installs one"
        # Followed by (TX) inside MULTI.
        self._prompt = re.compile(rf"^{re.escape(HOST)}:{port}\S*> \Z", re.M)
        self._seen, self._eof = "", False
        self._terminal, far_end = os.openpty()
        os.set_blocking(self._terminal, False)
        _neither_echo_nor_cr(far_end)
        self._process = subprocess.Popen(
            [program, "-h", HOST, "-p", str(port), *words],
            stdin=far_end,
            stdout=far_end,
            stderr=far_end,
            # Without HOME no history is read or written. A dumb terminal gets no line editing.
            env={"PATH": os.environ["PATH"], "TERM": "dumb"},
            start_new_session=True,
        )
        os.close(far_end)

    def type(self, line):
        self._seen = ""
        os.write(self._terminal, f"{line}\n".encode())

    def answer(self):
        """The lines since the last input, or None while neither a prompt nor the end of the output has followed."""
        self._read()
        prompt = self._prompt.search(self._seen)
        if not prompt and not self._eof:
            return None
        lines = self._seen[: prompt.start() if prompt else None].splitlines()
        return lines[:-1] if lines and _TOOK.fullmatch(lines[-1]) else lines

    def has_ended(self):
        self._read()
        return self._eof

    def has_succeeded(self):
        """Waits for its end; whether its exit status is 0."""
        return self._process.wait(scaled(5)) == 0

    def _read(self):
        try:
            while data := os.read(self._terminal, 65536):
                self._seen += data.decode()
        except BlockingIOError:
            pass
        except OSError:
            # EIO: no process has the other end open any more.
            self._eof = True

    def interrupt(self):
        """Sends ^C, on which the program must end."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(scaled(5))

    def close(self):
        """Kills it: the server sees the connection close."""
        self._process.kill()
        self._process.wait()
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None


def _neither_echo_nor_cr(terminal):
    attributes = termios.tcgetattr(terminal)
    attributes[1] &= ~termios.OPOST
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)
