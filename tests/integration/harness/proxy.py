"""Proxies between a client and a server, or two servers. `Proxy` carries any bytes:

    with Proxy(server.port) as proxy:
        client = new_client(proxy.port, retry=…)
        proxy.cut(request=17)       # from now on: 17 bytes of the request get through, then both ends are closed
        proxy.cut(reply=2)          # the whole request gets through, and 2 bytes of the server's reply
        proxy.has_cut()

        proxy.swallow()             # nothing gets through any more in either direction, and no connection is closed
        proxy.heal()                # bytes get through again; connections that have lost bytes are closed
        proxy.heal(late=True)       # bytes get through again, and those that were swallowed are delivered late
        with proxy.swallowing():    # swallows until the end of the block; then the bytes are delivered late
            ...
        proxy.close_all()           # all connections are closed
        proxy.refuse()              # all connections are closed, and new ones too until proxy.heal()

`CommandProxy` carries requests and replies, in RESP2 or RESP3, and knows which command each belongs to:

        proxy.cut("LOCK.RENEW", reply=0)        # of the next such command; no cut if its reply is not longer
        held = proxy.hold("LOCK.RENEW")         # from now on the server's replies to it are held back
        held.wait_arrived()                     # until one has arrived
        held.release()                          # all are passed on, and so are later ones
        held.wait_passed()                      # until one has been passed on
        proxy.answer("LOCK.RENEW", "-ERR no")   # replies instead of the server, which does not get it, until heal()
        proxy.commands                          # the commands of all requests, in capital letters

Connections after a cut go through. The server may be down: then new connections are closed.
"""

import select
import socket
import threading
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass

from .connect import HOST
from .waiting import wait_for

FIRST = 128  # how many of the first bytes of a connection are kept, to identify it
_PING = b"*1\r\n$4\r\nPING\r\n"
_BULKS, _LISTS, _MAPS = b"$=!", b"*~>", b"%|"


class Closed(Exception):
    """One end has closed the connection, or the proxy has to close it."""


@dataclass
class _Cut:
    way: str  # "request" or "reply"
    left: int  # bytes that still get through
    command: str | None = None


class _Link:
    """A client's connection and the connection to the server, with a thread for each direction."""

    def __init__(self, proxy, client, server):
        self._proxy, self._ends, self._running = proxy, (client, server), 2
        self.is_cut = False
        self.first = b""  # the first bytes that the client has sent
        self.expected = deque()  # for each reply that has not arrived yet: what to do with it
        ways = ("request", client, server), ("reply", server, client)
        self._threads = [threading.Thread(target=self._run, args=way, daemon=True) for way in ways]
        for thread in self._threads:
            thread.start()

    def _run(self, way, source, sink):
        try:
            with source.makefile("rb") as file:
                while True:
                    self._proxy.carry(self, way, file, sink)
        except (OSError, Closed, ValueError):
            self._proxy.wait_open(self)  # a network that swallows bytes does not show either that an end has closed
        self.close()
        with self._proxy.lock:
            self._running -= 1
        if not self._running:
            for end in self._ends:
                end.close()

    def close(self):
        for end in self._ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is closed already

    def join(self):
        for thread in self._threads:
            thread.join()


