"""A server's AOF: its contents as commands, and how to rewrite it."""

import io
import re

from .waiting import wait_for


def increments(server):
    """The incremental files that follow the base file, as the manifest names them, in order."""
    folder = server.folder / "appendonlydir"
    manifest = (folder / "appendonly.aof.manifest").read_text()
    return [folder / name for name in re.findall(r"^file (\S+) seq \d+ type i", manifest, re.M)]


def aof_of(server):
    """The contents of its AOF after the base file."""
    return b"".join(path.read_bytes() for path in increments(server))


MULTI, EXEC = b"*1\r\n$5\r\nMULTI\r\n", b"*1\r\n$4\r\nEXEC\r\n"


def cut_open_transaction(server):
    """Removes a transaction without EXEC, whole, from the end of the AOF of a server that has died.

    A server whose AOF ends in the middle of a command inside MULTI removes only this command, and appends to the file.
    At the next start the open MULTI swallows the transaction that follows it (valkey-io/valkey#4342 fixes that in
    newer servers). The module is what is tested, so this function does the server's work, as `redis-check-aof --fix`
    does.
    """
    path = increments(server)[-1]
    written = path.read_bytes()
    begin = written.rfind(MULTI)
    if begin > written.rfind(EXEC):
        path.write_bytes(written[:begin])


def commands_in(stream):
    """The commands in a RESP stream, as lists of strings, without SELECT."""
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
