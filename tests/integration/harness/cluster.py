"""A cluster as its users and its administrator see it: a client that follows its slots, and `redis-cli --cluster`."""

import shutil
import subprocess
from collections import Counter

from redis.exceptions import ResponseError

from .connect import HOST, new_connection
from .errors import code_of
from .waiting import scaled, wait_for


class ClusterClient:
    """Says a command to the node that has its key, wherever that goes meanwhile. One connection to each node.

    Not for several threads at once. Sends nothing but what it is told, and ASKING.
    """

    def __init__(self, port):
        self._first, self._connections, self._ports = port, {}, {}
        self.heard = Counter()  # the redirections, by their code

    def call(self, tag, *words, timeout=60.0):
        """Returns the answer; an error that no redirection is raised. `tag` is what its keys hash by."""
        return wait_for(lambda: self._answer(tag, words), timeout, f"an answer to {words}")[0]

    def _answer(self, tag, words):
        """[the answer], or None when it is to be asked again a little later."""
        port, asks = self._ports.get(tag, self._first), False
        while True:
            try:
                return [self._say(port, words, asks)]
            except ResponseError as error:
                code, text = code_of(error), str(error)
                if code not in ("MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN"):
                    raise
            self.heard[code] += 1
            if code in ("TRYAGAIN", "CLUSTERDOWN"):
                return None
            port, asks = int(text.rsplit(":", 1)[1]), code == "ASK"
            if code == "MOVED":
                self._ports[tag] = port

    def _say(self, port, words, asks):
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
    """Runs `redis-cli --cluster command host:port options …`; fails, with what it said, unless its exit status is 0."""
    program = shutil.which("redis-cli") or shutil.which("valkey-cli")
    assert program, "neither redis-cli nor valkey-cli is there; tools/setup test installs one"
    words = [program, "--cluster", command, f"{HOST}:{node.server.port}", *map(str, options)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=scaled(timeout), stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"{words} ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout
