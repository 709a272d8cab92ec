"""Servers that are stopped together."""

import tempfile
from pathlib import Path

from .server import Server


class Servers:
    """Makes servers, and stops them all at the end."""

    def __init__(self, launch):
        self._launch, self._made = launch, []

    def make(self, **config):
        folder = Path(tempfile.mkdtemp(dir=self._launch.root, prefix="s")) / "d"
        server = Server(self._launch, folder, **config)
        self._made.append(server)
        return server

    def end(self):
        problems = [text for server in self._made for text in server.stop_all()]
        self._made = []
        return problems
