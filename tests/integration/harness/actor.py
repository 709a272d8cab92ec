"""A client that can send a command now and read the reply later."""

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
        self._sent, self._sent_at = (), 0.0
        self._already_read = []  # replies that have been read from the socket, but not yet returned by reply()
        self._connection = new_connection(server.port, protocol, **options)
        self.client_id = self.call("CLIENT", "ID")

    def __repr__(self):
        return f"Actor({self.name or self.client_id})"

    # Sending and reading

    def send(self, *words):
        """Sends a command and does not wait for its reply; several may be sent in a row."""
        assert self._connection.is_connected, f"{self} is closed"
        self._sent, self._sent_at = words, time.monotonic()
        self._connection.send_command(*words)

    def send_together(self, *commands):
        """Sends several commands, each a tuple of words, in one packet: as long as none of them blocks, no other
        client's command runs between them."""
        self._sent, self._sent_at = commands[-1], time.monotonic()
        self._connection.send_packed_command(self._connection.pack_commands(commands))

    def reply(self, timeout=5.0):
        """The reply to the oldest command that has none yet; an error reply is raised."""
        if self._already_read:
            return self._already_read.pop(0)
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
        """Sends a command and returns its reply."""
        self.send(*words)
        return self.reply(timeout)

    def attempt(self, *words, timeout=5.0):
        """Like call(), with an error reply returned, not raised."""
        self.send(*words)
        return self.outcome(timeout)

    def has_reply(self):
        """Whether (the beginning of) a reply has arrived, or the server closed the connection."""
        if self._already_read:
            return True
        try:
            return self._connection.can_read(0)
        except ConnectionError:
            return True

    # What the server reports about this client

    def is_blocked(self):
        """Whether the server has this client in a blocking command, by CLIENT LIST."""
        info = self._info()
        return info is not None and "b" in info["flags"]

    def wait_blocked(self, timeout=5.0):
        """Waits until the client blocks; fails at once if a reply arrives instead.

        On a busy machine a short wait may time out before this function has checked. A reply of nil then shows that
        the client did block, if the timeout of the command has passed.
        """
        how = wait_for(
            lambda: "blocked" if self.is_blocked() else "replied" if self.has_reply() else None,
            timeout,
            f"{self} to block",
        )
        if how == "replied":
            got = self.outcome()
            assert got is None and self._short_wait_has_ended(), f"{self} was to block, but received {got!r}"
            self._already_read.append(got)
        return self

    def _short_wait_has_ended(self):
        sent = [str(word) for word in self._sent]
        block_ms = int(sent[sent.index("BLOCK") + 1]) if "BLOCK" in sent else 0
        passed_ms = (time.monotonic() - self._sent_at) * 1000
        return 0 < block_ms < scaled_ms(1000) and passed_ms > block_ms - 1  # the server counts whole ms

    def is_connected(self):
        """Whether CLIENT LIST still has this client."""
        return self._info() is not None

    def _info(self):
        listed = self.server.control.client_list(client_id=[self.client_id])
        return listed[0] if listed else None

    # Ending

    def wait_closed(self, timeout=5.0):
        """Waits until the server closes the connection; fails if a reply arrives instead."""
        try:
            got = self.outcome(timeout)
        except ConnectionError:
            return
        raise AssertionError(f"{self} was to be cut off, but received {got!r}")

    def kill_socket(self):
        """Drops the connection by RST, as a dying process or machine does."""
        sock = self._connection._sock
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
        self.close()

    def close(self):
        """Closes the connection cleanly (FIN)."""
        self._connection.disconnect()
