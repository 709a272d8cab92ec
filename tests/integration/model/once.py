"""ONCE in the oracles: a kind of request that is like any other of its name, but adds only what is missing."""


class Once(str):
    """Once("RWREAD") == "RWREAD": asked for in the same words, and ONCE."""

    __slots__ = ()


def is_once(kind):
    return isinstance(kind, Once)


def options(kind):
    return ("ONCE",) if is_once(kind) else ()
