"""A server's AOF: what it holds, as commands, and its rewriting."""

import io
import re

from .waiting import wait_for


def aof_of(server):
    """What its AOF holds behind the base: the increments that the manifest names, in order."""
    folder = server.folder / "appendonlydir"
    manifest = (folder / "appendonly.aof.manifest").read_text()
    names = re.findall(r"^file (\S+) seq \d+ type i", manifest, re.M)
    return b"".join((folder / name).read_bytes() for name in names)


def commands_in(stream):
    """The commands in a stream of RESP, as lists of texts, without SELECT."""
    lines, commands = io.BytesIO(stream), []
    while head := lines.readline():
        lengths_and_words = (lines.read(int(lines.readline()[1:]) + 2)[:-2] for _ in range(int(head[1:])))
        commands.append([word.decode() for word in lengths_and_words])
    return [words for words in commands if words[0] != "SELECT"]


REWRITTEN = "Background AOF rewrite finished successfully"


def rewrite_aof(server):
    rewrites = server.log().count(REWRITTEN)
    server.control.bgrewriteaof()
    wait_for(lambda: server.log().count(REWRITTEN) > rewrites, what="the AOF to be rewritten")
