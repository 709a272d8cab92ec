"""Connections that send batches, in one thread."""

import ast
import select
import selectors
import socket
import struct
import time
from collections import deque
from contextlib import suppress

from batches import RESETS, WAITS
from harness.connect import HOST
from harness.waiting import scaled

# How long a connection waits for the end of its batch before it is closed, which ends a wait with BLOCK 0.
PATIENCE_S = 0.1

# How many batches are kept for a replay after a failure.
KEPT = 5000


class Connection:
    """One slot: one connection after the other, each of which continues with the slot's batches."""

    def __init__(self, slot, batches, port_of, selector, sent):
        self.slot, self._batches, self._port_of = slot, batches, port_of
        self._selector, self._sent = selector, sent
        self._life, self._sock, self._batch = 0, None, None

    def step(self):
        """Sends the next batch."""
        if self._sock is None:
            self._open()
        self._batch = batch = self._batches.next()
        self._received, self._since = b"", time.monotonic()
        self._sent.append((self.slot, self._life, batch.data, batch.end))
        with suppress(ConnectionError):
            self._sock.sendall(batch.data)
        if batch.end != WAITS:
            self.close(reset=batch.end == RESETS)

    def _open(self):
        self._life += 1
        self._sock = socket.create_connection((HOST, self._port_of(self.slot)), timeout=scaled(30))
        self._selector.register(self._sock, selectors.EVENT_READ, self)

    def is_idle(self):
        return self._batch is None

    def is_late(self, now):
        return self._batch is not None and now - self._since > PATIENCE_S

    def read(self):
        """Reads what has arrived. Returns how many commands have a reply: when the whole batch has, it is idle."""
        try:
            data = self._sock.recv(1 << 18)
        except ConnectionError:
            data = b""
        if not data:
            self.close()
            return 0
        received = self._received + data
        self._received = received[-64:]
        if self._batch is None or self._batch.mark not in received:
            return 0
        count, self._batch = self._batch.count, None
        return count

    def close(self, reset=False):
        if self._sock is not None:
            self._selector.unregister(self._sock)
            if reset:
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._sock.close()
        self._sock, self._batch = None, None


class Traffic:
    """A number of connections. `port_of(slot)` is the port to which one is opened."""

    def __init__(self, batches, port_of):
        self._selector = selectors.DefaultSelector()
        self.sent = deque(maxlen=KEPT)
        self.replied = 0
        """How many commands have a reply, not counting batches whose connection was closed before."""
        self._connections = [
            Connection(slot, one, port_of, self._selector, self.sent) for slot, one in enumerate(batches)
        ]

    def run(self, commands, between):
        """Runs until this many more commands have a reply; calls `between()` again and again."""
        end = self.replied + commands
        while self.replied < end:
            for connection in self._connections:
                if connection.is_idle():
                    connection.step()
            self.replied += sum(key.data.read() for key, _ in self._selector.select(0.02))
            now = time.monotonic()
            for connection in self._connections:
                if connection.is_late(now):
                    connection.close(reset=connection.slot % 2 == 0)
            between()

    def close(self):
        for connection in self._connections:
            connection.close()


def write_sent(sent, path):
    """Writes one batch a line: the slot, the number of the connection in it, the bytes, how the batch ended."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{batch!r}\n" for batch in sent))


def replay(path, port_of):
    """Sends what write_sent has written, in the same order: each batch when the one before it has a reply or waits."""
    socks = {}
    for line in open(path):
        slot, life, data, end = ast.literal_eval(line)
        if (slot, life) not in socks:
            socks[slot, life] = socket.create_connection((HOST, port_of(slot)), timeout=scaled(30))
        sock = socks[slot, life]
        with suppress(ConnectionError):
            sock.sendall(data)
            select.select([sock], [], [], 0.002)
        if end != WAITS:
            socks.pop((slot, life)).close()
    for sock in socks.values():
        sock.close()
