"""A server's AOF: what it holds, as commands, and its rewriting."""

import io
import re

from .waiting import wait_for


def increments(server):
    """The files behind the base, as the manifest names them, in order."""
    folder = server.folder / "appendonlydir"
    manifest = (folder / "appendonly.aof.manifest").read_text()
    return [folder / name for name in re.findall(r"^file (\S+) seq \d+ type i", manifest, re.M)]


def aof_of(server):
    """What its AOF holds behind the base."""
    return b"".join(path.read_bytes() for path in increments(server))


MULTI, EXEC = b"*1\r\n$5\r\nMULTI\r\n", b"*1\r\n$4\r\nEXEC\r\n"


def cut_open_transaction(server):
    """Of a server that has died: a transaction at the end that has no EXEC goes, whole.

    A server that finds the end in the middle of a command inside MULTI takes only this command away, and writes on
    behind it: at the next start the open MULTI swallows the one that follows (valkey-io/valkey#4342 mends it in newer
    ones). What is tested is the module, so this is done for the server, as `redis-check-aof --fix` does it.
    """
    path = increments(server)[-1]
    written = path.read_bytes()
    begin = written.rfind(MULTI)
    if begin > written.rfind(EXEC):
        path.write_bytes(written[:begin])


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
