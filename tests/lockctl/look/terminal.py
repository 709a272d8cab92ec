"""lockctl on a real pseudo-terminal, and what a user would see there."""

import fcntl
import os
import pty
import select
import struct
import termios
import time

import pyte

from harness.waiting import scaled

UP, DOWN, PAGE_DOWN = "\x1bOA", "\x1bOB", "\x1b[6~"


class Terminal:
    """A program on its own terminal."""

    def __init__(self, *words, columns=80, lines=24, **environment):
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self._status = None
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm-256color", LC_ALL="C.UTF-8", **environment)
            self._await_size(columns, lines)
            os.execv(words[0], list(words))
        self._resize(columns, lines)

    @staticmethod
    def _await_size(columns, lines):
        # The program must not start before its terminal has this size.
        while os.get_terminal_size(0) != (columns, lines):
            time.sleep(0.001)

    def _resize(self, columns, lines):
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns, lines):
        self._screen.resize(lines, columns)
        self._resize(columns, lines)

    def type(self, text):
        os.write(self._fd, text.encode())

    def _read(self, seconds):
        try:
            if select.select([self._fd], [], [], seconds)[0]:
                self._stream.feed(os.read(self._fd, 65536))
        except OSError:
            pass  # the program has ended

    @property
    def lines(self):
        return [line.rstrip() for line in self._screen.display]

    @property
    def cells(self):
        """The characters of the screen with their colours: lines of pyte's characters."""
        width, height = self._screen.columns, self._screen.lines
        return [[self._screen.buffer[line][column] for column in range(width)] for line in range(height)]

    def shows(self, seen, timeout=10.0):
        """Waits until `seen(lines)` is true for the screen; returns its value."""
        end = time.monotonic() + scaled(timeout)
        while not (found := seen(self.lines)):
            assert time.monotonic() < end, "the screen shows\n" + "\n".join(self.lines)
            self._read(0.05)
        return found

    def row(self, name):
        """The words after the name in the row of a lock; None if there is no such row."""
        for line in self.lines:
            if line[1:].startswith(name + " "):
                return line[1 + len(name) :].split()
        return None

    def end(self, timeout=10.0):
        """Waits for the end; returns the exit status, negative for a signal."""
        end = time.monotonic() + scaled(timeout)
        while self._status is None:
            assert time.monotonic() < end, "it does not end; the screen shows\n" + "\n".join(self.lines)
            self._read(0.02)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def close(self):
        if self._status is None:
            os.kill(self.pid, 9)
            self.end()
        self._read(0)
        os.close(self._fd)
