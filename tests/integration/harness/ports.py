"""Free TCP ports on the loopback."""

import socket

# A cluster node's bus listens 10000 higher.
HIGHEST_PORT = 65535 - 10000


def free_port():
    """A port on which no process listens. Another process may take it before the server does: Server tries again."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port <= HIGHEST_PORT:
            return port