class Proxy:
    def __init__(self, port):
        self.target = port
        self.lock = threading.Lock()
        self._changed, self._ends = threading.Condition(), threading.Event()
        self._swallows = None  # which connections are swallowed, by their first bytes
        self._is_late = self._refuses = False
        self.refused = 0  # how many connections were closed at once
        self._cut, self._links = None, []
        self._listener = socket.create_server((HOST, 0))
        self.port = self._listener.getsockname()[1]
        self._accepts = threading.Thread(target=self._accept, daemon=True)
        self._accepts.start()

    def _accept(self):
        while not self._ends.is_set():
            if not select.select([self._listener], [], [], 0.05)[0]:
                continue
            client, _ = self._listener.accept()
            try:
                server = None if self._refuses else socket.create_connection((HOST, self.target))
            except OSError:
                server = None  # the server is down
            if server is None:
                self.refused += 1
                client.close()
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._links.append(_Link(self, client, server))
            if self._refuses:  # since a moment ago, and this connection was not among those that were closed then
                self._links[-1].close()

    # What a connection calls

    def carry(self, link, way, file, sink):
        raw = file.read1(65536)
        if not raw:
            raise Closed
        if way == "request" and not link.first:
            link.first = raw[:FIRST]
        self.pass_on(link)
        self.send(link, sink, raw, way, self._cut)

    def pass_on(self, link):
        """Waits while the proxy swallows; then the swallowed bytes and the connection are lost, unless heal(late=True)
        delivers them."""
        if self.wait_open(link) and not self._is_late:
            raise Closed

    def wait_open(self, link):
        """Waits while the proxy swallows this connection; returns whether it did."""

        def is_open():
            return not (self._swallows and self._swallows(link.first))

        with self._changed:
            return not is_open() and self._changed.wait_for(is_open)

    def send(self, link, sink, raw, way, cut):
        with self.lock:
            if link.is_cut:  # the reply to a request after which the connection is cut does not arrive
                raise Closed
            if cut and cut is self._cut and cut.way == way and self.reaches(cut, raw):
                sink.sendall(raw[: cut.left])
                self._cut, link.is_cut = None, True
                raise Closed
        sink.sendall(raw)

    def reaches(self, cut, raw):
        """Returns whether the cut is within these bytes."""
        if cut.left <= len(raw):
            return True
        cut.left -= len(raw)
        return False

    # What a test calls

    def cut(self, **left):
        """Cuts after this number of bytes in one direction, `request` or `reply`, counted from now."""
        [(way, count)] = left.items()
        self._cut = _Cut(way, count)

    def has_cut(self):
        return self._cut is None

    def swallow(self, whose=lambda first: True):
        """Swallows the bytes of all connections, or of those for whose first bytes `whose` is true."""
        with self._changed:
            self._swallows = whose

    def heal(self, late=False):
        with self._changed:
            self._swallows, self._is_late, self._refuses, self._cut = None, late, False, None
            self._changed.notify_all()

    @contextmanager
    def swallowing(self, whose=lambda first: True):
        self.swallow(whose)
        try:
            yield
        finally:
            self.heal(late=True)

    def close_all(self):
        for link in list(self._links):
            link.close()

    def refuse(self):
        self._refuses = True
        self.close_all()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._ends.set()
        self._accepts.join()
        self._listener.close()
        self.heal()
        self.close_all()
        for link in self._links:
            link.join()


# ---- Commands ----


def _line(file):
    line = file.readline()
    if not line.endswith(b"\r\n"):
        raise Closed
    return line


def read(file):
    """One request or reply: its bytes, and its words if it is a list of strings."""
    head = _line(file)
    kind, rest = head[:1], head[1:-2]
    if kind in _BULKS and int(rest) >= 0:
        body = file.read(int(rest) + 2)
        if len(body) < int(rest) + 2:
            raise Closed
        return head + body, body[:-2]
    if kind in _LISTS + _MAPS:
        parts = [read(file) for _ in range(max(0, int(rest)) * (2 if kind in _MAPS else 1))]
        raw = head + b"".join(part for part, _ in parts)
        if kind == b"|":  # an attribute, which precedes the reply that it belongs to
            more, words = read(file)
            return raw + more, words
        return raw, [word for _, word in parts]
    return head, rest


class Held:
    """Replies that are held back."""

    def __init__(self):
        self._arrived, self._released, self._passed = (threading.Event() for _ in range(3))

    def keep(self):
        self._arrived.set()
        self._released.wait()

    def has_arrived(self):
        return self._arrived.is_set()

    def wait_arrived(self):
        wait_for(self.has_arrived, 20, "the reply that is to be held back")

    def release(self):
        self._released.set()

    def passed(self):
        self._passed.set()

    def wait_passed(self):
        wait_for(self._passed.is_set, 20, "the reply that was held back to be passed on")


class CommandProxy(Proxy):
    def __init__(self, port):
        self._rules, self._held, self.commands = {}, [], []
        super().__init__(port)

    def carry(self, link, way, file, sink):
        raw, words = read(file)
        if way == "request":
            self._carry_request(link, raw, words, sink)
        else:
            self._carry_reply(link, raw, sink)

    def _carry_request(self, link, raw, words, sink):
        command = words[0].decode("latin-1").upper() if isinstance(words, list) and words else ""
        self.commands.append(command)
        rule, cut = self._rules.get(command), self._cut
        cut = cut if cut and cut.command == command else None
        link.expected.append((rule, cut))
        self.pass_on(link)
        self.send(link, sink, _PING if isinstance(rule, bytes) else raw, "request", cut)

    def _carry_reply(self, link, raw, sink):
        is_reply = not raw.startswith(b">")
        rule, cut = link.expected.popleft() if is_reply and link.expected else (None, None)
        if isinstance(rule, Held):
            rule.keep()
        self.pass_on(link)
        self.send(link, sink, rule if isinstance(rule, bytes) else raw, "reply", cut)
        if isinstance(rule, Held):
            rule.passed()

    def reaches(self, cut, raw):
        return cut.left < len(raw) + (cut.way == "request")

    def cut(self, command, **left):
        [(way, count)] = left.items()
        self._cut = _Cut(way, count, command)

    def hold(self, command):
        self._rules[command] = held = Held()
        self._held.append(held)
        return held

    def answer(self, command, line):
        self._rules[command] = line.encode() + b"\r\n"

    def heal(self, late=False):
        self._rules = {}
        super().heal(late)

    def __exit__(self, *_):
        for held in self._held:
            held.release()
        super().__exit__()
