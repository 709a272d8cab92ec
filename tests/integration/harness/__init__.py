"""Servers, clients and waiting for the integration tests. README.md, one folder up, is the cheat sheet."""

from .actor import Actor
from .dataset import dump
from .errors import code_of
from .launch import Launch, launching
from .replication import wait_for_sync
from .seeds import drawn_from
from .server import Server, ServerDied
from .servers import Servers
from .waiting import drawn, fewer, scaled, scaled_ms, wait_for

__all__ = [
    "Actor",
    "Launch",
    "Server",
    "ServerDied",
    "Servers",
    "code_of",
    "drawn",
    "drawn_from",
    "dump",
    "fewer",
    "launching",
    "scaled",
    "scaled_ms",
    "wait_for",
    "wait_for_sync",
]
