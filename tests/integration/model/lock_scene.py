"""A plain lock: how to acquire it, and the contents of its key."""

HIGHEST_COUNT = 2**31 - 1
HOUR = 3_600_000


def acquire(client, *words):
    return client.execute_command("LOCK.ACQUIRE", *words)


def end_of(client, key="k"):
    return client.execute_command("PEXPIRETIME", key)


class lease:
    """Asserts that the key's lease is `ms` long, counted from a moment within this block."""

    def __init__(self, server, ms, key="k"):
        self._server, self._ms, self._key = server, ms, key

    def __enter__(self):
        self._from = self._server.now_ms()

    def __exit__(self, *failure):
        if failure == (None, None, None):
            to = self._server.now_ms()
            assert self._from + self._ms <= end_of(self._server.control, self._key) <= to + self._ms


BYTES = {
    "zero bytes": b"\0a\0b\0",
    "no text": bytes(range(256)),
    "line ends": b"\r\n$3\r\n",
    "longest owner": b"\0" * 512,
    "like an option": b"PX",
    "almost reserved": b"modes",
    "reserved in capitals": b"MODE",
    "reserved and a zero byte": b"mode\0",
    "reserved, not at the end": b"a:write:1",
    "a number": b"1",
}
FOREIGN = {
    "two fields": {"o": "1", "p": "1"},
    "unknown mode": {"mode": "banana", "o": "1"},
    "garbage": {"o": "garbage"},
    "empty": {"o": ""},
    "zero": {"o": "0"},
    "negative": {"o": "-1"},
    "above the limit": {"o": str(HIGHEST_COUNT + 1)},
    "fraction": {"o": "1.5"},
    "leading zero": {"o": "01"},
}
