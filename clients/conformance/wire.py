"""A proxy that reads along in RESP2 and RESP3: it cuts a connection within a command or its answer, or falls silent.

    with Wire(server.port) as wire:
        wire.cut("LOCK.ACQUIRE", request=17)    # the next one: 17 of its bytes get through, then both ends are closed
        wire.cut("LOCK.ACQUIRE", reply=2)       # all of it does, and 2 bytes of the answer
        wire.has_cut()

        wire.silence()          # nothing gets through any more, and no connection is closed
        wire.heal()             # it does again; connections that have lost something are closed
        wire.heal(late=True)    # it does again, and what was held back comes late
        wire.refuse()           # all connections are closed, and so are new ones, until wire.heal()
"""

import select
import socket
import struct
import threading
from collections import deque

from harness.connect import HOST
from harness.waiting import scaled

_BULKS, _LISTS, _MAPS = b"$=!", b"*~>", b"%|"


class Closed(Exception):
    """One end has closed the connection, or it has been cut."""


def _line(file):
    line = file.readline()
    if not line.endswith(b"\r\n"):
        raise Closed
    return line


def read(file):
    """One request or answer: its bytes, and its words if it is a list of texts."""
    head = _line(file)
    kind, rest = head[:1], head[1:-2]
    if kind in _BULKS and int(rest) >= 0:
        body = file.read(int(rest) + 2)
        if len(body) < int(rest) + 2:
            raise Closed
        return head + body, body[:-2]
    if kind in _LISTS + _MAPS and kind:
        parts = [read(file) for _ in range(max(0, int(rest)) * (2 if kind in _MAPS else 1))]
        raw = head + b"".join(part for part, _ in parts)
        if kind == b"|":  # an attribute comes before what it is about
            more, words = read(file)
            return raw + more, words
        return raw, [word for _, word in parts]
    return head, rest


class _Connection:
    def __init__(self, wire, client, server):
        self._wire, self._client, self._server = wire, client, server
        self._left = deque()  # for each answer that has not come yet: of how many bytes of it the client hears, or None
        self._threads = [
            threading.Thread(target=self._carry_all, args=way, daemon=True)
            for way in ((self._carry_request, client), (self._carry_answer, server))
        ]
        for thread in self._threads:
            thread.start()

    def _carry_all(self, carry, source):
        with source.makefile("rb") as file:
            try:
                while True:
                    carry(file)
            except (OSError, Closed, ValueError):
                self._wire.wait_heard()  # a silent network does not say either that somebody has gone
                self.cut()

    def _carry_request(self, file):
        raw, words = read(file)
        request, reply = self._wire.rule_for(words, len(raw))
        self._wire.pass_on()
        self._left.append(reply)
        self._send(self._server, raw, request)

    def _carry_answer(self, file):
        raw, _ = read(file)
        is_answer = not raw.startswith(b">")
        self._wire.pass_on()
        left = self._left.popleft() if is_answer and self._left else None
        if left is not None and left >= len(raw):
            left = None
        elif left is not None:
            self._wire.cut_now()
        self._send(self._client, raw, left)

    def _send(self, sink, raw, left):
        sink.sendall(raw[:left])
        if left is not None:
            raise Closed

    def cut(self):
        # By RST to the client, or it would find out only when it writes.
        try:
            self._client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
        for end in (self._client, self._server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is closed

    def close(self):
        self.cut()
        for thread in self._threads:
            thread.join()
        for end in (self._client, self._server):
            end.close()


class Wire:
    def __init__(self, port):
        self.target = port
        self._rule = None  # (command, way, bytes)
        self._lock, self._heard, self._over = threading.Lock(), threading.Event(), threading.Event()
        self._heard.set()
        self._is_late = self._refuses = False
        self._connections = []
        self._listener = socket.create_server((HOST, 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self):
        while not self._over.is_set():
            if not select.select([self._listener], [], [], 0.05)[0]:
                continue
            client, _ = self._listener.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                server = None if self._refuses else socket.create_connection((HOST, self.target))
            except OSError:
                server = None  # nobody is there now
            if server is None:
                client.close()
                continue
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections.append(_Connection(self, client, server))
            if self._refuses:  # since a moment ago, and this one was not among those that were closed then
                self._connections[-1].cut()

    # What a connection asks

    def rule_for(self, words, length):
        """(bytes of this request that get through, bytes of its answer), None for all."""
        command = words[0].decode("latin-1").upper() if isinstance(words, list) and words else ""
        with self._lock:
            if not self._rule or self._rule[0] != command:
                return None, None
            _, way, left = self._rule
            if way == "reply":
                return None, left
            if left > length:
                return None, None
            self._rule = None
            return left, None

    def cut_now(self):
        self._rule = None

    def pass_on(self):
        """Waits while the wire is silent; what was held back is lost with its connection, unless it comes late."""
        if not self._heard.is_set():
            self.wait_heard()
            if not self._is_late:
                raise Closed

    def wait_heard(self):
        self._heard.wait(scaled(120))

    # What a scenario says

    def cut(self, command, request=None, reply=None):
        with self._lock:
            self._rule = (command, *(("request", request) if reply is None else ("reply", reply)))

    def has_cut(self):
        return self._rule is None

    def silence(self):
        self._heard.clear()

    def refuse(self):
        self._refuses = True
        for connection in list(self._connections):
            connection.cut()

    def heal(self, late=False):
        self._rule, self._is_late, self._refuses = None, late, False
        self._heard.set()

    def heal_late(self):
        self.heal(late=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
        self._listener.close()
        self.heal()
        for connection in self._connections:
            connection.close()
