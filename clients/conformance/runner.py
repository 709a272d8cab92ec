"""A language's runner as a process that is told what to do by lines of JSON, and answers by such lines."""

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
    """The runner has ended, or said what is no answer."""


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
                    said = json.loads(line)
                    if "event" in said:
                        self._events.append(said)
                    else:
                        assert said["id"] not in self._answers and 0 < said["id"] <= self._ids, "answered twice"
                        assert said.get("ok") is True or isinstance(said.get("error"), str), "neither ok nor error"
                        self._answers[said["id"]] = said
                except (ValueError, KeyError, TypeError, AttributeError, AssertionError) as error:
                    self._fault = f"{self} said {line!r}: {error!r}"
                self._news.notify_all()
        with self._news:
            self._fault = self._fault or f"{self} has ended"
            self._news.notify_all()

    # Saying and hearing

    def say(self, do, **fields):
        """Returns the request's id, by which its answer is known."""
        self._ids += 1
        request = {"id": self._ids, "do": do, **fields}
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise Gone(f"{self} does not listen: {error}\n{self.last_words()}") from None
        return self._ids

    def has_answered(self, number):
        with self._news:
            return number in self._answers

    def answer(self, number, timeout=20.0):
        return self._wait(lambda: self._answers.get(number), timeout, f"the answer to request {number}")

    def event(self, wanted, timeout=20.0):
        """Until an event came that has these fields; it is forgotten then."""

        def found():
            for event in self._events:
                if wanted.items() <= event.items():
                    self._events.remove(event)
                    return event
            return None

        return self._wait(found, timeout, f"the event {wanted}")

    def events(self, wanted):
        """Those that have come, with these fields."""
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
                assert left > 0, f"waited {scaled(timeout):g} s for {what} of {self}, in vain\n{self.last_words()}"
                self._news.wait(left)

    def last_words(self):
        return self._stderr_path.read_text(errors="replace")[-3000:]

    # Its life. All of its processes: the runner may be started by a shell.

    def signal(self, number):
        os.killpg(self._process.pid, number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self._process.wait()

    def quit(self):
        """In good order; fails unless it ends with status 0."""
        self.answer(self.say("quit"), 10)
        try:
            status = self._process.wait(scaled(10))
        except subprocess.TimeoutExpired:
            raise Gone(f"{self} did not end after quit\n{self.last_words()}") from None
        self._reader.join()
        if status != 0:
            raise Gone(f"{self} ended with {status}\n{self.last_words()}")

    def end(self):
        """Ends it in any case."""
        if self._process.poll() is None:
            self.kill()
        self._process.stdin.close()
        self._reader.join()
        self._process.stdout.close()
