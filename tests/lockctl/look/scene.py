"""Locks with holders and waiters."""

import json
import os
import subprocess

from harness import wait_for

LOCKCTL = os.path.abspath("build/lockctl/lockctl")
HOUR = 3600 * 1000


def ask(*words, url=None, **options):
    """Runs lockctl to its end; returns the finished process, with its output as text."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    if url:
        environment["LOCKCTL_URL"] = url
    return subprocess.run([LOCKCTL, *words], capture_output=True, text=True, env=environment, timeout=60, **options)


def ask_json(*words, **options):
    done = ask(*words, "--json", **options)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def url_of(server):
    return f"redis://127.0.0.1:{server.port}"


def hold(server, key, owner="h", db=0):
    client = server.client(db=db, decode_responses=False)
    assert client.execute_command("LOCK.ACQUIRE", key, owner, "PX", HOUR) == 1


def wait(server, key, owner, db=0):
    """Starts a client that waits; returns its actor."""
    actor = server.actor(owner)
    actor.call("SELECT", db)
    actor.send("LOCK.ACQUIRE", key, owner, "PX", HOUR, "BLOCK", "0")
    actor.wait_blocked()
    return actor


def contend(server, key, waiters, db=0):
    hold(server, key, f"{key}-holder", db)
    return [wait(server, key, f"{key}-waiter-{i}", db) for i in range(waiters)]


def contend_many(server, count, at_once=500):
    """Makes `count` locks that are held and have a waiter. A client waits for up to `at_once` of them."""
    control = server.control.pipeline(transaction=False)
    names = [f"lock-{i:05}" for i in range(count)]
    for name in names:
        control.execute_command("LOCK.ACQUIRE", name, "h", "PX", HOUR)
    control.execute()
    for start in range(0, count, at_once):
        part = names[start : start + at_once]
        server.actor(f"w{start}").send("LOCK.MACQUIRE", len(part), *part, f"w{start}", "PX", HOUR, "BLOCK", "0")
    wait_for(lambda: server.info("lock")["lock_contended_locks"] == count, 30, "all to have a waiter")
    return names


class Cluster:
    """Three masters."""

    def __init__(self, make_server):
        self.nodes = [make_server(cluster_enabled="yes", cluster_node_timeout=5000) for _ in range(3)]
        step = 16384 // 3 + 1
        for i, node in enumerate(self.nodes):
            node.control.execute_command("CLUSTER", "ADDSLOTSRANGE", i * step, min((i + 1) * step, 16384) - 1)
            node.control.execute_command("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        first, *others = self.nodes
        for node in others:
            bus = node.control.config_get("cluster-port")["cluster-port"]
            first.control.execute_command("CLUSTER", "MEET", "127.0.0.1", node.port, bus)
        for node in self.nodes:
            wait_for(lambda node=node: self._is_whole(node), 20, "the cluster to be whole")

    @staticmethod
    def _is_whole(node):
        info = node.control.execute_command("CLUSTER", "INFO")
        text = info if isinstance(info, str) else str(info)
        return "cluster_state:ok" in text.replace("': '", ":") and len(node.control.cluster("SLOTS")) == 3

    def node_of(self, key):
        slot = self.nodes[0].control.execute_command("CLUSTER", "KEYSLOT", key)
        return self.nodes[slot * 3 // 16385]
