"""The bad runner's latches and delayed queues."""

import os
import re
import threading
import time
from collections import Counter

import redis
from bad_base import FAULT, LOST, Failure, interrupt, log, refusal, write
from words import failed, taken

_STORED = re.compile(rb"lock-so:(\d+):(.*)", re.DOTALL)


class _Wait:
    """A wait, as the runner ends it: by `cancel` and by `close`."""

    is_releasing = is_released = False
    link = None

    def __init__(self, runner):
        self.runner, self.ended = runner, threading.Event()

    def cancel(self):
        self.ended.set()
        self.interrupt()

    def interrupt(self):
        interrupt(self.link)

    def fail_if_ended(self):
        if self.ended.is_set():
            raise Failure("closed" if self.runner.is_closed else "cancelled", "these Locks are closed")

    def call(self, *words, times=1):
        """The reply, and whether the command was sent more than once."""
        if self.runner.is_closed:
            raise Failure("closed", "these Locks are closed")
        for left in reversed(range(times)):
            try:
                return self.runner.connection(2).execute_command(*words), left < times - 1
            except LOST as error:
                if not left:
                    raise Failure("connection", str(error)) from None
                time.sleep(0.05)
            except redis.ResponseError as error:
                raise refusal(error, self.runner.port) from None


class Latch(_Wait):
    def __init__(self, runner, request):
        super().__init__(runner)
        self.key = request["key"]

    def set(self, count, lease_ms):
        if count < 0 or (lease_ms is not None and lease_ms <= 0):
            raise Failure("bad_option", "count must not be negative, and the lease must be greater than 0")
        self.call("LATCH.SET", self.key, count, *(["PX", lease_ms] if lease_ms else []), times=2 if FAULT == "repeats" else 1)

    def down(self, by):
        if by < 1:
            raise Failure("bad_option", "by must be at least 1")
        return self.call("LATCH.DOWN", self.key, by, times=2 if FAULT == "repeats" else 1)[0]

    def count(self):
        return max(0, int(self.call("GET", self.key)[0] or 0))

    def wait(self, wait_ms):
        if wait_ms is not None and wait_ms < 0:
            raise Failure("bad_option", "wait must not be negative")
        until = None if wait_ms is None else time.monotonic() + wait_ms / 1000
        while True:
            left = self.runner.max_block if until is None else max(0.001, min(self.runner.max_block, until - time.monotonic()))
            try:
                self.link = self.runner.connection(left + 0.05)
                if self.link.execute_command("LATCH.WAIT", self.key, "BLOCK", round(left * 1000)):
                    return True
            except LOST as error:
                if FAULT == "gives_up":
                    raise Failure("connection", str(error)) from None
                time.sleep(0.02)
            except redis.ResponseError as error:
                raise refusal(error, self.runner.port) from None
            self.fail_if_ended()
            if until is not None and time.monotonic() >= until:
                return False


class Queue(_Wait):
    def __init__(self, runner, request):
        super().__init__(runner)
        self.queue = request["queue"]

    def push(self, value, delay_ms, item):
        if delay_ms < 0 or _STORED.match(value.encode()):
            raise Failure("bad_option", f"delay must not be negative, and value must not begin with {value[:10]!r}")
        reply = self.call("DELAY.PUSH", self.queue, item or "*", delay_ms, value, times=100 if item else 1)[0]
        if FAULT == "twofold":
            self.call("DELAY.PUSH", self.queue, "*", delay_ms, value)
        return reply.decode()

    def cancel(self, item):
        return self.call("DELAY.CANCEL", self.queue, item)[0] == 1

    def list(self):
        found = self.call("DELAY.LIST", self.queue)[0]
        return [{"item": item.decode(), "value": value.decode()} for item, _, value in found]


class Consumer(_Wait):
    def __init__(self, runner, request, leave):
        super().__init__(runner)
        self.request, self.leave, self.queue = request, leave, request["queue"]
        self.taken, self.failed = taken(self.queue), failed(self.queue)
        self.done, self.seen, self.looked, self.is_away = 0, Counter(), 0.0, False

    def run(self):
        began, link = time.monotonic(), self.runner.connection(3)
        while self.request["jobs"] is None or self.done < self.request["jobs"]:
            self.fail_if_ended()
            try:
                self.sweep(link)
                element = link.execute_command("BLMOVE", self.queue, self.taken, "LEFT", "RIGHT", 0.2)
                self.runner.has_connected, self.is_away = True, False
            except LOST as error:
                if not self.runner.has_connected and time.monotonic() - began > self.runner.connect_timeout:
                    raise Failure("connection", str(error)) from None
                if not self.is_away:
                    log(f"{self.queue}: no connection to 127.0.0.1:{self.runner.port} ({error}); the consumer goes on")
                self.is_away = True
                time.sleep(0.05)
            except redis.ResponseError as error:
                raise refusal(error, self.runner.port) from None
            else:
                if element is not None:
                    self.work(element)

    def sweep(self, link):
        if time.monotonic() - self.looked < 1 or FAULT == "blind":
            return
        found, self.looked = Counter(link.execute_command("LRANGE", self.taken, 0, -1)), time.monotonic()
        for element in (found & self.seen).elements():
            self.claim(element, 0, _parsed(element)[0])
        self.seen = found

    def claim(self, element, ms, tries):
        """Makes an element pending, and removes it from the taken ones. Returns its id, or None: it is another's."""
        name = f"claim-{os.urandom(8).hex()}"
        if FAULT != "forgetful":
            self.push(name, ms, tries, element)
        removed, repeated = self.call("LREM", self.taken, 1, element, times=100)
        if removed == 0 and (not repeated or FAULT == "drops"):
            self.call("DELAY.CANCEL", self.queue, name, times=100)
            return None
        return name

    def push(self, name, ms, tries, element):
        stored = b"lock-so:%d:%b" % (tries, _parsed(element)[1])
        self.call("DELAY.PUSH", self.queue, name, ms, stored, times=100)

    def work(self, element):
        before, value = _parsed(element)
        tries = before + (FAULT != "uncounted")
        name = self.claim(element, self.request["timeout_ms"], tries)
        if name is None:
            return
        if tries > self.request["max_tries"] and FAULT != "endless":
            self.call("RPUSH", self.failed, value, times=100)
            self.call("DELAY.CANCEL", self.queue, name, times=100)
            return
        text = value.decode()
        write({"event": "job", "id": self.request["id"], "value": text, "tries": tries})
        if text in self.request["hold"]:
            self.leave.wait()
        if text in self.request["fail"]:
            self.push(name, self.request["backoff_ms"] * 2**before, tries, element)
        else:
            self.call("DELAY.CANCEL", self.queue, name, times=100)
        self.done += 1


def _parsed(element):
    """How often it was tried, and its value."""
    stored = _STORED.fullmatch(element)
    return (int(stored[1]), stored[2]) if stored else (0, element)
