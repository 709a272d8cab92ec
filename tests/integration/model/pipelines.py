"""Many connections that send pipelines without a pause: what a server's I/O threads have to do."""

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
    """One connection. It sends the same commands over and over, the next time when all have been answered.

    `first` are commands that it sends once, before. A command is a line of words.
    """

    def __init__(self, port, commands, first=()):
        end = f"the end of {id(self)}"
        self.commands, self.errors = 0, Counter()
        self._size = len(commands)
        self._sent = b"".join(encoded(line.split()) for line in commands) + encoded(["ECHO", end])
        self._end = f"\r\n{end}\r\n".encode()
        self._heard = b""
        self.socket = socket.create_connection((HOST, port), timeout=scaled(30))
        self.socket.sendall(b"".join(encoded(line.split()) for line in first))

    def send(self):
        self.socket.sendall(self._sent)

    def receive(self):
        """Reads what is there. If that is the last answer it counts them all, and sends again."""
        more = self.socket.recv(65536)
        if not more:
            raise ConnectionError("the server has closed the connection")
        self._heard += more
        # Not at the end: what is pushed to a tracking client can follow it.
        if self._end in self._heard:
            self.commands += self._size
            self.errors.update(line[1:].split()[0].decode() for line in self._heard.split(b"\r\n") if line[:1] == b"-")
            self._heard = b""
            self.send()

    def close(self):
        self.socket.close()


def run_pipelines(pipelines, commands, minutes=0.0):
    """Until this many commands have been answered, and this many minutes have passed.

    Returns the errors among the answers, counted by their code. If the server dies that is a ConnectionError.
    """
    end = time.monotonic() + minutes * 60
    with selectors.DefaultSelector() as selector:
        for pipeline in pipelines:
            selector.register(pipeline.socket, selectors.EVENT_READ, pipeline)
            pipeline.send()
        while sum(pipeline.commands for pipeline in pipelines) < commands or time.monotonic() < end:
            ready = selector.select(scaled(30))
            assert ready, "no answer to any connection"
            for key, _ in ready:
                key.data.receive()
    return sum((pipeline.errors for pipeline in pipelines), Counter())
