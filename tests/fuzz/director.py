"""What is done to the servers as a whole while connections send: from time to time one of several actions."""

import time
from random import Random

from harness import wait_for_sync
from harness.connect import HOST
from neighbours import PREPARATIONS
from redis.exceptions import ResponseError

EVERY_S = 0.03


class Director:
    """For a master and its replica, which swap roles; or for a master alone."""

    def __init__(self, servers, seed):
        self.servers = list(servers)
        self._random, self._next = Random(seed), 0
        self._configs = {server: server.control.config_get("*") for server in servers}
        self._actions = [
            (30, self._unblock),
            (20, self._kill),
            (10, self._pause),
            (60, self.restore),
            (1, self._reload),
            (1, self._save),
            (1, self._rewrite),
            (1, self._new_id),
            (1, self._cut_replica),
            (1, self._fail_over),
        ]

    def step(self):
        """Sends PING to both, which raises an exception if one has failed; then performs an action."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY_S
        for server in self.servers:
            server.control.ping()
        weights = [weight for weight, _ in self._actions]
        [(_, action)] = self._random.choices(self._actions, weights)
        action()

    @property
    def master(self):
        return self.servers[0]

    def _attempt(self, *words, server=None):
        """For commands that the server sometimes refuses: for example a save while another one runs."""
        try:
            return (server or self.master).control.execute_command(*words)
        except ResponseError:
            return None

    def _some_client(self):
        own = self.master.control.client_id()
        ids = [int(client["id"]) for client in self.master.control.client_list(_type="normal")]
        others = [number for number in ids if number != own]
        return self._random.choice(others) if others else 0

    def _unblock(self):
        # Servers before Redis 8.6 and Valkey 9 panic when a client is unblocked that CLIENT PAUSE has blocked.
        pipeline = self.master.control.pipeline(transaction=False)
        pipeline.execute_command("CLIENT", "UNPAUSE")
        pipeline.execute_command("CLIENT", "UNBLOCK", self._some_client(), self._random.choice(["TIMEOUT", "ERROR"]))
        pipeline.execute(raise_on_error=False)

    def _pause(self):
        # Not among the clients' commands: in MULTI, Redis up to 8.6 then aborts in a write to a key that has expired.
        self._attempt("CLIENT", "PAUSE", self._random.choice([1, 5, 20]), self._random.choice(["WRITE", "ALL"]))

    def _kill(self):
        self._attempt("CLIENT", "KILL", "ID", self._some_client())

    def _reload(self):
        # A server that reloads during a BGSAVE counts its changes wrong afterwards, and writes DEBUG itself to the AOF.
        if self.master.info("persistence")["rdb_bgsave_in_progress"]:
            return
        self._attempt(*self._random.choice([("DEBUG", "RELOAD"), ("DEBUG", "LOADAOF")]))
        # It has skipped expired keys without notifying the replica, which has to synchronise again.
        self._new_id()
        self._attempt("CLIENT", "KILL", "TYPE", "replica")

    def _save(self):
        self._attempt("BGSAVE")

    def _rewrite(self):
        self._attempt("BGREWRITEAOF")

    def _new_id(self):
        self._attempt("DEBUG", "CHANGE-REPL-ID")

    def _cut_replica(self):
        side, other = self._random.choice([(0, "replica"), (-1, "master")])
        self._attempt("CLIENT", "KILL", "TYPE", other, server=self.servers[side])

    def _fail_over(self):
        """The replica becomes the master. What the old master has not sent to it is lost, as in a real failover."""
        if len(self.servers) == 1:
            return
        self.servers.reverse()
        master, replica = self.servers
        master.control.execute_command("REPLICAOF", "NO", "ONE")
        replica.control.execute_command("REPLICAOF", HOST, master.port)

    def restore(self):
        """Restores all settings, users and functions."""
        for server, before in self._configs.items():
            now = server.control.config_get("*")
            for name, value in before.items():
                if now.get(name) != value:
                    self._attempt("CONFIG", "SET", name, value, server=server)
            self._attempt("CLIENT", "UNPAUSE", server=server)
            for words in PREPARATIONS:
                self._attempt(*words, server=server)

    def quiet(self):
        """No further actions: restores settings, and waits until the replica has the master's data."""
        self.restore()
        if len(self.servers) == 2:
            wait_for_sync(*self.servers, timeout=60)
