"""A proxy that reads along: it keeps answers back, answers in the server's place, and cuts behind a command.

    with Wire(server.port) as wire:
        held = wire.hold("LOCK.RENEW")      # from now on the server's answers to it wait here
        held.wait_come()                    # one has come
        held.release()                      # all go on, and those to come go through
        held.wait_passed()                  # one has gone on

        wire.answer("LOCK.RENEW", "-ERR no")    # the server never hears of it, until wire.heal()
        wire.cut_behind("LOCK.RELEASE")     # the next one is done, and its connection closed in place of the answer
        wire.cut()                          # all connections end
        wire.refuse()                       # and new ones too, until wire.heal()
        wire.silence()                      # nothing passes, and no connection ends, until wire.heal()
"""

import select
import socket
import threading
from collections import deque

from harness.connect import HOST
from harness.waiting import scaled, wait_for

_PING = b"*1\r\n$4\r\nPING\r\n"


class Closed(Exception):
    """One end has closed the connection."""


def _line(file):
    line = file.readline()
    if not line.endswith(b"\r\n"):
        raise Closed
    return line


def _bytes(file, count):
    heard = file.read(count)
    if len(heard) < count:
        raise Closed
    return heard


def _read(file):
    """One request or answer in RESP2: its bytes, and its words if it is an array of texts."""
    head = _line(file)
    kind, rest = head[:1], head[1:-2]
    if kind == b"$":
        body = _bytes(file, int(rest) + 2) if int(rest) >= 0 else b""
        return head + body, body[:-2]
    if kind == b"*":
        parts = [_read(file) for _ in range(max(0, int(rest)))]
        return head + b"".join(raw for raw, _ in parts), [word for _, word in parts]
    return head, rest


class Held:
    """Answers that are kept back."""

    def __init__(self):
        self._come, self._released, self._passed = (threading.Event() for _ in range(3))

    def keep(self):
        self._come.set()
        self._released.wait(scaled(120))

    def has_come(self):
        return self._come.is_set()

    def wait_come(self):
        wait_for(self.has_come, 20, "the answer that is to be held")

    def release(self):
        self._released.set()

    def pass_by(self):
        self._passed.set()

    def wait_passed(self):
        wait_for(self._passed.is_set, 20, "the answer that was held to go on")


class _Connection:
    def __init__(self, wire, client, server):
        self._wire, self._ends = wire, (client, server)
        self._rules = deque()  # for each answer that has not come yet: what is to be done with it
        ways = (self._carry_request, client, server), (self._carry_answer, server, client)
        self._threads = [threading.Thread(target=self._carry_all, args=way, daemon=True) for way in ways]
        for thread in self._threads:
            thread.start()

    def _carry_all(self, carry, source, sink):
        with source.makefile("rb") as file:
            try:
                while True:
                    carry(file, sink)
            except (OSError, Closed, ValueError):
                self.cut()

    def _carry_request(self, file, sink):
        raw, words = _read(file)
        rule = self._wire.rule_for(words)
        self._rules.append(rule)
        self._wire.pass_on()
        sink.sendall(_PING if isinstance(rule, bytes) else raw)

    def _carry_answer(self, file, sink):
        raw, _ = _read(file)
        rule = self._rules.popleft()
        if rule == "cut":
            raise Closed
        if isinstance(rule, Held):
            rule.keep()
        self._wire.pass_on()
        sink.sendall(rule if isinstance(rule, bytes) else raw)
        if isinstance(rule, Held):
            rule.pass_by()

    def cut(self):
        for end in self._ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is closed

    def close(self):
        self.cut()
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            end.close()


class Wire:
    def __init__(self, port):
        self._target, self._rules, self._connections = port, {}, []
        self._lock, self._passes, self._over = threading.Lock(), threading.Event(), threading.Event()
        self._passes.set()
        self._refuses, self.refused = False, 0  # connections that were closed at once
        self.said = []  # all commands that clients have said, in capital letters
        self._listener = socket.create_server((HOST, 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self):
        while not self._over.is_set():
            if select.select([self._listener], [], [], 0.05)[0]:
                client, _ = self._listener.accept()
                try:
                    server = None if self._refuses else socket.create_connection((HOST, self._target))
                except OSError:
                    server = None
                if server is None:
                    self.refused += 1
                    client.close()
                else:
                    self._connections.append(_Connection(self, client, server))

    def rule_for(self, words):
        command = words[0].decode().upper()
        with self._lock:
            self.said.append(command)
            rule = self._rules.get(command)
            if rule == "cut":
                del self._rules[command]
            return rule

    def pass_on(self):
        self._passes.wait(scaled(120))

    # What a test says

    def hold(self, command):
        self._rules[command] = held = Held()
        return held

    def answer(self, command, line):
        self._rules[command] = line.encode() + b"\r\n"

    def cut_behind(self, command):
        self._rules[command] = "cut"

    def has_cut(self, command):
        return command not in self._rules

    def cut(self):
        for connection in list(self._connections):
            connection.cut()

    def refuse(self):
        self._refuses = True
        self.cut()

    def silence(self):
        self._passes.clear()

    def heal(self):
        self._rules, self._refuses = {}, False
        self._passes.set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
        self._listener.close()
        for rule in self._rules.values():
            if isinstance(rule, Held):
                rule.release()
        self.heal()
        for connection in self._connections:
            connection.close()
