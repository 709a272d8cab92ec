"""lockctl on terminals that are closed at the end, and a cluster."""

import pytest
from scene import LOCKCTL, Cluster
from terminal import Terminal


@pytest.fixture
def open_terminal():
    """open_terminal("top", url=...): lockctl on its own terminal."""
    terminals = []

    def start(*words, url, **options):
        terminals.append(Terminal(LOCKCTL, *words, LOCKCTL_URL=url, **options))
        return terminals[-1]

    yield start
    for terminal in terminals:
        terminal.close()


@pytest.fixture
def make_cluster(make_server):
    return lambda: Cluster(make_server)
