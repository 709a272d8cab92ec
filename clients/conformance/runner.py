"""A language's runner as a process, which receives requests as lines of JSON and sends its answers as such lines."""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import threading
import time

from harness.waiting import scaled

_libc = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def _die_with_parent():
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Gone(AssertionError):
    """The runner has ended, or sent a line that is no valid answer."""


class Runner:
    def __init__(self, command, name, folder):
        self.name, self._command = name, command
        self._stderr_path = folder / f"{name}.stderr"
        with open(self._stderr_path, "ab") as stderr:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        self._ids, self._answers, self._events, self._fault = 0, {}, [], None
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __repr__(self):
        return f"{self.name} ({' '.join(self._command[-2:])})"

    def _read(self):
        for line in self._process.stdout:
            with self._news:
                try:
                    message = json.loads(line)
                    if "event" in message:
                        self._events.append(message)
                    else:
                        assert message["id"] not in self._answers and 0 < message["id"] <= self._ids, "answered twice"
                        assert message.get("ok") is True or isinstance(message.get("error"), str), "neither ok nor error"
                        self._answers[message["id"]] = message
                except (ValueError, KeyError, TypeError, AttributeError, AssertionError) as error:
                    self._fault = f"{self} sent {line!r}: {error!r}"
                self._news.notify_all()
        with self._news:
            self._fault = self._fault or f"{self} has ended"
            self._news.notify_all()

    # Requests, answers and events

    def say(self, do, **fields):
        """Sends a request. Returns its id, which its answer has too."""
        self._ids += 1
        request = {"id": self._ids, "do": do, **fields}
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError) as error:  # ValueError: another thread has ended it
            raise Gone(f"{self} does not read: {error}\n{self.last_words()}") from None
        return self._ids

    def has_answered(self, number):
        with self._news:
            return number in self._answers

    def answer(self, number, timeout=20.0):
        return self._wait(lambda: self._answers.get(number), timeout, f"answer to request {number}")

    def event(self, wanted, timeout=20.0):
        """Waits for an event with these fields, and removes it."""

        def found():
            for event in self._events:
                if wanted.items() <= event.items():
                    self._events.remove(event)
                    return event
            return None

        return self._wait(found, timeout, f"event {wanted}")

    def events(self, wanted):
        """The events that have been received and have these fields."""
        with self._news:
            return [event for event in self._events if wanted.items() <= event.items()]

    def _wait(self, condition, timeout, what):
        end = time.monotonic() + scaled(timeout)
        with self._news:
            while True:
                found = condition()
                if found:
                    return found
                if self._fault:
                    raise Gone(f"{self._fault}, instead of {what}\n{self.last_words()}")
                left = end - time.monotonic()
                assert left > 0, f"no {what} of {self} within {scaled(timeout):g} s\n{self.last_words()}"
                self._news.wait(left)

    def last_words(self):
        return self._stderr_path.read_text(errors="replace")[-3000:]

    def log(self):
        """The lines that it has written to stderr."""
        return self._stderr_path.read_text(errors="replace").splitlines()

    def threads(self):
        return len(os.listdir(f"/proc/{self._process.pid}/task"))

    # The process, and all processes of its group: a shell may have started the runner.

    def signal(self, number):
        os.killpg(self._process.pid, number)

    def kill(self):
        with contextlib.suppress(ProcessLookupError):  # another thread has just killed it
            self.signal(signal.SIGKILL)
        self._process.wait()

    def quit(self):
        """Sends `quit`; fails unless the runner ends with status 0."""
        self.answer(self.say("quit"), 10)
        try:
            status = self._process.wait(scaled(10))
        except subprocess.TimeoutExpired:
            raise Gone(f"{self} did not end after quit\n{self.last_words()}") from None
        self._reader.join()
        if status != 0:
            raise Gone(f"{self} ended with {status}\n{self.last_words()}")

    def end(self):
        """Kills it if it has not ended."""
        if self._process.poll() is None:
            self.kill()
        with contextlib.suppress(BrokenPipeError):  # of a request that was sent when it had ended
            self._process.stdin.close()
        self._reader.join()
        self._process.stdout.close()
