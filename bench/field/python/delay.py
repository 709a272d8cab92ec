"""The delayed queue by redis-py: DELAY.PUSH and BLPOP. README.md in bench/field says what each command prints."""

import json
import os
import sys
import threading
import time

import redis

WARM = 500
BYTES = 64


def now_ms():
    return time.time() * 1000


def make(letter, due_ms):
    """What is pushed: a letter, when it is due (unix ms), and padding up to 64 bytes."""
    return f"{letter} {due_ms:.3f} ".ljust(BYTES, "x")


def say(**what):
    print(json.dumps(what), flush=True)


class Queue:
    def __init__(self, port, name):
        # As docs/delay.md says, the client's timeout is longer than that of BLPOP. The default is 5 s.
        self.client, self.name = redis.Redis(port=port, socket_timeout=15), name

    def push(self, value, ms):
        self.client.execute_command("DELAY.PUSH", self.name, "*", ms, value)

    def take(self):
        while not (taken := self.client.blpop(self.name, 10)):
            pass
        return taken[1].decode()


class Taker:
    """A thread that takes elements and records how late each is."""

    def __init__(self, queue):
        self.late, self.received, self.warm = [], [], 0
        self._changed = threading.Condition()
        threading.Thread(target=self._run, args=[queue], daemon=True).start()

    def _run(self, queue):
        while True:
            element, now = queue.take(), now_ms()
            with self._changed:
                if element[0] == "w":
                    self.warm += 1
                else:
                    self.late.append(now - float(element.split()[1]))
                    self.received.append(now)
                self._changed.notify()

    def wait(self, condition, seconds=None):
        with self._changed:
            self._changed.wait_for(condition, seconds)


def push_all(queue, letter, rate, count, low_ms, high_ms):
    """Pushes at a steady rate, with delays that are the same in each language; returns how long it took."""
    start = time.monotonic()
    random = 1
    for i in range(count):
        while (left := start + i / rate - time.monotonic()) > 0:
            time.sleep(left)
        random = random * 48271 % 2147483647
        ms = low_ms + random % (high_ms - low_ms + 1)
        queue.push(make(letter, now_ms() + ms), ms)
    return time.monotonic() - start


def flow(queue, rate, count, low_ms, high_ms):
    taker = Taker(queue)
    push_all(queue, "w", 250, WARM, 10, 100)
    taker.wait(lambda: taker.warm >= WARM)
    say(at="ready")
    sys.stdin.readline()
    seconds = push_all(queue, "e", rate, count, low_ms, high_ms)
    taker.wait(lambda: len(taker.late) >= count)
    say(at="done", pushing_s=seconds, late_ms=taker.late)
    sys.stdin.readline()


def push(queue, count, ms):
    for _ in range(count):
        due = now_ms() + ms
        queue.push(make("e", due), ms)
    say(at="pushed", due_ms=due)
    sys.stdin.readline()


def take(queue, count, seconds):
    start = now_ms()
    taker = Taker(queue)
    taker.wait(lambda: len(taker.late) >= count, seconds)
    say(at="done", start_ms=start, late_ms=taker.late, received_ms=taker.received)
    sys.stdin.readline()


def wait(queue, ms):
    Taker(queue)
    queue.push(make("e", now_ms() + ms), ms)
    say(at="ready")
    sys.stdin.readline()


def main():
    _, command, port, name, *numbers = sys.argv[1:]
    {"flow": flow, "push": push, "take": take, "wait": wait}[command](Queue(int(port), name), *map(int, numbers))
    os._exit(0)  # the taker still waits


main()
