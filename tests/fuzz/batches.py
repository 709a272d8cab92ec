"""What one connection sends, in batches: for a seed and a slot always the same ones."""

from dataclasses import dataclass

from grammar import Rng

WAITS, CLOSES, RESETS = "waits", "closes", "resets"


@dataclass
class Batch:
    data: bytes
    count: int
    """How many commands are in it."""
    end: str
    """The connection waits for `mark`, closes at once, or is reset at once."""
    mark: bytes = b""


def encoded(words):
    return b"*%d\r\n" % len(words) + b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


def inline(words):
    """The same command as an inline command, if its words allow that."""
    plain = all(word and not set(word) & set(b"\r\n\0\"' ") for word in words)
    return b" ".join(words) + b"\r\n" if plain else encoded(words)


# What must be sent before ECHO, so that its reply is the echo.
ENDING = encoded([b"CLIENT", b"REPLY", b"ON"]) + encoded([b"DISCARD"])


class Batches:
    def __init__(self, commands, seed, slot):
        self._commands, self._slot, self._number = commands, slot, 0
        self._rng = Rng(f"{seed}/{slot}")

    def next(self):
        rng = self._rng
        self._number += 1
        commands = []
        for _ in range(self._length()):
            commands += self._transaction() if rng.chance(0.02) else [self._command()]
        form = inline if rng.chance(0.02) else encoded
        data = b"".join([form(words) for words in commands])
        if rng.chance(0.03):
            return Batch(data[: len(data) - rng.below(40)], len(commands), rng.one_of([CLOSES, RESETS]))
        mark = b"end-%d-%d" % (self._slot, self._number)
        return Batch(data + ENDING + encoded([b"ECHO", mark]), len(commands), WAITS, mark)

    def _length(self):
        """Mostly a few, because a long batch is likely to contain a command that waits; sometimes hundreds."""
        rng = self._rng
        return 1 + rng.below(400 if rng.chance(0.02) else 30 if rng.chance(0.3) else 4)

    def _command(self):
        words = []
        self._commands(self._rng, words)
        return words

    def _transaction(self):
        rng = self._rng
        queued = [self._command() for _ in range(1 + rng.below(5))]
        watch = [[b"WATCH", b"{a}"]] if rng.chance(0.3) else []
        return [*watch, [b"MULTI"], *queued, [rng.one_of([b"EXEC", b"EXEC", b"EXEC", b"DISCARD", b"MULTI"])]]
