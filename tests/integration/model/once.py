"""ONCE in the oracles: a kind of request that equals the one of its name, but adds only the holds that are missing."""


class Once(str):
    """Once("RWREAD") == "RWREAD": requested by the same command, with ONCE."""

    __slots__ = ()


def is_once(kind):
    return isinstance(kind, Once)


def options(kind):
    return ("ONCE",) if is_once(kind) else ()
