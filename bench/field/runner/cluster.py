"""A cluster of several masters on the loopback interface, and what they have used together."""

import time

from .server import HOST, START_S, Server

SLOTS = 16384


class Cluster:
    def __init__(self, program, folder, module, nodes):
        settings = ["--cluster-enabled", "yes", "--cluster-node-timeout", "5000"]
        self.nodes = []
        try:
            for i in range(nodes):
                self.nodes.append(Server(program, folder / f"node-{i}", module, settings))
            self._join()
        except BaseException:
            self.__exit__()
            raise
        self.folder, self.port = folder, self.nodes[0].port

    def _join(self):
        count = len(self.nodes)
        for i, node in enumerate(self.nodes):
            first, last = SLOTS * i // count, SLOTS * (i + 1) // count - 1
            node.client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
            node.client.execute_command("CLUSTER", "MEET", HOST, self.nodes[0].port)
        give_up = time.monotonic() + START_S
        while not all(self._knows_all(node) for node in self.nodes):
            if time.monotonic() > give_up:
                raise SystemExit("bench-field: the cluster does not form")
            time.sleep(0.05)

    def _knows_all(self, node):
        known = node.client.cluster("info")
        return known["cluster_state"] == "ok" and int(known["cluster_known_nodes"]) == len(self.nodes)

    def cpu_seconds(self):
        """The CPU seconds of each node."""
        return [node.usage()["cpu_s"] for node in self.nodes]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            node.__exit__()
