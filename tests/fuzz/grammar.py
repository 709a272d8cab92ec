"""Random commands, as a server's COMMAND DOCS describes them.

A part of a command is a function: `part(rng, words)` appends words that `rng` chooses.
"""

from bisect import bisect
from itertools import accumulate
from random import Random

import words as pools


class Rng:
    """The random choices for one connection's commands."""

    def __init__(self, seed):
        random = Random(seed)
        self.fraction, self.shuffle = random.random, random.shuffle

    def chance(self, probability):
        return self.fraction() < probability

    def below(self, number):
        return int(self.fraction() * number)

    def one_of(self, pool):
        return pool[int(self.fraction() * len(pool))]


def token(text):
    word = text.encode()
    return lambda rng, words: words.append(word)


def word(pool):
    return lambda rng, words: words.append(rng.one_of(pool))


def sequence(parts):
    def add(rng, words):
        for part in parts:
            part(rng, words)

    return add


def one_of(parts):
    return lambda rng, words: rng.one_of(parts)(rng, words)


def weighted(pairs):
    """One of several parts, chosen by weight: [(weight, part)]."""
    sums = list(accumulate(weight for weight, _ in pairs))
    return lambda rng, words: pairs[bisect(sums, rng.fraction() * sums[-1])][1](rng, words)


def repeated(part):
    return lambda rng, words: sequence([part] * (1 + rng.below(3)))(rng, words)


def counted(part):
    """The number of keys, and then the keys; sometimes with a wrong number."""

    def add(rng, words):
        number = 1 + rng.below(4)
        words.append(b"%d" % number if rng.chance(0.95) else rng.one_of(pools.INTEGERS))
        sequence([part] * number)(rng, words)

    return add


class Optional:
    def __init__(self, part):
        self._part = part

    def __call__(self, rng, words):
        if rng.chance(0.4):
            self._part(rng, words)


def command(name, parts):
    """The name, the required arguments, and the options: sometimes in another order, with one of them twice."""
    last = max((at for at, part in enumerate(parts) if not isinstance(part, Optional)), default=-1)
    start, options = sequence([token(name.upper()), *parts[: last + 1]]), parts[last + 1 :]

    def add(rng, words):
        start(rng, words)
        chosen = options
        if options and rng.chance(0.2):
            chosen = [*options, rng.one_of(options)]
            rng.shuffle(chosen)
        sequence(chosen)(rng, words)

    return add


def malformed(part, often):
    """A command that is sometimes not quite valid: a word is missing, doubled, replaced or added."""

    def add(rng, words):
        made = []
        part(rng, made)
        while rng.chance(often):
            at, how = 1 + rng.below(len(made)), rng.below(4)
            if how == 0:
                del made[at : at + 1]
            elif how == 1:
                made.insert(at, rng.one_of(made))
            else:
                made[at : at + how - 2] = [rng.one_of(pools.ANY_WORDS)]
        words += made

    return add


class Reader:
    """Builds a command from COMMAND DOCS. `keys` is the pool of its keys; `inner` chooses a command as an argument."""

    def __init__(self, keys, inner):
        self._key, self._inner = word(keys), inner

    def command(self, name, docs):
        return command(name, self._parts(docs.get("arguments", ())))

    def _parts(self, arguments):
        parts, rest = [], list(arguments)
        while rest:
            argument = rest.pop(0)
            if argument["name"] == "numkeys" and rest and rest[0]["type"] == "key":
                rest.pop(0)
                parts.append(counted(self._key))
            elif argument["name"] == "command" and argument["type"] == "string":
                return [*parts, self._inner]
            else:
                parts.append(self._part(argument))
        return parts

    def _part(self, argument):
        flags, part = argument.get("flags", ()), self._value(argument)
        if "multiple" in flags:
            part = repeated(part)
        if "token" in argument:
            part = sequence([token(argument["token"]), part])
        return Optional(part) if "optional" in flags else part

    def _value(self, argument):
        kind = argument["type"]
        if kind == "key":
            return self._key
        if kind == "oneof":
            return one_of(self._parts(argument["arguments"]))
        if kind in ("block", "pure-token"):
            return sequence(self._parts(argument.get("arguments", ())))
        return word(pools.pool_of(argument))
