"""Server errors with their whole text.

redis-py removes the code ("ERR", "OOM", "MOVED", …) from the text of an error that it knows. The
code is part of the module's interface, so here str(error) is the text that the server sent.
"""

from redis._parsers.base import BaseParser
from redis.exceptions import ResponseError

_parse = BaseParser.parse_error.__func__


def _parse_whole(cls, response):
    error = _parse(cls, response)
    error.args = (response,)
    return error


BaseParser.parse_error = classmethod(_parse_whole)


def code_of(error):
    """The first word of a server error: NOTHELD, WRONGTYPE, ERR, …"""
    assert isinstance(error, ResponseError), f"not an error reply: {error!r}"
    return str(error).split(" ", 1)[0]
