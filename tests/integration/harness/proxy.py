"""A proxy between a client and a server, or two servers: it cuts one connection at the byte that a test names, or swallows.

    with Proxy(server.port) as proxy:
        client = new_client(proxy.port, retry=…)
        proxy.cut(request=17)       # the next bytes: 17 of the request get through, then both ends are closed
        proxy.cut(reply=2)          # the whole request does, and 2 bytes of what the server answers
        ...
        assert proxy.has_cut()

        proxy.swallow()             # nothing gets through any more, either way, and no connection is closed
        proxy.heal()                # it does again; connections that have lost something are closed
        with proxy.swallowing():    # likewise, and what was swallowed comes late
            ...

What comes on connections after the cut goes through. The server may be down: then whoever connects is cut off.
"""

import select
import socket
import struct
import threading
from contextlib import contextmanager

from .connect import HOST

FIRST = 128  # bytes of a connection, by which it may be known


class Proxy:
    def __init__(self, port):
        self.target = port
        self._listener = socket.create_server((HOST, 0))
        self.port = self._listener.getsockname()[1]
        self._swallows = None  # of which connections, by their first bytes
        self._is_late = False  # what was swallowed comes yet
        self._left = {}  # how many bytes are still to pass, by direction, until the cut
        self._threads, self._ends = [], threading.Event()
        self._start(self._accept)

    def cut(self, **left):
        """After so many bytes in one direction, `request` or `reply`, counted from now."""
        self._left = left

    def has_cut(self):
        return not self._left

    def swallow(self, whose=lambda first: True):
        """Of all connections, or of those whose first bytes are such."""
        self._swallows = whose

    def heal(self, late=False):
        self._is_late = late
        self._swallows = None

    @contextmanager
    def swallowing(self, whose=lambda first: True):
        self.swallow(whose)
        try:
            yield
        finally:
            self.heal(late=True)

    def _start(self, *work):
        thread = threading.Thread(target=work[0], args=work[1:], daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        while not self._ends.is_set():
            if select.select([self._listener], [], [], 0.05)[0]:
                client, _ = self._listener.accept()
                try:
                    self._start(self._carry, client, socket.create_connection((HOST, self.target)))
                except ConnectionError:
                    client.close()  # nobody is there now

    def _carry(self, client, server):
        ways = {client: (server, "request"), server: (client, "reply")}
        first, has_lost = b"", False
        try:
            while not self._ends.is_set():
                ready = select.select(list(ways), [], [], 0.05)[0]
                if client in ready and not first:
                    first = client.recv(FIRST, socket.MSG_PEEK)
                swallows = self._swallows
                if swallows and swallows(first):
                    has_lost = has_lost or bool(ready)
                    self._ends.wait(0.01)
                    continue
                if has_lost and not self._is_late:
                    return
                has_lost = False
                for source in ready:
                    if not self._pass(source, *ways[source]):
                        return
        except OSError:
            pass
        finally:
            for end in ways:
                # By RST to the client, or it would find out only when it writes.
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", end is client, 0))
                end.close()

    def _pass(self, source, sink, way):
        """Returns whether the connection goes on."""
        heard = source.recv(65536)
        left = self._left.get(way)
        if left is None or not heard:
            sink.sendall(heard)
            return bool(heard)
        sink.sendall(heard[:left])
        self._left[way] = left - len(heard)
        if left > len(heard):
            return True
        self._left = {}
        return False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._ends.set()
        for thread in self._threads:
            thread.join()
        self._listener.close()
