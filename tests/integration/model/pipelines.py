"""Many connections that send pipelines without a pause, so that a server's I/O threads have work."""

import selectors
import socket
import time
from collections import Counter

from harness import scaled

HOST = "127.0.0.1"


def encoded(words):
    parts = [f"${len(word)}\r\n{word}\r\n" for word in map(str, words)]
    return f"*{len(parts)}\r\n{''.join(parts)}".encode()


class Pipeline:
    """One connection. It sends the same commands over and over, each time after it has all replies.

    `first` are commands that it sends once, at the beginning. A command is a line of words.
    """

    def __init__(self, port, commands, first=()):
        end = f"the end of {id(self)}"
        self.commands, self.errors = 0, Counter()
        self._size = len(commands)
        self._sent = b"".join(encoded(line.split()) for line in commands) + encoded(["ECHO", end])
        self._end = f"\r\n{end}\r\n".encode()
        self._received = b""
        self.socket = socket.create_connection((HOST, port), timeout=scaled(30))
        self.socket.sendall(b"".join(encoded(line.split()) for line in first))

    def send(self):
        self.socket.sendall(self._sent)

    def receive(self):
        """Reads what has arrived. After the last reply it counts all commands, and sends them again."""
        more = self.socket.recv(65536)
        if not more:
            raise ConnectionError("the server has closed the connection")
        self._received += more
        # Not only at the end: a push message to a tracking client can follow it.
        if self._end in self._received:
            self.commands += self._size
            lines = self._received.split(b"\r\n")
            self.errors.update(line[1:].split()[0].decode() for line in lines if line[:1] == b"-")
            self._received = b""
            self.send()

    def close(self):
        self.socket.close()


def run_pipelines(pipelines, commands, minutes=0.0):
    """Runs until this many commands have a reply, and this many minutes have passed.

    Returns the error replies, counted by their code. If the server dies, a ConnectionError is raised.
    """
    end = time.monotonic() + minutes * 60
    with selectors.DefaultSelector() as selector:
        for pipeline in pipelines:
            selector.register(pipeline.socket, selectors.EVENT_READ, pipeline)
            pipeline.send()
        while sum(pipeline.commands for pipeline in pipelines) < commands or time.monotonic() < end:
            ready = selector.select(scaled(30))
            assert ready, "no reply on any connection"
            for key, _ in ready:
                key.data.receive()
    return sum((pipeline.errors for pipeline in pipelines), Counter())
