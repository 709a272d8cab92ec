"""A client that can say a command now and hear the answer later."""

import socket
import struct
import time

from redis.exceptions import ConnectionError, ResponseError, TimeoutError

from .connect import new_connection
from .waiting import scaled, scaled_ms, wait_for


class Actor:
    """One connection of its own, no thread: sending and reading are two calls."""

    def __init__(self, server, name=None, protocol=2, **options):
        self.server = server
        self.name = name
        self._said, self._said_at = (), 0.0
        self._already_heard = []  # answers that have been read, but not asked for yet
        self._connection = new_connection(server.port, protocol, **options)
        self.client_id = self.call("CLIENT", "ID")

    def __repr__(self):
        return f"Actor({self.name or self.client_id})"

    # Saying and hearing

    def send(self, *words):
        """Says a command and does not wait for its answer; several may be sent in a row."""
        assert self._connection.is_connected, f"{self} is closed"
        self._said, self._said_at = words, time.monotonic()
        self._connection.send_command(*words)

    def send_together(self, *commands):
        """Says several, each a tuple of words, in one packet: nobody gets between them, as long as none blocks."""
        self._said, self._said_at = commands[-1], time.monotonic()
        self._connection.send_packed_command(self._connection.pack_commands(commands))

    def reply(self, timeout=5.0):
        """The answer to the oldest unanswered command; an error reply is raised."""
        if self._already_heard:
            return self._already_heard.pop(0)
        if not self._connection.is_connected:  # has_reply has found that the server has reset it
            raise ConnectionError(f"{self} is closed")
        try:
            return self._connection.read_response(timeout=scaled(timeout), disconnect_on_error=False)
        except TimeoutError:
            raise AssertionError(f"{self} got no reply within {scaled(timeout):g} s") from None

    def outcome(self, timeout=5.0):
        """Like reply(), with an error reply returned, not raised."""
        try:
            return self.reply(timeout)
        except ResponseError as error:
            return error

    def call(self, *words, timeout=5.0):
        """Says a command and returns its answer."""
        self.send(*words)
        return self.reply(timeout)

    def attempt(self, *words, timeout=5.0):
        """Like call(), with an error reply returned, not raised."""
        self.send(*words)
        return self.outcome(timeout)

    def has_reply(self):
        """Whether (the beginning of) an answer has arrived, or the server closed the connection."""
        if self._already_heard:
            return True
        try:
            return self._connection.can_read(0)
        except ConnectionError:
            return True

    # What the server says about this client

    def is_blocked(self):
        """Whether the server has this client in a blocking command, by CLIENT LIST."""
        info = self._info()
        return info is not None and "b" in info["flags"]

    def wait_blocked(self, timeout=5.0):
        """Until the client blocks; fails at once when an answer comes instead.

        A short wait may be over before anybody has looked, on a busy machine: then nil says that there was one,
        if the time that it asked for has passed.
        """
        how = wait_for(
            lambda: "blocked" if self.is_blocked() else "answered" if self.has_reply() else None,
            timeout,
            f"{self} to block",
        )
        if how == "answered":
            heard = self.outcome()
            assert heard is None and self._short_wait_is_over(), f"{self} was to block, but heard {heard!r}"
            self._already_heard.append(heard)
        return self

    def _short_wait_is_over(self):
        said = [str(word) for word in self._said]
        block_ms = int(said[said.index("BLOCK") + 1]) if "BLOCK" in said else 0
        passed_ms = (time.monotonic() - self._said_at) * 1000
        return 0 < block_ms < scaled_ms(1000) and passed_ms > block_ms - 1  # the server counts whole ms

    def is_connected(self):
        """Whether the server still knows this client."""
        return self._info() is not None

    def _info(self):
        listed = self.server.control.client_list(client_id=[self.client_id])
        return listed[0] if listed else None

    # Ending

    def wait_closed(self, timeout=5.0):
        """Until the server closes the connection; fails when an answer comes instead."""
        try:
            heard = self.outcome(timeout)
        except ConnectionError:
            return
        raise AssertionError(f"{self} was to be cut off, but heard {heard!r}")

    def kill_socket(self):
        """Drops the connection by RST, as a dying process or machine does."""
        sock = self._connection._sock
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
        self.close()

    def close(self):
        """Closes the connection in good order (FIN)."""
        self._connection.disconnect()
