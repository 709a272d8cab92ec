"""A cluster as its users and its administrator see it: a client that follows redirections; `redis-cli --cluster`."""

import shutil
import subprocess
from collections import Counter

from redis.exceptions import ResponseError

from .connect import HOST, new_connection
from .errors import code_of
from .waiting import scaled, wait_for


class ClusterClient:
    """Sends a command to the node that has its key, also while the key moves. It has one connection to each node.

    Not for several threads at once. It sends only the commands that it is given, and ASKING.
    """

    def __init__(self, port):
        self._first, self._connections, self._ports = port, {}, {}
        self.redirections = Counter()  # how many redirections it has received, by their code

    def call(self, tag, *words, timeout=60.0):
        """Returns the reply; an error that is no redirection is raised. `tag` is the hash tag of its keys."""
        return wait_for(lambda: self._reply(tag, words), timeout, f"a reply to {words}")[0]

    def _reply(self, tag, words):
        """[the reply], or None if the command must be sent again a little later."""
        port, asks = self._ports.get(tag, self._first), False
        while True:
            try:
                return [self._send(port, words, asks)]
            except ResponseError as error:
                code, text = code_of(error), str(error)
                if code not in ("MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN"):
                    raise
            self.redirections[code] += 1
            if code in ("TRYAGAIN", "CLUSTERDOWN"):
                return None
            port, asks = int(text.rsplit(":", 1)[1]), code == "ASK"
            if code == "MOVED":
                self._ports[tag] = port

    def _send(self, port, words, asks):
        connection = self._connections.get(port)
        if connection is None:
            connection = self._connections[port] = new_connection(port)
        if asks:
            connection.send_command("ASKING")
            connection.read_response()
        connection.send_command(*words)
        return connection.read_response(timeout=scaled(60), disconnect_on_error=False)

    def close(self):
        for connection in self._connections.values():
            connection.disconnect()


def manage(command, node, *options, timeout=120):
    """Runs `redis-cli --cluster command host:port options …`; fails, and shows its output, unless it exits with 0."""
    program = shutil.which("redis-cli") or shutil.which("valkey-cli")
    assert program, "neither redis-cli nor valkey-cli is there; tools/setup test installs one"
    words = [program, "--cluster", command, f"{HOST}:{node.server.port}", *map(str, options)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=scaled(timeout), stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"{words} ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout
