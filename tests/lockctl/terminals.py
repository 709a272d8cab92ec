"""A real pseudo-terminal, and an interactive shell with job control on it."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

from harness.waiting import scaled, wait_for
from runs import all_processes, children_of, die_with_parent, is_stopped, lives

CTRL_C, CTRL_D, CTRL_Z, CTRL_BACKSLASH = "\x03", "\x04", "\x1a", "\x1c"
_PROMPT = "<ready>"
_SHELL = ["bash", "--norc", "--noprofile", "--noediting", "-i"]


class OnTerminal:
    """A session leader on its own terminal, which shows only what is written to it."""

    def __init__(self, words, env):
        self._fd, slave = pty.openpty()
        self._text, self._seen = "", 0
        modes = termios.tcgetattr(slave)
        # Input is not echoed, and a key that sends a signal does not flush the queues.
        modes[3] = modes[3] & ~termios.ECHO | termios.NOFLSH
        termios.tcsetattr(slave, termios.TCSANOW, modes)

        def prepare():
            die_with_parent()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self._process = subprocess.Popen(
            words, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, preexec_fn=prepare, env=env
        )
        self.pid = self._process.pid
        os.close(slave)

    # What a user does

    def type(self, text):
        os.write(self._fd, text.encode())

    def resize(self, columns, lines):
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def _read(self, seconds):
        if select.select([self._fd], [], [], seconds)[0]:
            try:
                self._text += os.read(self._fd, 65536).decode(errors="replace")
            except OSError:
                time.sleep(seconds)  # no process has it open any more

    def see(self, pattern, timeout=20.0):
        """Waits for this output after all that was seen before; returns the match."""
        end = time.monotonic() + scaled(timeout)
        while not (found := re.compile(pattern).search(self._text, self._seen)):
            assert time.monotonic() < end, f"{pattern!r} is not to be seen, but {self._text[self._seen :]!r}"
            self._read(0.05)
        self._seen = found.end()
        return found

    def foreground(self):
        """The process group that receives the signals of the keys."""
        return os.tcgetpgrp(self._fd)

    def text(self):
        """All output."""
        self._read(0)
        return self._text

    # Its end

    def wait(self, timeout=20.0):
        """The exit status, negative for a signal. Reads the output meanwhile."""
        end = time.monotonic() + scaled(timeout)
        while self._process.poll() is None:
            assert time.monotonic() < end, f"it does not end: {self._text!r}"
            self._read(0.02)
        return self._process.returncode

    def hang_up(self):
        """Closes the terminal."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def end(self):
        """Ends all processes in its session."""
        for pid, stat in all_processes().items():
            if stat[3] == self.pid and stat[0] not in "ZX":
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self._process.wait()
        self.hang_up()


class Shell(OnTerminal):
    """An interactive bash."""

    def __init__(self, env):
        super().__init__(_SHELL, {**env, "PS1": _PROMPT, "PS2": "", "TERM": "dumb", "HISTFILE": ""})
        self.prompts()

    def say(self, line):
        """Starts a command without waiting for its end."""
        self.type(line + "\n")

    def do(self, line):
        """Runs a command to its end."""
        self.say(line)
        self.prompts()

    def prompts(self):
        """Waits until the shell waits for a command again."""
        self.see(_PROMPT)
        wait_for(lambda: self.foreground() == self.pid, 20, "the shell to be in the foreground")

    def press(self, key):
        """Presses a key that ends or stops the job in the foreground, and waits for all of its processes.

        A process of the job that still reads would consume the next input for the shell. Returns the job's process
        group.
        """
        job = self.foreground()
        assert job != self.pid, "no job is in the foreground"
        self.type(key)
        self.prompts()
        wait_for(lambda: not self._running(job), 20, "all of the job to end or stop")
        return job

    @staticmethod
    def _running(job):
        return [pid for pid, stat in all_processes().items() if stat[2] == job and stat[0] not in "TtZX"]

    def stop(self):
        """Presses Ctrl-Z; returns the process group that has stopped."""
        job = self.press(CTRL_Z)
        assert is_stopped(job)
        return job

    def fg(self):
        """Continues the stopped or background job in the foreground."""
        [job] = children_of(self.pid)
        self.say("fg")
        wait_for(lambda: self.foreground() == job and not is_stopped(job), what="the job to be in the foreground")

    def status(self):
        """$? of the last command."""
        self.say("echo status=$?")
        status = int(self.see(r"status=(\d+)\r\n")[1])
        self.prompts()
        return status

    def hang_up_and_end(self):
        self.hang_up()
        wait_for(lambda: self._process.poll() is not None or not lives(self.pid), 20, "the shell to end")
