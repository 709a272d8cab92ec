"""How much a server works until it replies: the CPU time of its main thread, to which other processes add nothing."""

import time
from pathlib import Path

# A time slice is below 1 ms. The replies and the replicated commands of a slice are sent after it, and a PING may
# arrive at its beginning, so that the next slice counts too. The checking build takes several times as long for the
# same work.
_LIMIT_MS = 8
_CHECKING = 3

# What a server needs for the yardstick on a machine of today.
_USUAL_MS = 2.5


class MainThread:
    """The main thread of a server. `limit_ms` is what one step may take, on this machine and of this build."""

    def __init__(self, server):
        self._server = server
        self._schedstat = Path(f"/proc/{server.pid}/task/{server.pid}/schedstat")
        self._sock = server.raw_connection()
        checking = "checked" in str(server.launch.module)
        self.limit_ms = _LIMIT_MS * (_CHECKING if checking else 1) * max(1, self._yardstick_ms() / _USUAL_MS)

    def _now_ms(self):
        return int(self._schedstat.read_text().split()[0]) / 1e6

    def _yardstick_ms(self):
        """How long ten thousand of the server's own commands take on this machine, without the cost of clients."""
        script = "for i = 1, 10000 do redis.call('EXISTS', KEYS[1]) end"
        with self._server.client() as client:
            return min(self.of(lambda: client.eval(script, 1, "yardstick")) for _ in range(5))

    def of(self, call):
        """The CPU time that it needs until `call` has its reply."""
        began = self._now_ms()
        call()
        return self._now_ms() - began

    def _ping(self):
        self._sock.sendall(b"PING\r\n")
        assert self._sock.recv(100) == b"+PONG\r\n"

    def longest(self, condition, timeout=60):
        """The longest CPU time before its reply to one PING, of many that another client sends until `condition` is
        true."""
        end, longest, looks = time.monotonic() + timeout, 0, 0
        while True:
            longest = max(longest, self.of(self._ping))
            looks += 1
            if looks % 20 == 0 and condition():
                return longest
            assert time.monotonic() < end, "it takes too long"
